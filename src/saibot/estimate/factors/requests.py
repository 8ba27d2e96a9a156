"""What factors say about a request: its own residuals with less noise, and the gain to expect of tables' raw means.

For ranking only. Gains that are told to people, and their intervals, always come from the request's statistics as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saibot.estimate.factors.model import Factors
from saibot.estimate.factors.posterior import FactorPosterior
from saibot.estimate.factors.readings import Readings

OWN_SHARE = 0.1  # omega: tables agree with a request's residual far more often than with a random direction
LONGEST = 4.0  # root mean squares beyond which a single key does not stand out of the request's direction


@dataclass(frozen=True)
class RequestSums:
    """A request's table over the d keys of a domain, in the units that its model is fitted in.

    Keys outside the domain are left out; `inverse` and `tss` are those of all rows.
    """

    counts: np.ndarray  # (d,)
    residuals: np.ndarray  # E, (d,): sums of what the current model leaves unexplained
    noise: np.ndarray  # (d,), the variance of the privacy noise in them
    own: np.ndarray  # X, (d, p): sums of [1, features of the current model]
    inverse: np.ndarray  # (p, p), of the Gram matrix A of the same over all rows
    tss: float
    within: float = 0.0  # the residuals' variance within keys: what sampling adds to a key's sum for each of its rows


@dataclass(frozen=True)
class Denoised:
    """A request's residual as one more table: its mean per key and their scale, all 0 where it is all noise."""

    means: np.ndarray  # (d,)
    sums: np.ndarray  # (d,), counts times means, adding up to 0
    scale: float  # s^2

    @property
    def direction(self) -> np.ndarray | None:
        """The means around 0 with a mean square of 1, or None where there are none."""
        size = float(np.sqrt((self.means**2).mean())) if len(self.means) else 0.0
        if not size > 0:
            return None
        cut = np.clip(self.means / size, -LONGEST, LONGEST)
        return np.asarray(cut / np.sqrt((cut**2).mean()))


def denoised_request(factors: Factors, request: RequestSums) -> Denoised:
    """The posterior of a request's residual: E = n e + noise, with e ~ s^2 (Lambda Lambda' + the tree)."""
    n, E = np.maximum(request.counts, 0.0), request.residuals
    v = np.maximum(request.noise, 0.0) + n * max(request.within, 0.0)
    total = float((n**2) @ factors.prior_variance)
    scale = float((E**2 - v).sum()) / total if total > 0 else 0.0
    if not scale > 0 or not np.isfinite(scale):
        return Denoised(np.zeros_like(E), np.zeros_like(E), 0.0)
    unit = float(n.max())
    table = _one_table(factors, E / unit, n / unit, v / unit**2)
    means = FactorPosterior(table, factors.loadings, factors.shares, np.array([scale])).deviations[0]
    means = means - float(n @ means) / float(n.sum())
    return Denoised(means, n * means, scale)


def variance_within(counts: np.ndarray, residuals: np.ndarray, noise: np.ndarray, rss: float) -> float:
    """The residuals' variance within keys, from their sums per key and their whole sum of squares `rss`.

    A key's sum has the variance n^2 between + n within (plus known noise), a row between + within; two equations.
    """
    n = np.maximum(counts, 0.0)
    rows, squares = max(float(n.sum()), 1e-300), float(n @ n)
    each = max(rss, 0.0) / rows
    if squares <= rows * (1 + 1e-9):  # one row per key: nothing tells them apart
        return 0.0
    between = (float((residuals**2 - noise).sum()) - rows * each) / (squares - rows)
    return float(np.clip(each - between, 0.0, each))


def expected_raw_gains(
    factors: Factors, readings: Readings, tau2: np.ndarray, request: RequestSums, *, own_share: float = OWN_SHARE
) -> np.ndarray:
    """The gain in R2 that each table's raw means are expected to have for a request, (N,), between 0 and 1.

    With c the denoised residual sums, z the values and R = diag(n) - X A^-1 X', the part of a column that own features
    leave: E (c.z)^2 / (TSS E z'Rz), both expectations over what the noise leaves open. `tau2` is that of `apply`.
    """
    seen = denoised_request(factors, request)
    c, direction = seen.sums, seen.direction
    if direction is None or not request.tss > 0:
        return np.zeros(len(readings))
    widened = factors.with_direction(direction, own_share) if own_share > 0 else factors
    n, X = np.maximum(request.counts, 0.0), request.own
    directions = np.vstack([c, X.T])
    gains = np.zeros(len(readings))
    for block in readings.blocks(1 + widened.rank + len(directions)):
        found = FactorPosterior(readings.take(block), widened.loadings, widened.shares, tau2[block])
        z, spread = found.deviations, found.covariance_along(directions)
        own = z @ X
        left = (z**2 + found.variance) @ n
        left -= np.einsum("bp,pq,bq->b", own, request.inverse, own)
        left -= np.einsum("pq,bqp->b", request.inverse, spread[:, 1:, 1:])
        with_target = (z @ c) ** 2 + spread[:, 0, 0]
        floor = 1e-9 * ((z**2 + found.variance) @ n) + 1e-300
        gains[block] = with_target / (request.tss * np.maximum(left, floor))
    return np.asarray(np.clip(gains, 0.0, 1.0))


def _one_table(factors: Factors, sums: np.ndarray, weight: np.ndarray, noise: np.ndarray) -> Readings:
    """Sums over the finest keys as the readings of a table without bounds."""
    sizes, one = factors.tree.sizes, np.ones(1)
    coarser = [np.zeros((1, size)) for size in sizes[1:]]
    return Readings(
        tree=factors.tree,
        sums=(sums[None], *coarser),
        noise=(noise[None], *(np.full_like(level, np.inf) for level in coarser)),
        weight=weight[None],
        mean=0 * one,
        low=-np.inf * one,
        high=np.inf * one,
        cap=np.inf * one,
        typical=0 * one,
        spreads=np.zeros((1, len(sizes))),
        plain=np.zeros_like(sums)[None],
        plain_variance=np.zeros_like(sums)[None],
        plain_spread=0 * one,
        sketch=np.zeros(1, np.intp),
    )
