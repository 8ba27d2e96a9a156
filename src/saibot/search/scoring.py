"""From moments to gains: what adding each candidate to the current model would explain, with its uncertainty.

Written once for numpy and torch. With the current features u (the constant first), the target y and a candidate's values z:
the part of z that u does not explain has sum of squares r = zz - a' A^-1 a, its product with the current residual is
v = zy - a' theta, and the gain in R2 is v^2 / (r TSS): the full model's, by block elimination, not a shortcut on residuals.

The error of v: it is a sum over keys of f_k E_k, with f_k the candidate's deviation and E_k the residual sum of key k; its
variance is about sum f_k^2 E_k^2. That holds for sampling of keys, and for a private request E_k^2 includes the privacy
noise, whose law is symmetric and independent from key to key. Candidates are ranked by (|v| - z sd)_+^2 / (r TSS) with this
sd, which no candidate can lower by fitting well by chance. The deviation that intervals and the stop rule use leaves out of
the E_k what the candidate itself explains, about v^2/r times the rows per key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_EXPLAINED = 0.99  # of the residual sums' squares: no candidate is taken to be free of error
LEAST_SHARE = 0.2  # of a candidate's own spread that must be left after the current features are taken out


@dataclass(frozen=True)
class Base:
    """The current model on one key domain: what a candidate is measured against."""

    inverse: np.ndarray  # (p, p) of the Gram matrix of [1, features]
    theta: np.ndarray  # (p,)
    tss: float
    count: float
    residual_total: float  # sum over keys of E_k: 0 but for noise
    weight_total: float  # sum over keys of E_k^2
    rows_per_key: float  # as a row sees it: sum of squared counts over sum of counts
    keys: int  # keys that have rows
    linear: np.ndarray  # (d, p + 2): per-key sums of [1, features], of the target, and E_k^2
    square: np.ndarray  # (d, 2): counts and E_k^2

    @property
    def size(self) -> int:
        return len(self.theta)


@dataclass(frozen=True)
class Scores:
    """Per candidate: gain in R2, the bound it is ranked by, and its coefficient. Arrays of numpy or torch."""

    gain: Any
    lower: Any
    deviation: Any  # standard deviation of sqrt(gain)
    coefficient: Any


def score(first: Any, second: Any, base: Base, *, quantile: float) -> Scores:
    """All candidates at once, one feature each; `first` and `second` are the sweep's moments."""
    if isinstance(first, np.ndarray):
        xp: Any = np
        inverse, theta = base.inverse, base.theta
    else:
        import torch

        xp = torch
        inverse = torch.as_tensor(base.inverse, dtype=first.dtype, device=first.device)
        theta = torch.as_tensor(base.theta, dtype=first.dtype, device=first.device)
    p = base.size
    along, with_target, weighted = first[:, :p], first[:, p], first[:, p + 1]
    squares, weighted_squares = second[:, 0], second[:, 1]
    centre = along[:, 0] / max(base.count, 1.0)
    own = squares - centre * along[:, 0]  # spread of z around its mean
    left = squares - ((inverse @ along.T) * along.T).sum(0)
    left = xp.where(left < LEAST_SHARE * own, LEAST_SHARE * own, left)
    usable = own > 1e-12 * (abs(squares) + 1e-300)
    left = xp.where(usable, left, xp.ones_like(left))
    product = with_target - along @ theta - centre * base.residual_total
    product = xp.where(usable, product, xp.zeros_like(left))
    variance = weighted_squares - 2 * centre * weighted + centre * centre * base.weight_total
    spread = xp.sqrt(xp.where(variance > 0, variance, xp.zeros_like(variance)))
    explained = product * product / left * (base.rows_per_key / max(base.weight_total, 1e-300))
    explained = xp.where(explained > MOST_EXPLAINED, xp.full_like(explained, MOST_EXPLAINED), explained)
    scale = left * max(base.tss, 1e-300)
    clear = abs(product) - quantile * spread
    clear = xp.where(clear > 0, clear, xp.zeros_like(clear))
    return Scores(
        gain=_at_most_one(xp, product * product / scale),
        lower=_at_most_one(xp, clear * clear / scale),
        deviation=spread * xp.sqrt((1 - explained) / scale),
        coefficient=product / left,
    )


def _at_most_one(xp: Any, values: Any) -> Any:
    return xp.where(values > 1, xp.ones_like(values), values)
