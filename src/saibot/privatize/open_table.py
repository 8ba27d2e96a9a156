"""A table that is no secret becomes an exact sketch: no noise, no budget, and the source where everybody can get the table.

Nothing private may become open by accident. A card that plans for privacy is refused, and so are rows that this machine's
ledger has ever charged, or rows that look like them: what was protected once stays protected.

Cells are clipped to the card's bounds and rounded to the grid, as in a private release: sums are then exact, and open and
private sketches of one table differ by noise alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from saibot.errors import InvalidCard, InvalidInput, InvalidTable
from saibot.privacy.budget import plain
from saibot.privacy.ledger import Ledger
from saibot.privacy.neighbours import Neighbours
from saibot.privatize.aggregate import ExactStatistics, Rows, aggregate, count_rows
from saibot.privatize.assemble import declared_types, header_key, level_keys
from saibot.privatize.card import BoughtBounds, Card, DatasetFacts
from saibot.privatize.doubts import no_numbers
from saibot.privatize.engines import DEFAULT_ENGINE, BackendName
from saibot.privatize.grid import Grid
from saibot.privatize.known_rows import resembling, samples_of
from saibot.privatize.read import TableLike, open_table
from saibot.privatize.release import MAX_BITS
from saibot.privatize.release_request import Progress
from saibot.privatize.schema import check_names, check_types, default_bound_squared, resolve_features, resolve_key
from saibot.sketch import Feature, Header, LevelTable, Sketch
from saibot.sketch.header import Assumptions, GlobalBlock, Preparation, TableFacts

QUESTION = "This table is public: anybody may see it, cell by cell, and this cannot be taken back."
OpenLayout = Literal["lookup", "semiring"]


@dataclass(frozen=True)
class OpenRequest:
    """What to publish of a public table. `layout` is of a sketch with a key: `semiring` has products for every key."""

    card: Card
    source: str
    key: str | None = None
    features: tuple[str, ...] = ()
    layout: OpenLayout = "lookup"
    backend: BackendName = DEFAULT_ENGINE

    def __post_init__(self) -> None:
        if not self.source.strip():
            raise InvalidInput(
                "an open table needs its source: a citation, or an address where everybody can get it.",
                hint='Say --source "Census 2020, table P1, https://data.census.gov".',
            )
        if self.layout not in ("lookup", "semiring"):
            raise InvalidInput(f"an open table's layout is lookup or semiring, not {self.layout!r}.")
        if stated := list(_plans_for_privacy(self.card)):
            raise InvalidCard(
                f"the card speaks of individuals to be protected: {', '.join(stated)}. That table is not open.",
                hint="Privatise it: `saibot privatize`. Of a public table, remove those lines from its card.",
            )


@dataclass(frozen=True)
class OpenTable:
    """The exact sketch of a public table, and sentences for its provider's own screen."""

    sketch: Sketch
    notes: tuple[str, ...] = field(default=(), repr=False)


def exact_sketch(
    table: TableLike, request: OpenRequest, ledger: Ledger, *, progress: Progress = lambda stage, part: None
) -> OpenTable:
    """The sketch of a table that is no secret. The ledger is asked whether it ever charged these rows, and not charged."""
    columns, key = resolve_features(request.card, request.features), resolve_key(request.card, request.key)
    progress("reading the table's columns", None)
    wanted = [column.column for column in columns] + [part.column for part in (key.parts if key else ())]
    source = open_table(table, columns=wanted, backend=request.backend)
    schema = dict(source.table.schema().items())
    check_names(columns, key, None, schema)
    check_types(columns, key, schema)
    rows = Rows(source, columns, (), key, None, 1)
    progress("counting rows", None)
    count = count_rows(rows)
    if count == 0:
        raise InvalidTable("the table has no rows.", hint="There is nothing in it to publish.")
    progress("looking for rows that were charged", None)
    _check_never_charged(rows, count, request.card.dataset, ledger)
    progress("aggregating", None)
    bits = min(MAX_BITS, (52 - max(count - 1, 1).bit_length()) // 2)  # so fine that sums of products stay exact
    found = aggregate(rows, Grid(bits, default_bound_squared(columns)), order=2)
    if key is not None and found.levels[0][-1, 0] == found.rows:
        raise InvalidTable(
            f"no row has a key of the domain of {key.name!r}.", hint="Mend the key's column or its domain in the card."
        )
    return OpenTable(_assembled(request, rows, found), tuple(doubt.text for doubt in no_numbers(found)))


def _plans_for_privacy(card: Card) -> Iterator[str]:
    """Lines of a card that only a private release has a use for."""
    facts, defaults = card.dataset, DatasetFacts(name="x")
    for name in ("account", "individual", "neighbours", "rows_per_individual", "id", "max_rows"):
        if getattr(facts, name) != getattr(defaults, name):
            yield f"{name} in [dataset]"
    if card.budget is not None:
        yield "[budget]"
    if card.component is not None:
        yield "[component], which is bought"
    for name, feature in card.features.items():
        if isinstance(feature.bounds, BoughtBounds):
            yield f"bought bounds of {name!r}"
    for name, key in card.keys.items():
        if key.domain is not None and key.domain.find is not None:
            yield f"keys of {name!r} that are found, which is bought"


def _check_never_charged(rows: Rows, count: int, facts: DatasetFacts, ledger: Ledger) -> None:
    """Raise if the ledger protects the dataset, these very rows, or rows that look like them."""
    protected = []
    if ledger.account(facts.name) is not None or ledger.account_of(facts.name) is not None:
        protected.append(f"{facts.name!r} is protected by the ledger of this machine")
    if ledger.has_charged(ledger.fingerprint(rows.source.content())):
        protected.append("these very rows were charged to the ledger of this machine")
    samples = samples_of(
        rows.source,
        ledger,
        rows=count,
        numbers=[column.column for column in rows.columns if column.facts.levels is None],
        others=[column.column for column in rows.columns] + [part.column for part in rows.key_parts],
    )
    protected += resembling(samples, [known for known in ledger.known() if known.account is not None])
    if protected:
        raise InvalidInput(
            f"the table cannot be open: {protected[0]}, and what was protected once stays protected. Nothing was made.",
            hint="`saibot ledger` shows what was charged. A public table that only looks alike goes with another ledger: "
            "set SAIBOT_HOME to another folder.",
        )


def _assembled(request: OpenRequest, rows: Rows, found: ExactStatistics) -> Sketch:
    facts, whole = request.card.dataset, found.basis
    features: list[Feature] = []
    for column in rows.columns:
        assert column.feature is not None
        features.append(column.feature)
    per_key = whole.slice(1).stop if request.layout == "lookup" else whole.size
    scale = np.array([float(found.grid.one) ** monomial.order for monomial in whole.monomials])
    sums = found.whole / scale
    blocks = [GlobalBlock(order=order, values=tuple(map(float, sums[whole.slice(order)]))) for order in (1, 2)]
    header = Header(
        dataset=TableFacts(name=facts.name, title=facts.title, description=facts.description),
        features=tuple(features),
        key=header_key(rows.key),
        budget={},
        neighbours=Neighbours.REPLACE_ONE,  # under which a row count is public, as all of this is
        invariants={"rows": found.rows},
        bound_squared=plain(found.grid.bound_squared),
        plan={},
        grid_bits=found.grid.bits,
        preparation=Preparation(kind="public"),
        assumptions=Assumptions(
            rows_per_individual=1, row_count_public=True, key_domain_public=True, bounds_public=True, noise="none"
        ),
        simulation=False,
        global_blocks=tuple(blocks) if rows.key is None or request.layout == "lookup" else (),
        created=datetime.now(UTC).date().isoformat(),
        types=declared_types(rows),
        open=True,
        source=request.source.strip(),
    )
    values = [level[:, :per_key] / scale[:per_key] for level in found.levels]
    levels = tuple(LevelTable(keys, level) for keys, level in zip(level_keys(rows.key), values, strict=True))
    return Sketch(header, levels).sealed()
