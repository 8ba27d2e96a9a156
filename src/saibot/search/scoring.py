"""From moments to gains: what adding each candidate to the current model would explain, with its uncertainty.

With the current features u (the constant first), the target y and a candidate's values z:
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
    """Per candidate: gain in R2, the bound it is ranked by, and its coefficient."""

    gain: np.ndarray
    lower: np.ndarray
    deviation: np.ndarray  # standard deviation of sqrt(gain)
    coefficient: np.ndarray


def score(first: np.ndarray, second: np.ndarray, base: Base, *, quantile: float) -> Scores:
    """All candidates at once, one feature each; `first` and `second` are the sweep's moments."""
    p = base.size
    along, with_target, weighted = first[:, :p], first[:, p], first[:, p + 1]
    squares, weighted_squares = second[:, 0], second[:, 1]
    centre = along[:, 0] / max(base.count, 1.0)
    own = squares - centre * along[:, 0]  # spread of z around its mean
    left = squares - ((base.inverse @ along.T) * along.T).sum(0)
    usable = own > 1e-12 * (np.abs(squares) + 1e-300)
    left = np.where(usable, np.maximum(left, LEAST_SHARE * own), 1.0)
    product = np.where(usable, with_target - along @ base.theta - centre * base.residual_total, 0.0)
    variance = weighted_squares - 2 * centre * weighted + centre * centre * base.weight_total
    spread = np.sqrt(np.maximum(variance, 0.0))
    explained = product * product / left * (base.rows_per_key / max(base.weight_total, 1e-300))
    explained = np.minimum(explained, MOST_EXPLAINED)
    scale = left * max(base.tss, 1e-300)
    clear = np.maximum(np.abs(product) - quantile * spread, 0.0)
    return Scores(
        gain=np.minimum(product * product / scale, 1.0),
        lower=np.minimum(clear * clear / scale, 1.0),
        deviation=spread * np.sqrt((1 - explained) / scale),
        coefficient=product / left,
    )
