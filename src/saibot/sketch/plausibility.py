"""Claims that a sketch's own numbers contradict, or that nobody can believe: told to people, never a reason to refuse.

The law of the noise is public, so what a sketch says of rows, sums and bounds has to agree with itself up to that noise.
Each test below is wrong about an honest sketch less than once in 10^8 times. Somebody who makes numbers up with care passes
all of them: a sketch without a flag is not thereby true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from saibot.sketch.sketch import Sketch

MANY_ROWS = 10**8
WRONG = 1e-9  # how often a test may be wrong about an honest sketch
ROUNDING = 1e-4  # of a sum: rows are rounded to the grid


@dataclass(frozen=True)
class Implausible:
    """One claim that is hard to believe. `code` is for programs and never changes."""

    code: str
    text: str


def implausible(sketch: Sketch) -> tuple[Implausible, ...]:
    """What is hard to believe of a sketch, each kind of it once."""
    found = [test(sketch) for test in (_rows, _many_rows, _noise, _bounds, _sums, _spread)]
    return tuple(one for one in found if one is not None)


def _rows(sketch: Sketch) -> Implausible | None:
    """The counts of all keys come to the number of rows, where that is public."""
    claimed, noise = sketch.header.rows, sketch.sigma("key", 0)
    if claimed is None or noise is None or not sketch.levels:
        return None
    counts = sketch.levels[0].values[:, 0]
    if abs(float(counts.sum()) - claimed) <= _beyond(sketch) * noise * math.sqrt(len(counts)) + 1e-6 * claimed:
        return None
    return Implausible("rows", f"its counts come to about {_about(counts.sum())} rows, and it claims {claimed:,}")


def _many_rows(sketch: Sketch) -> Implausible | None:
    claimed = sketch.header.rows
    if claimed is None and sketch.levels and (noise := sketch.sigma("key", 0)) is not None:
        counts = sketch.levels[0].values[:, 0]
        claimed = math.floor(counts.sum() - _beyond(sketch) * noise * math.sqrt(len(counts)))
    if claimed is None or claimed <= MANY_ROWS:
        return None
    return Implausible("many-rows", f"it claims {_about(claimed)} rows, which hardly any table has and nobody can check")


def _noise(sketch: Sketch) -> Implausible | None:
    """Noise that is claimed shows: counts are no whole numbers, and nothing varies less from key to key than noise does."""
    from scipy.special import chdtri

    if sketch.header.open or not sketch.levels:
        return None
    values, noise = sketch.levels[0].values, sketch.sigma("key", 0)
    counts = values[:, 0]
    if noise and (values[:, 0] == np.floor(counts)).all():
        steps = math.floor(4096 / noise)  # of the grid that noise is drawn on, within a row: at least so many
        if steps > 1 and len(counts) * math.log10(steps) > 12:
            return Implausible("noise", "its counts are whole numbers: the noise that it claims is not there")
    free = len(counts) - 1
    if sketch.plan is None or sketch.plan.noise != "gaussian" or free < 8:
        return None
    least = float(chdtri(free, 1 - WRONG / values.shape[1]))  # squares of noise alone come to less once in a billion times
    for order in (0, 1):
        sigma = sketch.sigma("key", order)
        columns = values[:, sketch.key_basis.slice(order)]
        if sigma and (np.square(columns - columns.mean(axis=0)).sum(axis=0) < least * sigma**2).any():
            return Implausible("noise", "its numbers vary less from key to key than the noise that it claims")
    return None


def _bounds(sketch: Sketch) -> Implausible | None:
    """A sum is at most as large as its count: features lie in [-1, 1] in scaled units."""
    sigma = sketch.sigma("key", 0), sketch.sigma("key", 1)
    if sigma[0] is None or sigma[1] is None or not sketch.levels:
        return None
    values, m = sketch.levels[0].values, len(sketch.features)
    sums, counts = np.abs(values[:, 1 : 1 + m]), values[:, :1]
    room = _beyond(sketch, sums.size) * math.hypot(sigma[0], sigma[1]) + ROUNDING * np.abs(counts) + 1e-6
    if (sums - counts <= room).all():
        return None
    return Implausible("bounds", "it has means beyond its own bounds")


def _sums(sketch: Sketch) -> Implausible | None:
    """What keys come to is what the table comes to, and what coarser keys come to."""
    m = len(sketch.features)
    orders = {order: sketch.key_basis.slice(order) for order in (0, 1)} if sketch.levels else {}
    for order, columns in orders.items():
        finest = sketch.sigma("key", order)
        if finest is None:
            continue
        totals = [(sketch.levels[0].values[:, columns].sum(axis=0), finest**2 * len(sketch.levels[0]))]
        for number, table in enumerate(sketch.levels[1:], start=1):
            if (sigma := sketch.sigma("key", order, level=number)) is not None:
                totals.append((table.values[:, columns].sum(axis=0), sigma**2 * len(table)))
        whole, sigma = sketch.whole(order), sketch.sigma("global", order)
        if order == 1 and whole is not None and sigma is not None and len(whole) == m:
            totals.append((whole, sigma**2))
        scale = max(float(np.abs(total).max()) for total, _ in totals)
        for total, variance in totals[1:]:
            room = _beyond(sketch, m) * math.sqrt(variance + totals[0][1]) + ROUNDING * scale + 1e-6
            if (np.abs(total - totals[0][0]) > room).any():
                return Implausible("sums", "its sums by key do not come to its sums of the whole table, or of coarser keys")
    return None


def _spread(sketch: Sketch) -> Implausible | None:
    """No mean of squares is below the square of the mean, where both are of the whole table and rows are known."""
    rows, sums, products = sketch.header.rows, sketch.whole(1), sketch.whole(2)
    sigma = sketch.sigma("global", 1), sketch.sigma("global", 2)
    m = len(sketch.features)
    if rows is None or sums is None or products is None or sigma[0] is None or sigma[1] is None or len(sums) != m:
        return None
    diagonal = np.cumsum([0, *range(m, 1, -1)])  # of packed pairs: x*x, x*y, ..., y*y
    squares, means = products[diagonal], sums / max(rows, 1)
    beyond = _beyond(sketch, m)
    room = beyond * (sigma[1] + 2 * np.abs(means) * sigma[0]) + beyond**2 * sigma[0] ** 2 / max(rows, 1)
    if (means * sums - squares <= room + ROUNDING * rows + 1e-6).all() and (squares <= rows * (1 + ROUNDING) + room).all():
        return None
    return Implausible("spread", "it has variances that no rows within its bounds have")


def _beyond(sketch: Sketch, tests: int = 1) -> float:
    """How many standard deviations noise is off once in a billion times, in any of so many numbers."""
    from scipy.special import ndtri

    if sketch.plan is not None and sketch.plan.noise == "laplace":
        return math.log(tests / WRONG) / math.sqrt(2)
    return float(-ndtri(WRONG / (2 * tests)))


def _about(count: float) -> str:
    """Three digits: `1,000,000,000`, `12,300`."""
    digits = max(len(str(int(abs(count)))) - 3, 0)
    return f"{round(int(count), -digits):,}"
