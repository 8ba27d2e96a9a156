"""The local model: individuals who do not trust the provider privatise their own row, with the same mechanisms.

A single row is a table of one row, and any two rows are neighbours, so a plan for replace-one protects everything about it,
its key included. A report is what one individual sends; the sketch is the sum of all reports, and its noise grows with the
square root of their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from saibot.errors import SaibotError, UnsupportedPlan
from saibot.privacy.mechanisms import Plan
from saibot.privacy.neighbours import Neighbours
from saibot.privatize.aggregate import ExactStatistics, Rows, fold_keys, grid_rows
from saibot.privatize.noise import NoiseSource
from saibot.privatize.prepare import Grid
from saibot.privatize.release import NoisyStatistics, release, value_count
from saibot.semiring import Basis, lift

MOST_DRAWS = 50_000_000


def check_local(plan: Plan, key_counts: tuple[int, ...], individuals: int) -> int:
    """The number of noise draws; refused where it would take hours."""
    if plan.request.neighbours is not Neighbours.REPLACE_ONE or not plan.request.row_count_public:
        raise UnsupportedPlan("the local model protects one row of each individual under replace-one.")
    if any(block.centred for block in plan.blocks):
        raise UnsupportedPlan("fpm-opt for unions centres on the mean of all rows, which one individual does not know.")
    draws = value_count(plan, key_counts) * individuals
    if draws > MOST_DRAWS:
        raise UnsupportedPlan(
            f"the local model would draw {draws:,} noise values, at most {MOST_DRAWS:,} are allowed.",
            hint="Use a smaller key domain or layout lookup.",
        )
    return draws


def report(statistics: ExactStatistics, plan: Plan, noise: NoiseSource) -> NoisyStatistics:
    """What one individual sends: the release of a table that is their single row."""
    return release(statistics, plan, noise, most_rows=1)


def collect(reports: Iterable[NoisyStatistics]) -> NoisyStatistics:
    """The sum of all reports. They are private already, so this is anybody's arithmetic."""
    stream = iter(reports)
    first = next(stream)
    levels = [level.copy() for level in first.levels]
    whole = {order: values.copy() for order, values in first.whole.items()}
    for one in stream:
        for total, level in zip(levels, one.levels, strict=True):
            total += level
        for order, values in one.whole.items():
            whole[order] += values
    return NoisyStatistics(tuple(levels), whole)


def single_rows(rows: Rows, grid: Grid, *, order: int) -> Iterable[ExactStatistics]:
    """Each row of a table as a table of its own, where a provider collects on behalf of individuals."""
    basis = Basis(rows.features, order)
    fetched = rows.source.fetch(grid_rows(rows, grid))
    cells = np.column_stack([fetched.column(f"f{i}").to_numpy() for i in range(len(rows.features))])
    if (cells.astype(np.int64) ** 2).sum(axis=1).max(initial=0) > grid.norm_squared:
        raise SaibotError("internal: a row is longer than the bound; nothing was released. Please report this.")
    lifted = lift(basis, cells.astype(np.int64))
    for number in range(len(lifted)):
        one = lifted[number : number + 1]
        levels = fold_keys(rows.key, fetched.slice(number, 1), one) if rows.key else ()
        yield ExactStatistics(basis, grid, levels, one[0], rows=1)


def release_locally(
    rows: Rows, plan: Plan, grid: Grid, noise: NoiseSource, done: Callable[[int], None], draws_per_row: int
) -> tuple[NoisyStatistics, int]:
    """Collect the reports of all rows; returns their sum and their number."""
    individuals = 0

    def reports() -> Iterable[NoisyStatistics]:
        nonlocal individuals
        for statistics in single_rows(rows, grid, order=plan.request.order):
            individuals += 1
            yield report(statistics, plan, noise)
            done(draws_per_row)

    return collect(reports()), individuals
