"""What factors say about a request: its own residuals with less noise, and the gain to expect of tables' raw means.

For ranking only. Gains that are told to people, and their intervals, always come from the request's statistics as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saibot.estimate.factors.model import Factors
from saibot.estimate.factors.posterior import FactorPosterior
from saibot.estimate.factors.readings import Readings

# omega, the share of a table's variance that goes along with a request's residual, and how likely each is before anything
# is read: tables agree with a request far more often than with a random direction, and most of them very little.
OWN_SHARES = ((0.0, 0.30), (0.03, 0.25), (0.1, 0.20), (0.3, 0.15), (0.6, 0.10))
FAINTEST = 1e-3  # a request's scale where noise hides it: in standard errors, and in the most that it can be
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
    """A request's residual as one more table: its mean per key and their scale, all 0 where it is 0 exactly."""

    means: np.ndarray  # (d,)
    variance: np.ndarray  # (d,), of what noise leaves open of them
    sums: np.ndarray  # (d,), counts times means, adding up to 0
    scale: float  # s^2

    @property
    def square(self) -> float:
        """The mean square to expect of the true residual means."""
        return float((self.means**2 + self.variance).mean())

    @property
    def known(self) -> float:
        """The share of that which `means` tell: 1 without noise, next to 0 where it hides everything."""
        return float((self.means**2).mean()) / max(self.square, 1e-300)

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
    rows, squares = float(n @ factors.prior_variance), float((n**2) @ factors.prior_variance)
    scale = 0.0
    if rows > 0 and squares > 0:
        # Keys vary no more than rows do. Where noise hides the scale, next to none: candidates must be ordered somehow, and
        # little expected.
        most = max(request.tss, 0.0) / rows
        least = FAINTEST * min(float(np.sqrt(2 * v @ v)) / squares, most)
        scale = min(max(float((E**2 - v).sum()) / squares, least), most)
    if not scale > 0 or not np.isfinite(scale):
        return Denoised(np.zeros_like(E), np.zeros_like(E), np.zeros_like(E), 0.0)
    unit = float(n.max())
    table = _one_table(factors, E / unit, n / unit, v / unit**2)
    found = FactorPosterior(table, factors.loadings, factors.shares, np.array([scale]))
    means = found.deviations[0]
    means = means - float(n @ means) / float(n.sum())
    return Denoised(means, found.variance[0], n * means, scale)


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


@dataclass(frozen=True)
class ExpectedGains:
    """Gains in R2, (N,), between 0 and 1: of each table's raw means, and of its private values as they are."""

    raw: np.ndarray
    usable: np.ndarray


def expected_gains(
    factors: Factors,
    readings: Readings,
    tau2: np.ndarray,
    request: RequestSums,
    *,
    values: np.ndarray | None = None,
    own_shares: Sequence[tuple[float, float]] = OWN_SHARES,
) -> ExpectedGains:
    """What to expect of tables for a request, with c its denoised residual sums.

    Of raw means z: E (c.z)^2 / (TSS E z'Rz), with R = diag(n) - X A^-1 X' the part of a column that own features leave, both
    expectations over what noise leaves open. A table that shares omega of its variance with the request's residual has that
    as one more factor; `own_shares` says how likely each omega is, and each table's likelihood how likely it is then. Only a
    part of that direction is known of a private request, and a table that follows it follows what is hidden as well. Keys
    without rows have no mean of their own, so that a table is worth its keys' chances of having any.
    Of private values: (c.z)^2 / (TSS z'Rz). `values` are those, less their mean; without them what `factors` make of the
    readings. `tau2` is that of `apply`.
    """
    seen, N = denoised_request(factors, request), len(readings)
    usable = np.zeros(N) if values is None else usable_gains(values, request, seen)
    direction = seen.direction
    if direction is None or not request.tss > 0:
        return ExpectedGains(np.zeros(N), usable)
    gains, likelihood = np.zeros((len(own_shares), N)), np.zeros((len(own_shares), N))
    for place, (share, chance) in enumerate(own_shares):
        widened = factors.with_direction(direction, share * seen.known) if share > 0 else factors
        for block in readings.blocks(2 + widened.rank + request.own.shape[1]):
            found = FactorPosterior(readings.take(block), widened.loadings, widened.shares, tau2[block])
            gains[place, block] = _raw_gains(found, request, seen, share)
            likelihood[place, block] = found.log_likelihood + np.log(chance)
            if values is None and share == 0:
                usable[block] = usable_gains(found.deviations, request, seen)
    weight = np.exp(likelihood - likelihood.max(axis=0))
    raw = (weight * gains).sum(axis=0) / weight.sum(axis=0)
    return ExpectedGains(np.clip(raw, 0.0, 1.0), usable)


def usable_gains(values: np.ndarray, request: RequestSums, seen: Denoised) -> np.ndarray:
    """The gain of values (N, d) as they are, where a request's residual is what is left of it without noise."""
    n, own = np.maximum(request.counts, 0.0), values @ request.own
    whole = (values**2) @ n
    left = whole - np.einsum("bp,pq,bq->b", own, request.inverse, own)
    found = (values @ seen.sums) ** 2 / (max(request.tss, 1e-300) * np.maximum(left, 1e-9 * whole + 1e-300))
    return np.asarray(np.clip(found, 0.0, 1.0))


def _raw_gains(found: FactorPosterior, request: RequestSums, seen: Denoised, share: float) -> np.ndarray:
    """E (c.z)^2 / (TSS E z'Rz) where z is 0 at keys that are not there.

    With a share above 0 the last factor is the request's direction: a unit of it is so much of the true residual, whose part
    that noise hides adds `hidden` to c.z for each.
    """
    n, there, c = np.maximum(request.counts, 0.0), found.readings.chance_of_rows, seen.sums
    directions = np.vstack([c, request.own.T])[:, None, :] * there
    z, spread = found.deviations, found.covariance_along(directions)
    along = (directions * z).sum(axis=2).T  # (B, 1 + p)
    square = z**2 + found.variance
    left = (square * there) @ n
    left -= np.einsum("bp,pq,bq->b", along[:, 1:], request.inverse, along[:, 1:])
    left -= np.einsum("pq,bqp->b", request.inverse, spread[:, 1:, 1:])
    product, variance = along[:, 0], spread[:, 0, 0] + (square * there * (1 - there)) @ c**2
    if share > 0:
        hidden = found.tau * np.sqrt(share / max(seen.square, 1e-300)) * (there @ (n * seen.variance))
        last = found.factor_covariance[:, :, -1]
        product = product + hidden * found.factor_means[:, -1]
        with_factors = (directions[0] * found.by_factor).sum(axis=2).T  # c' dz/da, (B, r)
        variance = variance + 2 * hidden * (with_factors * last).sum(axis=1) + hidden**2 * last[:, -1]
    with_target = product**2 + variance
    return np.asarray(with_target / (request.tss * np.maximum(left, 1e-9 * square @ n + 1e-300)))


def _one_table(factors: Factors, sums: np.ndarray, weight: np.ndarray, noise: np.ndarray) -> Readings:
    """Sums over the finest keys as the readings of a table."""
    coarser = [np.zeros((1, size)) for size in factors.tree.sizes[1:]]
    unread = [np.full_like(level, np.inf) for level in coarser]
    return Readings.bare(factors.tree, [sums[None], *coarser], [noise[None], *unread], weight[None], np.ones(1))
