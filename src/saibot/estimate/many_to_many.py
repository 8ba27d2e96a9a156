"""Many-to-many joins: the moments of all pairs of rows with the same key, without the pairs.

The semi-ring product, summed over keys, is exactly what a materialised join would give: `naive`. That is seldom what one
wants to know. When both sides are projections of *one* table R of n rows, and the key says nothing about the attributes, the
join pairs each row mostly with strangers, and the covariance between the sides shrinks to a fraction of R's. Let c_k be the
rows per key, A = n / sum c^2, C = sum c^3 / (sum c^2)^2, K the covariance of f1 and f2 in R, s' moments divided by s'[c]:

    E s'[f1 f2] = A K + E f1 E f2,      E (s'[f1] s'[f2]) = C K + E f1 E f2,

so K = (s'[f1 f2] - s'[f1] s'[f2]) / (A - C), whatever the skew of the keys (mathematics.md, "Many-to-many joins"):
`unbiased`. Means and products within a side are taken from that side's own totals, which are R's. `paper` is the proposition
as published: c_k = n/d, and all moments read from the join.

When the key does carry signal, `unbiased` multiplies the between-key covariance by about n/d: a choice, never a default. A
lookup join (`lookup.py`) answers that case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Literal

import numpy as np

from saibot.errors import InvalidInput
from saibot.semiring import Gram, Moments, distinct

Estimator = Literal["naive", "unbiased", "paper"]


@dataclass(frozen=True)
class JoinedMoments:
    """A join as moments: of the whole, and what every key adds to the products around the means (d, m, m)."""

    gram: Gram
    scatter: np.ndarray


def join_gram(*sides: Moments, estimator: Estimator = "naive") -> Gram:
    """Moments over [1, features of all sides] of a join on one key: see `joined`."""
    return joined(*sides, estimator=estimator).gram


def joined(*sides: Moments, estimator: Estimator = "naive") -> JoinedMoments:
    """A join of two or more tables on one key. Names that repeat are numbered as in the semi-ring.

    `naive`: the join itself, its size the count. `unbiased` and `paper`: the one table that all sides are projections of,
    estimated pair by pair of sides, so any number of them can be joined.
    """
    if len(sides) < 2:
        raise InvalidInput("a join needs two tables.")
    if len({len(side) for side in sides}) > 1:
        raise InvalidInput("a join needs one key domain on both sides.", hint="Bring the finer key onto the coarser one.")
    if estimator == "naive":
        product = reduce(mul, sides)
        return JoinedMoments(product.gram(), product.scatter)
    features = sides[0].features
    for side in sides[1:]:
        renamed = distinct(features, side.features)
        features = (*features, *(renamed.get(name, name) for name in side.features))
    places, start = [], 1
    for side in sides:
        places.append(slice(start, start + len(side.features)))
        start += len(side.features)
    matrix, noise, scatter = np.zeros((start, start)), np.zeros((start, start)), np.zeros((len(sides[0]), start, start))
    count = float(np.mean([side.count for side in sides]))
    matrix[0, 0], noise[0, 0] = count, np.sqrt(sum(side.total_count_noise**2 for side in sides)) / len(sides)
    for place, side in zip(places, sides, strict=True):
        scale = count / max(side.count, 1.0)
        matrix[0, place] = matrix[place, 0] = scale * side.total
        noise[0, place] = noise[place, 0] = scale * side.total_noise
        matrix[place, place], noise[place, place] = scale * side.products, scale * side.product_noise
        scatter[:, place, place] = scale * side.scatter
    for i, (here, left) in enumerate(zip(places, sides, strict=True)):
        for there, right in list(zip(places, sides, strict=True))[i + 1 :]:
            block, error, by_key = _cross(left, right, estimator)
            matrix[here, there], matrix[there, here] = count * block, count * block.T
            noise[here, there], noise[there, here] = count * error, count * error.T
            scatter[:, here, there], scatter[:, there, here] = count * by_key, count * by_key.transpose(0, 2, 1)
    return JoinedMoments(Gram(features, matrix, noise), scatter[:, 1:, 1:])


def paper_weights(*, rows: float, keys: int) -> tuple[float, float]:
    """a and b of the paper's proposition: n/d rows in every key."""
    if keys < 2:
        raise InvalidInput("the unbiased estimator needs at least two keys.")
    return (rows - 1) / (keys - 1), -(rows - keys) / (keys - 1)


# ------------------------------------------------------------------------------------------------ inside


def _cross(left: Moments, right: Moments, estimator: Estimator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[f1 f2] of the table behind two projections, the deviation of its noise (first order), and its covariance by key."""
    # The very sum that the other moments of the join were weighted with, or offsets would not cancel. But sum c^2 >= n^2/d
    # for any counts: where noise has it far below, that bound says more.
    pairs, least = float(left.counts @ right.counts), max(left.count * right.count / len(left.counts), 1.0)
    pairs = pairs if pairs > least / 10 else least
    together = left.sums.T @ right.sums / pairs
    mean_left, mean_right = left.sums.T @ right.counts / pairs, right.sums.T @ left.counts / pairs
    n = max((left.count + right.count) / 2, 1.0)
    own_left, own_right = left.total / max(left.count, 1.0), right.total / max(right.count, 1.0)
    if estimator == "paper":
        keys = len(left.counts)
        a, b = paper_weights(rows=n, keys=keys)
        value = a * together + b * np.outer(mean_left, mean_right)
        factor = abs(a)
    else:
        # Cubes from noisy counts: the noise of a square is known and taken off; the two sides' noises are independent.
        cubes = float((left.counts**2 - left.count_noise**2) @ right.counts)
        cubes = (cubes + float((right.counts**2 - right.count_noise**2) @ left.counts)) / 2
        gap = n / pairs - max(cubes, 0.0) / pairs**2
        # Under noise that swamps the counts there is no telling strangers apart: the join is taken as it is.
        factor = (1 - 1 / n) / gap if gap > 1e-6 * n / pairs else 1.0
        value = np.outer(own_left, own_right) + factor * (together - np.outer(mean_left, mean_right))
    apart = (left.sums - np.outer(left.counts, mean_left)), (right.sums - np.outer(right.counts, mean_right))
    by_key = factor / pairs * apart[0][:, :, None] * apart[1][:, None, :]
    variance, unit = _product_noise(_residuals(left, own_left), _residuals(right, own_right))
    moved = np.hypot(np.outer(left.total_noise / n, own_right), np.outer(own_left, right.total_noise / n))
    return value, np.hypot(factor / pairs * unit * np.sqrt(variance), moved), by_key


def _residuals(side: Moments, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per-key sums around the mean, and the standard deviation of their noise."""
    noise = np.hypot(side.sum_noise, np.outer(side.count_noise, means))
    return side.sums - np.outer(side.counts, means), noise


def _product_noise(left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, float]:
    """Noise variance of sum_k x_k y_k, and the unit that it is in: huge noise would not survive being squared twice."""
    parts, unit = [], 1.0
    for value, noise in (left, right):
        size = max(float(np.abs(value).max()), float(noise.max()), 1.0)
        unit *= size
        # Var(xy) = E[x^2] E[y^2] - mean^2 mean^2, with the squares of the true parts estimated free of their noise.
        parts.append((np.maximum((value / size) ** 2 - (noise / size) ** 2, 0), (noise / size) ** 2))
    (x, noise_x), (y, noise_y) = parts
    return x.T @ noise_y + noise_x.T @ (y + noise_y), unit
