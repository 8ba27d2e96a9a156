"""Whole-table moments of a sketch: the best that its blocks say together.

A sketch may hold the same sum several times, once in a global block and once spread over the keys of every level, each with
independent noise of known size. They are averaged with inverse-variance weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saibot.errors import InvalidInput
from saibot.privacy.mechanisms.plan import Scope
from saibot.semiring import Basis
from saibot.sketch import Sketch


@dataclass(frozen=True)
class Totals:
    """Packed moments of the whole table in scaled units, with the variance of their noise; None where not released."""

    features: tuple[str, ...]
    count: float
    count_variance: float
    sums: np.ndarray
    sums_variance: np.ndarray
    products: np.ndarray | None  # symmetric (m, m)
    products_variance: np.ndarray | None


def totals(sketch: Sketch) -> Totals:
    """Count, sums and products of all rows. A public count has variance 0."""
    if any(block.centred for block in sketch.blocks):
        raise InvalidInput(
            "this sketch holds the scatter around the mean only (fpm-opt for unions): it has no sums.",
            hint="Its slope can be read, but it neither adds to another table nor joins one.",
        )
    m = len(sketch.features)
    rows = sketch.header.rows
    counts = [(np.array([rows]), np.zeros(1))] if rows is not None else _readings(sketch, 0)
    count, count_variance = _average(counts)
    sums, sums_variance = _average(_readings(sketch, 1))
    squares = _readings(sketch, 2)
    products = products_variance = None
    if squares:
        packed, variance = _average(squares)
        places = Basis(sketch.features, 2).squares - (1 + m)
        products, products_variance = packed[places], variance[places]
    return Totals(
        sketch.features, float(count[0]), float(count_variance[0]), sums, sums_variance, products, products_variance
    )


def _readings(sketch: Sketch, order: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every independent reading of one order's totals, with the variance of its noise."""
    found = []
    basis = Basis(sketch.features, max(order, 1))
    weights = basis.multiplicities(order)
    whole = sketch.whole(order)
    if whole is not None:
        found.append((whole, _variance(sketch, "global", order, 0, weights)))
    for level, table in enumerate(sketch.levels):
        if order <= sketch.key_basis.order:
            column = sketch.key_basis.slice(order)
            found.append((table.values[:, column].sum(axis=0), len(table) * _variance(sketch, "key", order, level, weights)))
    return found


def _variance(sketch: Sketch, scope: Scope, order: int, level: int, weights: np.ndarray) -> np.ndarray:
    found, places = np.unique(weights, return_inverse=True)  # few: a thousand features have half a million products
    deviations = [sketch.sigma(scope, order, level=level, multiplicity=int(weight)) for weight in found]
    return np.array([0.0 if deviation is None else deviation**2 for deviation in deviations])[places]


def _average(readings: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if not readings:
        raise InvalidInput("this sketch does not hold what a profile needs.")
    values = np.array([value for value, _ in readings])
    variances = np.array([variance for _, variance in readings])
    if (variances == 0).any():  # exact, as in a noiseless experiment or a public count
        exact = int(np.argmax((variances == 0).all(axis=1)))
        return values[exact], variances[exact]
    weights = 1 / variances
    return (values * weights).sum(axis=0) / weights.sum(axis=0), 1 / weights.sum(axis=0)
