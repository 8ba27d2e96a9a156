"""From a table to a sketch: the whole way, in the order that keeps the promises.

Everything that can be wrong is found before anything is spent. The ledger is charged before the first draw of noise. The
sketch is safe on disk before its receipt is written. What cannot be undone is never in doubt.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from saibot.errors import InvalidInput, InvalidTable
from saibot.privacy.budget import Budget, plain
from saibot.privacy.events import Event, PureEvent
from saibot.privacy.ledger import Charge, Ledger, LedgerEntry
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.privacy.neighbours import Neighbours
from saibot.privatize import bounds, local, paper
from saibot.privatize.aggregate import Rows, aggregate, check_room, count_rows
from saibot.privatize.card import Card
from saibot.privatize.component import buy_component, moments_plan
from saibot.privatize.noise import NoiseSource, OpenDPNoise
from saibot.privatize.prepare import Grid, box_fits, check_bounds, clip_length
from saibot.privatize.read import BackendName, TableLike, open_table
from saibot.privatize.release import MAX_BITS, NoisyStatistics, choose_grid, release, value_count
from saibot.privatize.schema import (
    ReleaseKey,
    check_names,
    check_types,
    default_bound_squared,
    resolve_features,
    resolve_key,
)
from saibot.sketch import SUFFIX, Feature, Header, Key, KeyPart, LevelTable, Sketch, read_sketch, write_sketch
from saibot.sketch.domain import OTHER
from saibot.sketch.header import Assumptions, Dataset, GlobalBlock, Preparation

_REHEARSED_BITS = 8
Progress = Callable[[str, float | None], None]  # what is being done, and how much of it (None: not known)


@dataclass(frozen=True)
class ReleaseRequest:
    """What to release of a described table, and at which price."""

    card: Card
    budget: Budget
    neighbours: Neighbours
    key: str | None = None
    features: tuple[str, ...] = ()
    mechanism: str = "joint"
    layout: str | None = None  # None: lookup with a key, union without, for joint; join or union for the paper's
    order: int = 2
    bound: Decimal | None = None
    calibration: str | None = None
    allocation: str | None = None
    paper_preparation: bool = False
    per_tuple: bool = False
    new_version: bool = False
    backend: BackendName = "duckdb"


@dataclass(frozen=True)
class Prepared:
    """A request that has been checked against its table: everything public about the release, nothing spent yet."""

    request: ReleaseRequest
    rows: Rows
    plan: Plan
    component_plan: Plan | None
    bought: dict[str, Decimal]
    row_count: int | None  # public or None
    most_rows: int
    grid: Grid
    draws: int
    source: bytes = field(repr=False)

    @property
    def events(self) -> tuple[Event, ...]:
        paid: list[Event] = [PureEvent(epsilon) for epsilon in self.bought.values()]
        paid += self.component_plan.events if self.component_plan else ()
        return (*paid, *self.plan.events)


@dataclass(frozen=True)
class Released:
    """A sketch, the ledger's entry for it, and whether it had been bought before."""

    sketch: Sketch
    content: bytes = field(repr=False)
    entry: LedgerEntry
    repeated: bool


def privatize(
    table: TableLike,
    request: ReleaseRequest,
    ledger: Ledger,
    *,
    noise: NoiseSource | None = None,
    progress: Progress = lambda stage, part: None,
) -> Released:
    """Privatise a table and charge the ledger; the same request on the same rows returns the same sketch, free of charge."""
    noise = noise or OpenDPNoise()
    ready = prepare(table, request, ledger, progress=progress)
    charge = charge_for(ready, ledger)
    stored = ledger.find(charge)
    if stored is not None and (path := sketch_path(ledger, stored.digest)).is_file():
        content = path.read_bytes()
        sketch = read_sketch(content)
        if sketch.header.simulation == noise.simulated:  # a simulation does not stand in for a release, nor the reverse
            return Released(sketch, content, stored, repeated=True)
    if not ready.bought and not ready.component_plan and not request.per_tuple:
        # Nothing has to be drawn to know the exact sums: an unreadable table is found before it costs anything.
        progress("aggregating", None)
        exact = aggregate(ready.rows, ready.grid, order=request.order)
        entry = ledger.charge(charge)
        noisy = release(exact, ready.plan, noise, most_rows=ready.most_rows, done=_counter(progress, ready.draws))
        rows = ready.rows
    else:
        progress("reading the table", None)
        _rehearse(ready)
        entry = ledger.charge(charge)
        rows = _buy(ready, noise, progress)
        noisy = _draw(replace(ready, rows=rows), noise, progress)
    sketch = _assemble(ready, rows, noisy, noise, edition=entry.edition)
    content = write_sketch(sketch)
    write_safely(sketch_path(ledger, sketch.digest), content)
    ledger.receipt(entry, sketch.digest)
    return Released(sketch, content, replace(entry, digest=sketch.digest), repeated=False)


def prepare(
    table: TableLike, request: ReleaseRequest, ledger: Ledger, *, progress: Progress = lambda s, p: None
) -> Prepared:
    """Check a request against its table and plan it. Charges nothing, draws nothing."""
    card, facts = request.card, request.card.dataset
    component = card.component if not request.paper_preparation else None
    chosen = component.of if component and not request.features else request.features
    columns = resolve_features(card, chosen)
    if component and any(column.facts.levels is not None for column in columns):
        raise InvalidInput("a component is made of numeric features.", hint="Leave categorical ones out of its list.")
    key = resolve_key(card, request.key)
    # Text is read cell by cell; a type that an engine infers from all rows would let one row change how others are read.
    text = [part.column for part in key.parts] if key else []
    text += [column.column for column in columns if column.facts.levels is not None or column.facts.text == "missing"]
    text += [facts.id] if facts.id else []
    progress("reading the table's columns", None)
    source = open_table(table, text_columns=tuple(dict.fromkeys(text)), backend=request.backend)
    schema = dict(source.table.schema().items())
    check_names(columns, key, facts.id, schema)
    rows = Rows(source, columns, None, key, facts.id, facts.rows_per_individual)
    row_count_public = request.neighbours is Neighbours.REPLACE_ONE and facts.id is None
    try:
        check_types(columns, key, schema)
    except InvalidTable:
        if row_count_public and source.path is not None:
            _public_count(rows, progress)  # the columns of a file without rows have no type: say that it is empty instead
        raise
    if request.paper_preparation:
        rows = paper.prepare_as_in_paper(rows)
    row_count = _public_count(rows, progress) if row_count_public else None
    most_rows = _most_rows(request, row_count)
    plans = _plans(request, rows, key, row_count, row_count_public)
    grid = choose_grid(plans[0], most_rows=1 if request.per_tuple else most_rows)
    _check_grid(rows, plans[0], grid)
    draws = value_count(plans[0], key.level_sizes if key else ())
    if request.per_tuple:
        draws = local.check_local(plans[0], key.level_sizes if key else (), row_count or 0)
    fingerprint = ledger.fingerprint(source.content())
    bought = bounds.bought_shares(columns, request.budget) if not request.paper_preparation else {}
    return Prepared(request, rows, *plans, bought, row_count, most_rows, grid, draws, fingerprint)


def charge_for(ready: Prepared, ledger: Ledger) -> Charge:
    """What this release asks of the ledger. Its identity covers the card, the plan, the domains and the rows."""
    request = ready.request
    key = ready.rows.key
    identity = {
        "card": request.card.model_dump(mode="json", exclude={"budget"}),
        "plan": ready.plan.request.to_json(),
        "budget": request.budget.to_json(),
        "domains": [part.domain.digest for part in key.parts] if key else [],
        "key": request.key,
        "features": list(request.features),
        "paper": request.paper_preparation,
        "per_tuple": request.per_tuple,
    }
    release_id = ledger.fingerprint([json.dumps(identity, sort_keys=True).encode(), ready.source])
    return Charge(
        dataset=request.card.dataset.name,
        neighbours=request.neighbours,
        cap=request.card.budget.limit if request.card.budget else None,
        asked=request.budget,
        events=ready.events,
        source=ready.source,
        release=release_id,
        new_version=request.new_version,
    )


def sketch_path(ledger: Ledger, digest: str | None) -> Path:
    """Where this machine keeps its own copy of a sketch, to hand it out again."""
    return ledger.home / "sketches" / f"{digest}{SUFFIX}"


def write_safely(path: Path, content: bytes) -> None:
    """All of it or nothing, also through a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# ------------------------------------------------------------------------------------------------ inside


def _public_count(rows: Rows, progress: Progress) -> int:
    progress("counting rows", None)
    found = count_rows(rows)
    if found == 0:
        raise InvalidTable("the table has no rows.", hint="Under replace-one there is nobody in it to replace.")
    return found


def _most_rows(request: ReleaseRequest, row_count: int | None) -> int:
    limit = request.card.dataset.max_rows
    if row_count is not None:
        return row_count
    if limit is None:
        raise InvalidInput(
            "the row count is not public here, so the card must say how many rows there are at most.",
            hint="Write max_rows into its [dataset] section.",
        )
    return limit


def _plans(
    request: ReleaseRequest, rows: Rows, key: ReleaseKey | None, row_count: int | None, public: bool
) -> tuple[Plan, Plan | None]:
    """The plan of the release, and of the component's moments where one is bought."""
    layout = request.layout or _default_layout(request.mechanism, key)
    if (key is None) != (layout == "union"):
        needs = "no key" if layout == "union" else "a key"
        raise InvalidInput(f"layout {layout} needs {needs}.", hint="Choose it with --key, or another --layout.")
    if request.bound is not None and not (request.bound.is_finite() and request.bound > 0):
        raise InvalidInput("the norm bound must be greater than 0.", hint="Leave --bound out for the default.")
    component = request.card.component if not request.paper_preparation else None
    single = component is not None or rows.component is not None
    squared = request.bound**2 if request.bound else Decimal(1) if single else default_bound_squared(rows.columns)
    main = PlanRequest(
        mechanism=request.mechanism,
        layout=layout,
        features=1 if single else len(rows.columns),
        bound_squared=squared,
        order=request.order,
        budget=_after_bounds(request, rows),
        neighbours=request.neighbours,
        row_count_public=public,
        calibration=request.calibration,
        allocation=request.allocation,
        levels=len(key.level_sizes) if layout == "lookup" and key else 1,
        rows_per_individual=request.card.dataset.rows_per_individual,
        rows=1 if request.per_tuple else row_count,
        keys=key.level_sizes if layout == "lookup" and key else (),
    )
    if key and layout != "lookup" and len(key.level_sizes) > 1:
        raise InvalidInput(
            f"layout {layout} has no coarser key levels.", hint="Use --layout lookup, or a key without levels."
        )
    if component is None:
        return make_plan(main), None
    if request.per_tuple:
        raise InvalidInput("a component is bought from all rows together, which the local model does not have.")
    share = Decimal(component.buy)
    touched = make_plan(main).touched
    moments = moments_plan(main, rows, component, extra_touched=touched)
    rest = replace(main, share=1 - share, extra_touched=moments.touched - touched)
    return make_plan(rest), moments


def _check_grid(rows: Rows, plan: Plan, grid: Grid) -> None:
    """What preparation would refuse later, when the budget may have been spent: bounds and a norm bound too small for it."""
    for column in rows.columns:
        if column.feature is not None and column.feature.kind == "numeric":
            check_bounds(column.feature, Grid(MAX_BITS, grid.bound_squared))  # a component is bought on a grid of its own
    card_features = rows.card_features if plan.request.features > 1 else 1
    if not box_fits(grid, card_features):
        clip_length(grid, columns=plan.request.features, card_features=card_features)


def _default_layout(mechanism: str, key: ReleaseKey | None) -> str:
    if key is None:
        return "union"
    return "lookup" if mechanism == "joint" else "join"


def _after_bounds(request: ReleaseRequest, rows: Rows) -> Budget:
    """What is left of the budget once bounds are bought: pure purchases come off epsilon."""
    if request.paper_preparation:
        return request.budget
    spent = sum(bounds.bought_shares(rows.columns, request.budget).values(), Decimal(0))
    if spent >= request.budget.epsilon:
        raise InvalidInput("buying bounds would take the whole budget.", hint="Lower the shares, or declare public bounds.")
    if spent and request.per_tuple:
        raise InvalidInput("bounds are bought from all rows together, which the local model does not have.")
    return Budget(request.budget.epsilon - spent, request.budget.delta)


def _rehearse(ready: Prepared) -> None:
    """Read every cell as the release will, before that is paid: a table that cannot be read costs nothing.

    What bought bounds will be is not known yet, and does not matter for that. Nothing that is found here is kept.
    """
    columns = [
        column if column.feature else replace(column, feature=Feature(name=column.name, kind="numeric", lower=-1, upper=1))
        for column in ready.rows.columns
    ]
    grid = Grid(_REHEARSED_BITS, default_bound_squared(columns))
    found = aggregate(replace(ready.rows, columns=columns, component=None), grid, order=1)
    check_room(found.rows, ready.grid, ready.request.order)
    if ready.component_plan is not None:
        check_room(found.rows, choose_grid(ready.component_plan, most_rows=ready.most_rows), 2)


def _buy(ready: Prepared, noise: NoiseSource, progress: Progress) -> Rows:
    """Rows with their bought bounds and component filled in."""
    rows = ready.rows
    columns = []
    for column in rows.columns:
        if column.name in ready.bought:
            progress(f"buying bounds of {column.name}", None)
            column = replace(column, feature=bounds.buy_bounds(rows, column, ready.bought[column.name], noise))
        columns.append(column)
    rows = replace(rows, columns=columns)
    if ready.component_plan is not None:
        facts = ready.request.card.component
        assert facts is not None
        progress("buying the principal component", None)
        counter = _counter(progress, 1)
        feature = buy_component(rows, ready.component_plan, facts, noise, most_rows=ready.most_rows, done=counter)
        rows = replace(rows, component=feature)
    return rows


def _draw(ready: Prepared, noise: NoiseSource, progress: Progress) -> NoisyStatistics:
    done = _counter(progress, ready.draws)
    if ready.request.per_tuple:
        each = ready.draws // max(ready.row_count or 1, 1)
        noisy, _ = local.release_locally(ready.rows, ready.plan, ready.grid, noise, done, each)
        return noisy
    progress("aggregating", None)
    exact = aggregate(ready.rows, ready.grid, order=ready.request.order)
    return release(exact, ready.plan, noise, most_rows=ready.most_rows, done=done)


def _counter(progress: Progress, total: int) -> Callable[[int], None]:
    finished = 0

    def done(more: int) -> None:
        nonlocal finished
        finished += more
        progress("drawing noise", min(finished / max(total, 1), 1.0))

    return done


def _assemble(ready: Prepared, rows: Rows, noisy: NoisyStatistics, noise: NoiseSource, *, edition: int) -> Sketch:
    request, facts = ready.request, ready.request.card.dataset
    features: list[Feature] = []
    for column in rows.columns:
        assert column.feature is not None
        features.append(column.feature)
    header = Header(
        dataset=Dataset(name=facts.name, title=facts.title, description=facts.description, individual=facts.individual),
        edition=edition,
        features=(rows.component,) if rows.component else tuple(features),
        key=_header_key(rows.key),
        budget=request.budget.to_json(),  # type: ignore[arg-type]
        neighbours=request.neighbours,
        invariants={"rows": ready.row_count} if ready.row_count is not None else {},
        bound_squared=plain(ready.plan.request.bound_squared),
        plan=ready.plan.to_json(),
        grid_bits=ready.grid.bits,
        model="local" if request.per_tuple else "central",
        preparation=_preparation(ready, features, rows),
        assumptions=Assumptions(
            rows_per_individual=facts.rows_per_individual,
            row_count_public=ready.row_count is not None,
            key_domain_public=True,
            bounds_public=not request.paper_preparation,
            noise="simulated" if noise.simulated else "exact-integer",
        ),
        simulation=noise.simulated,
        global_blocks=tuple(GlobalBlock(order=o, values=tuple(map(float, v))) for o, v in sorted(noisy.whole.items())),
        # The day only: a finer time would tell how long the rows took.
        created=datetime.now(UTC).date().isoformat(),
    )
    levels = tuple(LevelTable(keys, values) for keys, values in zip(_level_keys(rows.key), noisy.levels, strict=True))
    return Sketch(header, levels).sealed()


def _preparation(ready: Prepared, features: list[Feature], rows: Rows) -> Preparation:
    if ready.request.paper_preparation:
        return Preparation(kind="nonprivate", steps=paper.STEPS)
    steps = [f"bounds of {name} bought for ε={plain(epsilon)}" for name, epsilon in ready.bought.items()]
    if ready.component_plan is not None:
        made_of = ", ".join(feature.name for feature in features)
        share = plain(ready.component_plan.request.share)
        steps.append(f"principal component of {made_of} bought for a share of {share}")
    return Preparation(kind="bought" if steps else "public", steps=tuple(steps))


def _header_key(key: ReleaseKey | None) -> Key | None:
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


def _level_keys(key: ReleaseKey | None) -> list[tuple[np.ndarray, ...]]:
    """The key columns of every level, catch-all last; a composite key's first part varies slowest."""
    if key is None:
        return []
    if len(key.parts) == 1:
        domain = key.parts[0].domain
        levels = range(1 + len(domain.level_names))
        return [(np.array([*domain.level_values(level), OTHER], dtype=object),) for level in levels]
    grids = np.meshgrid(*(np.array(part.domain.values, dtype=object) for part in key.parts), indexing="ij")
    return [tuple(np.append(grid.ravel(), OTHER) for grid in grids)]


def describe(ready: Prepared) -> dict[str, Any]:
    """A prepared release in words and numbers, for --dry-run: all of it public."""
    return {
        "dataset": ready.request.card.dataset.name,
        "budget": ready.request.budget.to_json(),
        "rows": ready.row_count,
        "values": ready.draws,
        "events": [event.to_json() for event in ready.events],
        "plan": ready.plan.to_json(),
        "grid": asdict(ready.grid) | {"bound_squared": plain(ready.grid.bound_squared)},
    }
