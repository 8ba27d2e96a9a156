"""A request held against its table and planned: what is wrong with the request is found here, before anything is spent.

Charges nothing, draws nothing. Of the rows it reads their number, where that is public, and their fingerprint, which stays
with the ledger; and for the paper's preparation what that takes from them.
"""

from __future__ import annotations

from decimal import Decimal

from saibot.errors import InvalidInput, InvalidTable
from saibot.privacy.budget import Budget
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.privacy.neighbours import Neighbours
from saibot.privatize import bounds, local, paper
from saibot.privatize.aggregate import Rows, count_rows
from saibot.privatize.component import component_plans
from saibot.privatize.prepare import Grid, box_fits, check_bounds, clip_length
from saibot.privatize.read import TableLike, open_table
from saibot.privatize.release import MAX_BITS, choose_grid, value_count
from saibot.privatize.request import Prepared, Progress, ReleaseRequest
from saibot.privatize.schema import (
    ReleaseKey,
    check_names,
    check_types,
    default_bound_squared,
    resolve_features,
    resolve_key,
)


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
    return component_plans(main, rows, component)


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


def _check_grid(rows: Rows, plan: Plan, grid: Grid) -> None:
    """What preparation would refuse later, when the budget may have been spent: bounds and a norm bound too small for it."""
    for column in rows.columns:
        if column.feature is not None and column.feature.kind == "numeric":
            check_bounds(column.feature, Grid(MAX_BITS, grid.bound_squared))  # a component is bought on a grid of its own
    card_features = rows.card_features if plan.request.features > 1 else 1
    if not box_fits(grid, card_features):
        clip_length(grid, columns=plan.request.features, card_features=card_features)
