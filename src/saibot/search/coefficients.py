"""Every coefficient of the model that a search ended with, own features and intercept too, with three intervals each.

All are of the model without ridge: of a private request about this very table, whose noise they allow for; of a local one
about keys and rows like these. `fieller` are all slopes that noise allows; `exact` is the estimate and its standard error,
whose variance is known exactly; `bound` is the paper's, for all coefficients at once and whatever noises have to do with
each other, so that it holds more often than it says (mathematics.md, "The bound on a slope"); it is about noise alone, so
local requests have none. They hold for a model that was fixed beforehand. A search has chosen its columns because they look
good, so that theirs are a little too narrow; those of own features hardly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from saibot.estimate.intervals import Interval, coefficient_interval, level_interval
from saibot.search.explain import Table
from saibot.search.units import Units
from saibot.semiring import Moments
from saibot.wire.result import Pair

INTERCEPT = ""  # what stands for the intercept among the names of columns: no column is called so


@dataclass(frozen=True)
class CoefficientIntervals:
    """In original units, by column name; what noise leaves open on a side is left out."""

    fieller: dict[str, Pair] = field(default_factory=dict)
    exact: dict[str, Pair] = field(default_factory=dict)
    bound: dict[str, Pair] = field(default_factory=dict)


def coefficient_intervals(
    table: Table, units: Mapping[str, Units], lookups: Mapping[str, Units], *, confidence: float
) -> CoefficientIntervals:
    """The intervals of all coefficients, each way."""
    names = (*table.own, *lookups)
    values = np.column_stack(table.lookups) if table.lookups else None
    terms: dict[str, Any] = {"own": table.own, "target": table.target, "values": values, "confidence": confidence}
    asked = terms | {"sampling": table.sampling}
    known = {name: units[name] for name in table.own} | dict(lookups)
    target = units[table.target]
    at = np.array([-known[name].offset / known[name].scale for name in names])
    radius = coefficient_bound(table.moments, **terms) if table.sampling is None else 0.0
    z = float(ndtri((1 + confidence) / 2))
    found = CoefficientIntervals()
    for index, name in enumerate((INTERCEPT, *names)):
        if index == 0:
            interval = level_interval(table.moments, at=at, **asked)
            scale, offset, reach = target.scale, target.offset, math.sqrt(1 + float(at @ at))
        else:
            interval = coefficient_interval(table.moments, index=index, **asked)
            scale, offset, reach = target.scale / known[name].scale, 0.0, 1.0
        ways = {"fieller": (interval.lower, interval.upper), "exact": _around(interval, z * interval.error)}
        ways |= {"bound": _around(interval, radius * reach)} if radius > 0 else {}
        for way, (lower, upper) in ways.items():
            if math.isfinite(lower) and math.isfinite(upper):
                low, high = sorted((offset + scale * lower, offset + scale * upper))
                getattr(found, way)[name] = low, high
    return found


def coefficient_bound(
    moments: Moments, *, own: Sequence[str], target: str, values: np.ndarray | None, confidence: float = 0.9
) -> float:
    """How far all coefficients of (1, own, values) together can be from those without noise: a length, in scaled units.

    The paper's bound for many features, (E_b + E_A |theta|) / (lambda_min - E_A), where E_A and E_b are not passed by the
    norms of the noise of A and b, each with half of the probability left. A norm is at most that of all entries, whose
    square is a quadratic form of normal noises: of all that have its mean, one with a single term has the longest tail
    (Székely and Bakirov 2003, for tails below 0.2). So nothing has to be known of how entries' noises go together. Infinite
    where noise hides the smallest eigenvalue.
    """
    looked = [f"looked up {i}" for i in range(0 if values is None else values.shape[1])]
    matrix, noise = moments.gram(values, looked).arranged((*own, *looked), target)
    n = max(float(matrix[0, 0]), 1.0)
    left, right = matrix[:-1, :-1] / n, matrix[:-1, -1] / n
    most = float(ndtri(1 - (1 - confidence) / 4)) / n
    error_left, error_right = (most * float(np.linalg.norm(part)) for part in (noise[:-1, :-1], noise[:-1, -1]))
    smallest = float(np.linalg.eigvalsh(left)[0])
    if not smallest > error_left:
        return math.inf
    theta = np.linalg.solve(left, right)
    return (error_right + error_left * float(np.linalg.norm(theta))) / (smallest - error_left)


def _around(interval: Interval, error: float) -> Pair:
    return interval.value - error, interval.value + error
