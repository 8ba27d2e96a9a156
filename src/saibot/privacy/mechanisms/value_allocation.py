"""The allocation `values`, for providers whose sketches are looked up: noise divided so that the values are most certain.

A looked-up value is the sum of one deviation per key level, whose variance is t_l = rho^2 `typical_share`, rho^2 = B^2/(3m)
that of a feature spread evenly over its bounds. With the share p_l of the precision a level's reading has the noise a_l/p_l,
a_l = (1 + 1/(3m)) (s d_l/n)^2, s the noise of a sum at the whole budget. What stays unknown, sum_l t_l a_l/(t_l p_l + a_l),
is convex in the shares: p_l = (sqrt(a_l/lambda) - a_l/t_l)_+ with the lambda for which they add up to 1. Half of the
precision is then divided evenly, because t_l is typical and not known.

Counts get the noise that the sums leave them for free (mathematics.md, "Sensitivity"), the whole table's blocks a hundredth
of the precision each: they give the overall mean and the rows' variance, which need little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

WHOLE_TABLE = 0.01
EVENLY = 0.5


def level_shares(
    sizes: tuple[int, ...], rows: int, *, sum_noise: float, rho_squared: float, bound_squared: float
) -> np.ndarray:
    """The share of the precision that every key level gets, finest first; `sum_noise` is s of the module's docstring."""
    keys_per_row = np.array(sizes) / max(rows, 1)
    t = rho_squared * np.array([float(typical_share(size, rows)) for size in sizes])
    a = (1 + rho_squared / bound_squared) * (sum_noise * keys_per_row) ** 2
    low, high = 0.0, float(np.min((1 + a / t) / np.sqrt(a)))  # of 1/sqrt(lambda): at `high` one level has all of it
    for _ in range(200):
        middle = (low + high) / 2
        shares = np.maximum(np.sqrt(a) * middle - a / t, 0.0)
        low, high = (middle, high) if shares.sum() < 1 else (low, middle)
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(sizes), 1 / len(sizes))
    divided: np.ndarray = (1 - EVENLY) * shares + EVENLY / len(sizes)
    return divided


def typical_share(keys: int, rows: float | np.ndarray) -> np.ndarray:
    """How much of the variance of rows usually lies between the means of so many keys; `rows` in all of them together.

    A tenth for up to 32 keys, and a tenth more for every doubling, up to six: the finer the key, the more it tells. Where
    keys have few rows, chance comes on top: the mean of one row is that row. (Real tables of schools, school districts and
    neighbourhoods have medians of 0.07 to 0.11 for 5 and 32 keys, and of 0.5 to 0.6 for 106, 400 and 1138.)
    """
    share = min(max(np.log2(max(keys, 1)) - 4, 1.0), 6.0) / 10
    return np.asarray(share + (1 - share) * np.minimum(keys / np.maximum(rows, 1.0), 1.0))


def block_scales(places: Sequence[tuple[str, int, int]], shares: np.ndarray, *, bound_squared: float) -> list[float]:
    """Proportions of the noise scales of blocks (scope, level, order)."""
    bound = math.sqrt(bound_squared)
    return [
        bound**order / math.sqrt(float(shares[level]) if scope == "key" else WHOLE_TABLE) for scope, level, order in places
    ]
