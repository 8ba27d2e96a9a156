"""A request held against its table and planned: what is wrong with the request is found here, before anything is spent.

Charges nothing, draws nothing. Of the rows it reads their number, where that is public, and their fingerprint, which stays
with the ledger; and for the paper's preparation what that takes from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from saibot.domains import KeyDomain
from saibot.errors import InvalidInput, InvalidTable, SaibotError
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan, mechanism_named
from saibot.privacy.neighbours import Neighbours
from saibot.privatize import bounds, paper
from saibot.privatize.aggregate import Rows, count_rows
from saibot.privatize.coverage import coverage_event, coverage_price
from saibot.privatize.grid import Grid, box_fits, check_bounds, clip_length
from saibot.privatize.key_search import check_enough_individuals, known_list, with_domain
from saibot.privatize.read import Source, TableLike, open_table
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
from saibot.privatize.shares import Wanted, release_plans

MOST_SUMS = 10_000  # of one query: where the sums of a group are longer than a block (some 10,900), DuckDB ends the process


def resolve(request: ReleaseRequest) -> Resolved:
    """Hold a request against its card. No table is needed for that."""
    card = request.card
    component = card.component if not request.paper_preparation else None
    chosen = component.of if component and not request.features else request.features
    columns = resolve_features(card, chosen)
    if component and len(columns) < component.keep:
        raise InvalidInput(f"{len(columns)} features have no {component.keep} components.", hint="Name more with --feature.")
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
    return prepare_together(table, (request,), ledger, progress=progress)[0]


def prepare_together(
    table: TableLike, requests: Sequence[ReleaseRequest], ledger: Ledger, *, progress: Progress = lambda s, p: None
) -> tuple[Prepared, ...]:
    """The same for one release by several keys: requests that differ in their key only, planned together."""
    resolved = [_with_known_keys(resolve(request), ledger) for request in requests]
    request, columns, component = requests[0], resolved[0].columns, resolved[0].component
    facts = request.card.dataset
    progress("reading the table's columns", None)
    keys = [one.key for one in resolved]
    source = _opened(table, request, columns, keys)
    secret = ledger.secret(f"rows kept in {facts.account or facts.name}")
    every = [Rows(source, columns, (), key, facts.id, facts.rows_per_individual, secret) for key in keys]
    if request.paper_preparation:
        every = [paper.prepare_as_in_paper(rows) for rows in every]
    row_count = _public_count(every[0], progress) if resolved[0].plan_request.row_count_public else None
    if request.model == "local" and row_count != 1:
        raise InvalidTable(
            "in the local model everybody privatises their own row, and this table has more than one.",
            hint="`saibot contribute` takes the row of one individual; `saibot collect` adds up what they send.",
        )
    most_rows = _most_rows(request, row_count)
    bought = bounds.prices(columns, request.budget) if not request.paper_preparation else {}
    wanted = [Wanted(replace(one.plan_request, rows=row_count), one.key.to_find if one.key else None) for one in resolved]
    covered = [_coverage_price(one, most_rows) for one in resolved]
    also = [coverage_event(price, request.budget) for price in covered if price is not None]
    plans = release_plans(wanted, columns, component, bought, dataset=facts, most_rows=most_rows, also=also)
    fingerprint = ledger.fingerprint(source.content())
    ready = []
    each = zip(requests, every, plans.releases, plans.findings, wanted, covered, strict=True)
    for asked, rows, plan, finding, one, count_price in each:
        grid = choose_grid(plan, most_rows=most_rows)
        _check_grid(rows, plan, grid, _directions(request, columns))
        if finding is not None and one.to_find is not None:
            check_enough_individuals(finding, one.to_find, most_rows)
        draws = value_count(plan, rows.key.level_sizes if rows.key else ())
        numbers = (row_count, most_rows, grid, draws, fingerprint)
        ready.append(Prepared(asked, rows, plan, plans.component, bought, *numbers, finding, count_price))
    bounds.check_enough_rows(bought, most_rows, facts.rows_per_individual)
    return tuple(ready)


def _coverage_price(resolved: Resolved, most_rows: int) -> Decimal | None:
    """What the count of rows in the domain of a key is bought for. Keys that have yet to be found are in the rows."""
    request, key = resolved.request, resolved.key
    if key is None or key.to_find is not None:
        return None
    each = request.card.dataset.rows_per_individual
    return coverage_price(request.coverage, request.budget, most_rows=most_rows, rows_per_individual=each)


def _opened(table: TableLike, request: ReleaseRequest, columns: list[Column], keys: Sequence[ReleaseKey | None]) -> Source:
    """The table with the columns that are needed, which are there and of usable types."""
    id_column = request.card.dataset.id
    needed = [column.column for column in columns] + [part.column for key in keys if key for part in key.parts]
    wanted = [*dict.fromkeys(needed), *([id_column] if id_column else [])]
    source = open_table(table, columns=wanted, id_column=id_column, backend=request.backend)
    schema = dict(source.table.schema().items())
    for key in keys:
        check_names(columns, key, id_column, schema)
        check_types(columns, key, schema)
    return source


def with_found_keys(ready: Prepared, domain: KeyDomain) -> Prepared:
    """A release whose keys were found meanwhile. How noise is divided may depend on their number; what it costs does not."""
    assert ready.rows.key is not None
    key = with_domain(ready.rows.key, domain)
    plan = make_plan(replace(ready.plan.request, keys=_planned_keys(ready.plan.request, key)))
    grid = choose_grid(plan, most_rows=ready.most_rows)
    rows, draws = replace(ready.rows, key=key), value_count(plan, key.level_sizes)
    found = replace(ready, rows=rows, plan=plan, grid=grid, draws=draws)
    if found.events != ready.events:
        raise SaibotError("internal: the number of keys changed what a release costs; nothing was released.")
    return found


def _with_known_keys(resolved: Resolved, ledger: Ledger) -> Resolved:
    """Keys that were found on this machine before, under the name in the card, need not be found again."""
    key = resolved.key
    part = key.to_find if key is not None else None
    if key is None or part is None or part.to_find is None or (known := known_list(part.to_find, ledger.home)) is None:
        return resolved
    key = with_domain(key, known)
    planned = replace(resolved.plan_request, keys=_planned_keys(resolved.plan_request, key))
    return replace(resolved, key=key, plan_request=planned)


def _planned_keys(request: PlanRequest, key: ReleaseKey | None) -> tuple[int, ...]:
    """The public sizes of the key levels that a plan reads. Keys that have yet to be found are none."""
    return key.level_sizes if request.layout_facts.levels and key is not None and key.to_find is None else ()


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
    reduced = _directions(request, columns)
    sums = math.comb(len(columns) + request.order, request.order)
    if sums > MOST_SUMS:
        raise InvalidInput(
            f"the products of {len(columns):,} features are {sums:,} sums, and {MOST_SUMS:,} are taken at once.",
            hint="Choose fewer features with --feature; noise grows with their number, so fewer say more.",
        )
    squared = request.bound**2 if request.bound else Decimal(reduced) if reduced else default_bound_squared(columns)
    return PlanRequest(
        mechanism=request.mechanism,
        layout=layout.name,
        features=reduced or len(columns),
        bound_squared=squared,
        order=request.order,
        budget=request.budget,
        neighbours=request.neighbours,
        row_count_public=request.neighbours is Neighbours.REPLACE_ONE and facts.id is None,
        calibration=request.calibration,
        allocation=request.allocation,
        levels=len(key.level_sizes) if layout.levels and key else 1,
        rows_per_individual=facts.rows_per_individual,
        keys=key.level_sizes if layout.levels and key and key.to_find is None else (),
    )


def _directions(request: ReleaseRequest, columns: list[Column]) -> int:
    """To how many principal components the columns are reduced; 0 where they are released themselves."""
    if request.paper_preparation:
        return 1 if len(columns) > 1 else 0
    return request.card.component.keep if request.card.component is not None else 0


def _check_grid(rows: Rows, plan: Plan, grid: Grid, directions: int) -> None:
    """What preparation would refuse later, when the budget may have been spent: bounds and a norm bound too small for it."""
    for column in rows.columns:
        if column.feature is not None and column.feature.kind == "numeric":
            check_bounds(column.feature, Grid(MAX_BITS, grid.bound_squared))  # a component is bought on a grid of its own
    card_features = directions or rows.card_features
    if not box_fits(grid, card_features):
        clip_length(grid, columns=plan.request.features, card_features=card_features)
