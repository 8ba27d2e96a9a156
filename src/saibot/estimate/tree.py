"""The Gaussian posterior of values on a tree of keys, from noisy readings of weighted sums at every level.

One pass up and one pass down, linear in the number of keys; many features (rows) at once. The variance that values have
within each level comes from the readings themselves, by maximum likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROUNDS = 20


class KeyGroups:
    """Which keys of one level make up each key of the next."""

    def __init__(self, index: np.ndarray, size: int) -> None:
        self.index, self.size = index, size
        self.order = np.argsort(index, kind="stable")
        self.present, self.starts = np.unique(index[self.order], return_index=True)

    def sum(self, values: np.ndarray) -> np.ndarray:
        result = np.zeros((len(values), self.size))
        result[:, self.present] = np.add.reduceat(values[:, self.order], self.starts, axis=1)
        return result


@dataclass(frozen=True)
class _Node:
    """A level on the way up: T | u ~ N(a + b u, v), with T the sum over a key's rows and u the value expected of it.

    `before` is (a, b, v) of the children's sum, b that after the level's own reading, `up` (a, b, v) given the parent's u.
    """

    before: tuple[np.ndarray, np.ndarray, np.ndarray]
    b: np.ndarray
    eta: np.ndarray
    kept: np.ndarray  # 1/(1 + tau^2 Lambda): how much of u is left to the parent to say
    free: np.ndarray  # variance of u given its parent's
    up: tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Posterior:
    """Means and variances: of the finest keys' distance from M, and per level of that from the parent and of the sum T."""

    mean: np.ndarray
    variance: np.ndarray
    deviations: list[tuple[np.ndarray, np.ndarray]]
    sums: list[tuple[np.ndarray, np.ndarray]]


def smooth(
    readings: list[np.ndarray], weight: np.ndarray, noise: list[np.ndarray], up: list[KeyGroups], spread: list[np.ndarray]
) -> Posterior:
    """The Gaussian posterior on the tree: readings of weighted sums at every level, noise and spread as variances."""
    nothing = np.zeros_like(weight)
    a, b, v, eta, information = nothing, weight, nothing, nothing, nothing
    nodes: list[_Node] = []
    for level, reading in enumerate(readings):
        before = (a, b, v)
        whole = v + noise[level]
        gain, news = v / whole, reading - a
        information, eta = information + b * b / whole, eta + b * news / whole
        a, b, v = a + gain * news, b * (1 - gain), v * (1 - gain)
        kept = 1 / (1 + information * spread[level])
        free = spread[level] * kept
        nodes.append(_Node(before, b, eta, kept, free, (a + b * free * eta, b * kept, v + b * b * free)))
        if level < len(up):
            a, b, v, eta, information = map(up[level].sum, (*nodes[-1].up, eta * kept, information * kept))
    top = nodes[-1]
    u, T, both = (top.free * top.eta, top.free), (top.up[0], top.up[2]), top.b * top.free  # mean, variance; covariance
    deviations, sums = [u], [T]
    for node, above, group in zip(nodes[-2::-1], nodes[:0:-1], up[::-1], strict=True):
        of = group.index
        (a, b, v), (a0, b0, v0) = node.up, (part[:, of] for part in above.before)
        u0, uu0, both0 = u[0][:, of], u[1][:, of], both[:, of]
        # The parent's sum corrects the children's in proportion to how uncertain each of them is.
        part = np.divide(v, v0, out=np.zeros_like(v0), where=v0 > 0)
        slope = b - part * b0
        sum_mean = a - part * a0 + slope * u0 + part * T[0][:, of]
        sum_variance = slope**2 * uu0 + 2 * slope * part * both0 + part**2 * T[1][:, of] + v * (1 - part)
        pull = np.divide(node.b * node.free, v, out=np.zeros_like(v0), where=v > 0)
        rest, cross = node.kept - pull * b, slope * uu0 + part * both0
        mean = node.free * node.eta - pull * a + rest * u0 + pull * sum_mean
        variance = rest**2 * uu0 + 2 * rest * pull * cross + pull**2 * (sum_variance - v) + node.free
        deviations.append((mean - u0, variance + uu0 - 2 * (rest * uu0 + pull * cross)))
        u, T, both = (mean, variance), (sum_mean, sum_variance), rest * cross + pull * sum_variance
        sums.append(T)
    return Posterior(u[0], u[1], deviations[::-1], sums[::-1])


def estimate_spread(
    readings: list[np.ndarray],
    weight: np.ndarray,
    noise: list[np.ndarray],
    up: list[KeyGroups],
    cap: np.ndarray,
    typical: list[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """tau^2 of every level, (f, 1) each: level by level from the top, then jointly if there are several.

    What noise leaves open is filled with `typical` spreads, or with none.
    """
    weights = [weight]
    for group in up:
        weights.append(group.sum(weights[-1]))
    spread: list[np.ndarray] = []
    parent = np.zeros((1, 1))
    for level in range(len(readings) - 1, -1, -1):
        w, R = weights[level], noise[level]
        residual, q = readings[level] - w * parent, w**2
        t = np.zeros((len(residual), 1))
        excess, qq = (residual**2 - R) * q, q * q
        for _ in range(ROUNDS):
            u, last_t = (t * q + R) ** -2, t
            t = np.clip(row_sums(u * excess) / np.maximum(row_sums(u * qq), 1e-300), 0, cap)
            if _settled(t, last_t, 1e-3):
                break
        spread.insert(0, t)
        parent = (parent + t * w * residual / (t * q + R))[:, up[level - 1].index] if level else parent
    for _ in range(ROUNDS if up else 0):
        found, last = smooth(readings, weight, noise, up, spread), spread
        spread = []
        for t, (mean, variance) in zip(last, found.deviations, strict=True):
            # Squared deviations over the degrees of freedom that are in them: the likelihood's own fixed point.
            freedom = np.maximum(row_sums(reliability_of(variance, t)), 1e-9)
            spread.append(np.where(t > 0, np.clip(row_sums(mean**2) / freedom, 0, cap), 0.0))
        if all(_settled(new, t, 1e-2) for new, t in zip(spread, last, strict=True)):
            break
    found = smooth(readings, weight, noise, up, spread)
    sure = [row_sums(reliability_of(variance, t) ** 2) for t, (_, variance) in zip(spread, found.deviations, strict=True)]
    expected = typical or [np.zeros((1, 1))] * len(spread)
    return [(t * s + 4 * e) / (s + 4) for t, s, e in zip(spread, sure, expected, strict=True)]


def _settled(now: np.ndarray, before: np.ndarray, relative: float) -> bool:
    """As `np.allclose`, for finite numbers: on a few of them that function takes longer than a round of the search."""
    return bool((np.abs(now - before) <= 1e-12 + relative * np.abs(before)).all())


def row_sums(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.sum(axis=1, keepdims=True))


def reliability_of(variance: np.ndarray, spread: np.ndarray) -> np.ndarray:
    share = np.divide(variance, spread, out=np.ones_like(variance), where=spread > 0)
    return np.asarray(np.clip(1 - share, 0, 1))
