"""Noisy statistics and public facts put together as a sketch. Nothing here has seen a row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from saibot.domains import OTHER
from saibot.privacy.account import Standing
from saibot.privacy.budget import plain
from saibot.privacy.mechanisms.found_keys import FindingPlan
from saibot.privatize import coverage, paper
from saibot.privatize.aggregate import Rows
from saibot.privatize.bounds import price_in_words
from saibot.privatize.coverage import KeyCoverage
from saibot.privatize.release import NoisyStatistics
from saibot.privatize.release_request import Prepared
from saibot.privatize.schema import ReleaseKey
from saibot.sketch import Feature, Header, Key, KeyPart, LevelTable, Sketch
from saibot.sketch.header import Assumptions, GlobalBlock, Preparation, TableFacts, TypeName, Types


def assemble(
    ready: Prepared,
    rows: Rows,
    noisy: NoisyStatistics,
    *,
    simulated: bool,
    edition: int,
    standing: Standing | None,
    covered: KeyCoverage | None = None,
    tuned: tuple[str, ...] = (),
    together: Sequence[str] = (),
) -> Sketch:
    """The sealed sketch. `rows` are asked for their columns alone: bounds and component may have been bought meanwhile.

    `together` are the keys that one release has sketches by, this one's among them; its budget is that of all of them.
    `standing` is of the account, None for a report of an individual, whose reports are not to be told to be of one person.
    """
    request, facts = ready.request, ready.request.card.dataset
    features: list[Feature] = []
    for column in rows.columns:
        assert column.feature is not None
        features.append(column.feature)
    header = Header(
        dataset=TableFacts(name=facts.name, title=facts.title, description=facts.description, individual=facts.individual),
        edition=edition,
        features=rows.components or tuple(features),
        key=header_key(rows.key),
        budget=request.budget.to_json(),  # type: ignore[arg-type]
        neighbours=request.neighbours,
        invariants={"rows": ready.row_count} if ready.row_count is not None else {},
        bound_squared=plain(ready.plan.request.bound_squared),
        plan=ready.plan.to_json(),
        grid_bits=ready.grid.bits,
        model=request.model,
        preparation=_preparation(ready, features, rows, covered, tuned, together),
        assumptions=Assumptions(
            rows_per_individual=facts.rows_per_individual,
            row_count_public=ready.row_count is not None,
            key_domain_public=ready.finding is None,
            bounds_public=not request.paper_preparation,
            noise="simulated" if simulated else "exact-integer",
        ),
        simulation=simulated,
        global_blocks=tuple(GlobalBlock(order=o, values=tuple(map(float, v))) for o, v in sorted(noisy.whole.items())),
        # The day only: a finer time would tell how long the rows took.
        created=datetime.now(UTC).date().isoformat(),
        types=declared_types(rows),
        account=standing.account if standing else None,
        spent=standing.spent.to_json() if standing else None,  # type: ignore[arg-type]
    )
    levels = tuple(LevelTable(keys, values) for keys, values in zip(level_keys(rows.key), noisy.levels, strict=True))
    return Sketch(header, levels).sealed()


def declared_types(rows: Rows) -> Types:
    """As the card declares them, under its own names: what the table's columns are called stays with the provider."""
    features: dict[str, TypeName] = {}
    for column in rows.columns:
        levels = column.facts.levels is not None
        name = column.feature.column if levels and column.feature and column.feature.column else column.name
        features[name] = "category" if levels else "numeric"
    return Types(features=features, keys={part.name: "date" if part.dates else "text" for part in rows.key_parts})


def _preparation(
    ready: Prepared,
    features: list[Feature],
    rows: Rows,
    covered: KeyCoverage | None,
    tuned: Sequence[str],
    together: Sequence[str],
) -> Preparation:
    if ready.request.paper_preparation:
        return Preparation(kind="nonprivate", steps=paper.STEPS)
    steps = [] if ready.finding is None else [_found_in_words(ready.finding, rows)]
    steps += [
        f"bounds of {name} bought for {price_in_words(price, ready.request.budget)}" for name, price in ready.bought.items()
    ]
    if covered is not None and ready.coverage is not None:
        paid = coverage.price_in_words(ready.coverage, ready.request.budget)
        steps.append(f"key coverage bought for {paid}: {covered.in_words()}")
    if ready.component_plan is not None:
        made_of = ", ".join(feature.name for feature in features)
        share = plain(ready.component_plan.request.share)
        many = "" if len(rows.components) == 1 else f"{len(rows.components)} "
        steps.append(f"{many}principal component{'s' if many else ''} of {made_of} bought for a share of {share}")
    kind: Literal["tuned", "bought", "public"] = "tuned" if tuned else "bought" if steps else "public"
    if tuned:
        steps.append(f"card changed after its rows were looked at: {', '.join(tuned)}"[:2000])
    if others := [key for key in together if key != ready.request.key]:
        share = plain(ready.plan.request.share)
        steps.append(
            f"released in one go with the keys {', '.join(others)}: a share of {share} of the budget is this sketch's"
        )
    return Preparation(kind=kind, steps=tuple(steps))


def _found_in_words(finding: FindingPlan, rows: Rows) -> str:
    (part,) = rows.key_parts
    price = f"μ={finding.mu:.3g} and δ={plain(finding.delta)}"
    return f"keys of {part.name} found for {price}: those that about {finding.least_individuals} individuals or more have"


def header_key(key: ReleaseKey | None) -> Key | None:
    """The key as a header names it."""
    if key is None:
        return None
    parts = tuple(
        KeyPart(
            name=part.name,
            domain=part.domain.id,
            version=part.domain.version,
            size=len(part.domain),
            digest=part.domain.digest,
            keys_digest=part.domain.keys_digest,
        )
        for part in key.parts
    )
    return Key(name=key.name, parts=parts, levels=key.parts[0].domain.level_names if len(parts) == 1 else ())


def level_keys(key: ReleaseKey | None) -> list[tuple[np.ndarray, ...]]:
    """The key columns of every level, catch-all last; a composite key's first part varies slowest."""
    if key is None:
        return []
    if len(key.parts) == 1:
        domain = key.parts[0].domain
        levels = range(1 + len(domain.level_names))
        return [(np.array([*domain.level_values(level), OTHER], dtype=object),) for level in levels]
    grids = np.meshgrid(*(np.array(part.domain.values, dtype=object) for part in key.parts), indexing="ij")
    return [tuple(np.append(grid.ravel(), OTHER) for grid in grids)]
