"""A request held against its table and planned: what is wrong with the request is found here, before anything is spent.

Charges nothing, draws nothing. Of the rows it reads their number, where that is public, and their fingerprint, which stays
with the ledger; and for the paper's preparation what that takes from them.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from saibot.errors import InvalidInput, InvalidTable
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan, PlanRequest, mechanism_named
from saibot.privacy.neighbours import Neighbours
from saibot.privatize import bounds, paper
from saibot.privatize.aggregate import Rows, count_rows
from saibot.privatize.component import release_plans
from saibot.privatize.coverage import coverage_event, coverage_price
from saibot.privatize.grid import Grid, box_fits, check_bounds, clip_length
from saibot.privatize.read import TableLike, open_table
from saibot.privatize.release import MAX_BITS, choose_grid, value_count
from saibot.privatize.release_request import Prepared, Progress, ReleaseRequest, Resolved
from saibot.privatize.schema import (
    Column,
    ReleaseKey,
    check_names,
    check_types,
    default_bound_squared,
    resolve_features,
    resolve_key,
)


def resolve(request: ReleaseRequest) -> Resolved:
    """Hold a request against its card. No table is needed for that."""
    card = request.card
    component = card.component if not request.paper_preparation else None
    chosen = component.of if component and not request.features else request.features
    columns = resolve_features(card, chosen)
    if component and any(column.facts.levels is not None for column in columns):
        raise InvalidInput("a component is made of numeric features.", hint="Leave categorical ones out of its list.")
    if any(column.facts.log for column in columns) and (request.part is not None or request.paper_preparation):
        raise InvalidInput(
            "logarithms are for tables that others look up, not for requests, nor for the paper's preparation.",
            hint="Leave log out of the card, or put a column of logarithms into the table.",
        )
    key = resolve_key(card, request.key)
    plan_request = _plan_request(request, columns, key)
    # A looked-up value says most between narrow bounds; a target, a union and a component need the spread of their columns.
    looked_up = plan_request.layout == "lookup" and request.part is None and component is None
    columns = bounds.with_quantiles(columns, bounds.QUARTILES if looked_up else bounds.WIDE)
    return Resolved(request, columns, key, plan_request, component)


def prepare(
    table: TableLike, request: ReleaseRequest, ledger: Ledger, *, progress: Progress = lambda s, p: None
) -> Prepared:
    """Check a request against its table and plan it. Charges nothing, draws nothing."""
    resolved = resolve(request)
    columns, key, facts = resolved.columns, resolved.key, request.card.dataset
    progress("reading the table's columns", None)
    needed = [column.column for column in columns] + [part.column for part in (key.parts if key else ())]
    wanted = [*needed, *([facts.id] if facts.id else [])]
    source = open_table(table, columns=wanted, id_column=facts.id, backend=request.backend)
    schema = dict(source.table.schema().items())
    check_names(columns, key, facts.id, schema)
    check_types(columns, key, schema)
    secret = ledger.secret(f"rows kept in {facts.account or facts.name}")
    rows = Rows(source, columns, None, key, facts.id, facts.rows_per_individual, secret)
    if request.paper_preparation:
        rows = paper.prepare_as_in_paper(rows)
    row_count = _public_count(rows, progress) if resolved.plan_request.row_count_public else None
    if request.model == "local" and row_count != 1:
        raise InvalidTable(
            "in the local model everybody privatises their own row, and this table has more than one.",
            hint="`saibot contribute` takes the row of one individual; `saibot collect` adds up what they send.",
        )
    most_rows = _most_rows(request, row_count)
    bought = bounds.prices(columns, request.budget) if not request.paper_preparation else {}
    covered = coverage_price(
        request.coverage if key else None,
        request.budget,
        most_rows=most_rows,
        rows_per_individual=facts.rows_per_individual,
    )
    also = [] if covered is None else [coverage_event(covered, request.budget)]
    plans = release_plans(replace(resolved.plan_request, rows=row_count), columns, resolved.component, bought, also)
    grid = choose_grid(plans[0], most_rows=most_rows)
    _check_grid(rows, plans[0], grid)
    bounds.check_enough_rows(bought, most_rows, facts.rows_per_individual)
    draws = value_count(plans[0], key.level_sizes if key else ())
    fingerprint = ledger.fingerprint(source.content())
    return Prepared(request, rows, *plans, bought, row_count, most_rows, grid, draws, fingerprint, covered)


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


def _plan_request(request: ReleaseRequest, columns: list[Column], key: ReleaseKey | None) -> PlanRequest:
    """What to plan, but for the number of rows."""
    facts = request.card.dataset
    mechanism = mechanism_named(request.mechanism)
    layout = mechanism.layout(request.layout) if request.layout else mechanism.default_layout(keyed=key is not None)
    if (key is not None) != layout.keyed:
        needs = "a key" if layout.keyed else "no key"
        raise InvalidInput(f"layout {layout.name} needs {needs}.", hint="Choose it with --key, or another --layout.")
    if key and not layout.levels and len(key.level_sizes) > 1:
        raise InvalidInput(
            f"layout {layout.name} has no coarser key levels.", hint="Use --layout lookup, or a key without levels."
        )
    if request.bound is not None and not (request.bound.is_finite() and request.bound > 0):
        raise InvalidInput("the norm bound must be greater than 0.", hint="Leave --bound out for the default.")
    single = len(columns) > 1 if request.paper_preparation else request.card.component is not None
    squared = request.bound**2 if request.bound else Decimal(1) if single else default_bound_squared(columns)
    return PlanRequest(
        mechanism=request.mechanism,
        layout=layout.name,
        features=1 if single else len(columns),
        bound_squared=squared,
        order=request.order,
        budget=request.budget,
        neighbours=request.neighbours,
        row_count_public=request.neighbours is Neighbours.REPLACE_ONE and facts.id is None,
        calibration=request.calibration,
        allocation=request.allocation,
        levels=len(key.level_sizes) if layout.levels and key else 1,
        rows_per_individual=facts.rows_per_individual,
        keys=key.level_sizes if layout.levels and key else (),
    )


def _check_grid(rows: Rows, plan: Plan, grid: Grid) -> None:
    """What preparation would refuse later, when the budget may have been spent: bounds and a norm bound too small for it."""
    for column in rows.columns:
        if column.feature is not None and column.feature.kind == "numeric":
            check_bounds(column.feature, Grid(MAX_BITS, grid.bound_squared))  # a component is bought on a grid of its own
    card_features = rows.card_features if plan.request.features > 1 else 1
    if not box_fits(grid, card_features):
        clip_length(grid, columns=plan.request.features, card_features=card_features)
