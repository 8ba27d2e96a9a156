"""The Gaussian posterior of values on a tree of keys, from noisy readings of weighted sums at every level.

One pass up and one pass down, linear in the number of keys; many features (rows) at once. The variance that values have
within each level comes from the readings themselves, by maximum likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

ROUNDS = 20


class KeyGroups:
    """Which keys of one level make up each key of the next."""

    def __init__(self, index: np.ndarray, size: int) -> None:
        self.index, self.size = index, size
        self.order = np.argsort(index, kind="stable")
        self.present, self.starts = np.unique(index[self.order], return_index=True)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Of each group along the last axis."""
        result = np.zeros((*values.shape[:-1], self.size))
        result[..., self.present] = np.add.reduceat(values[..., self.order], self.starts, axis=-1)
        return result


@dataclass(frozen=True)
class Posterior:
    """Means and variances: of the finest keys' distance from M, and per level of that from the parent and of the sum T."""

    mean: np.ndarray
    variance: np.ndarray
    deviations: list[tuple[np.ndarray, np.ndarray]]
    sums: list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class _Node:
    """A level on the way up: T | u ~ N(a + b u, v), with T the sum over a key's rows and u the value expected of it.

    `before` is (b, v) of the children's sum, b that after the level's own reading, `up` (b, v) given the parent's u; a is
    the only part that the readings say.
    """

    before: tuple[np.ndarray, np.ndarray]
    whole: np.ndarray  # variance of the level's reading around a + b u
    gain: np.ndarray  # how much of the reading's news the sum takes over
    b: np.ndarray
    kept: np.ndarray  # 1/(1 + tau^2 Lambda): how much of u is left to the parent to say
    free: np.ndarray  # variance of u given its parent's
    up: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Step:
    """A level on the way down: the parent's sum corrects the children's in proportion to how uncertain each of them is."""

    of: np.ndarray  # each key's parent
    part: np.ndarray
    slope: np.ndarray
    pull: np.ndarray
    rest: np.ndarray


@dataclass(frozen=True)
class Swept:
    """What the readings say on the way up, level by level: their news, the evidence on u, and a before and after."""

    news: list[np.ndarray]
    eta: list[np.ndarray]
    before: list[np.ndarray]
    after: list[np.ndarray]


@dataclass(frozen=True)
class Means:
    """Posterior means per level, finest first: of u (its distance from M), of its deviation from the parent, of the sum."""

    values: list[np.ndarray]
    deviations: list[np.ndarray]
    sums: list[np.ndarray]


class Smoother:
    """What is known of the posterior before anything is read: weights, noise and spread, both of them variances.

    All means are linear in the readings, so many columns of readings can be smoothed at once: readings may have any number
    of axes before those of `weight`. A level whose noise is infinite was not read.
    """

    def __init__(self, weight: np.ndarray, noise: list[np.ndarray], up: list[KeyGroups], spread: list[np.ndarray]) -> None:
        self._up = up
        self._nodes: list[_Node] = []
        b, v, information = weight, np.zeros_like(weight), np.zeros_like(weight)
        for level, variance in enumerate(noise):
            before, whole = (b, v), v + variance
            gain = v / whole
            information = information + b * b / whole
            b, v = b * (1 - gain), v * (1 - gain)
            kept = 1 / (1 + information * spread[level])
            free = spread[level] * kept
            node = _Node(before, whole, gain, b, kept, free, (b * kept, v + b * b * free))
            self._nodes.append(node)
            if level < len(up):
                b, v, information = map(up[level].sum, (*node.up, information * kept))

    @cached_property
    def _steps(self) -> list[_Step]:
        """From the coarsest level down."""
        found = []
        for node, above, group in zip(self._nodes[-2::-1], self._nodes[:0:-1], self._up[::-1], strict=True):
            (b, v), (b0, v0) = node.up, (part[:, group.index] for part in above.before)
            part = np.divide(v, v0, out=np.zeros_like(v0), where=v0 > 0)
            pull = np.divide(node.b * node.free, v, out=np.zeros_like(v0), where=v > 0)
            found.append(_Step(group.index, part, b - part * b0, pull, node.kept - pull * b))
        return found

    def sweep(self, readings: list[np.ndarray]) -> Swept:
        """The way up."""
        found = Swept([], [], [], [])
        a = eta = None  # nothing is known below the finest keys
        for level, (node, reading) in enumerate(zip(self._nodes, readings, strict=True)):
            news = reading if a is None else reading - a
            evidence = node.before[0] * news / node.whole
            eta = evidence if eta is None else eta + evidence
            found.before.append(np.zeros(1) if a is None else a)
            after = node.b * node.free * eta
            after = after if a is None else a + node.gain * news + after
            found.news.append(news)
            found.eta.append(eta)
            found.after.append(after)
            if level < len(self._up):
                a, eta = self._up[level].sum(after), self._up[level].sum(eta * node.kept)
        return found

    def means(self, swept: Swept) -> Means:
        """The way down."""
        top = self._nodes[-1]
        values = [top.free * swept.eta[-1]]
        deviations, sums = [values[0]], [swept.after[-1]]
        for level, step in zip(range(len(self._nodes) - 2, -1, -1), self._steps, strict=True):
            node, parent, a = self._nodes[level], values[-1][..., step.of], swept.after[level]
            total = a - step.part * swept.before[level + 1][..., step.of] + step.slope * parent
            total = total + step.part * sums[-1][..., step.of]
            mean = node.free * swept.eta[level] - step.pull * a + step.rest * parent + step.pull * total
            values.append(mean)
            deviations.append(mean - parent)
            sums.append(total)
        return Means(values[::-1], deviations[::-1], sums[::-1])

    @cached_property
    def variances(self) -> Means:
        """Posterior variances of the same three; they do not depend on the readings."""
        top = self._nodes[-1]
        u, T, both = top.free, top.up[1], top.b * top.free  # variances of u and of the sum; their covariance
        values, deviations, sums = [u], [u], [T]
        for node, step in zip(self._nodes[-2::-1], self._steps, strict=True):
            v, (u0, T0, both0) = node.up[1], (part[:, step.of] for part in (u, T, both))
            T = step.slope**2 * u0 + 2 * step.slope * step.part * both0 + step.part**2 * T0 + v * (1 - step.part)
            cross = step.slope * u0 + step.part * both0
            u = step.rest**2 * u0 + 2 * step.rest * step.pull * cross + step.pull**2 * (T - v) + node.free
            both = step.rest * cross + step.pull * T
            values.append(u)
            deviations.append(u + u0 - 2 * (step.rest * u0 + step.pull * cross))
            sums.append(T)
        return Means(values[::-1], deviations[::-1], sums[::-1])

    def products(self, swept: Swept) -> np.ndarray:
        """x' Sigma^-1 y of all pairs of columns, (f, columns, columns), for columns of readings (columns, f, d).

        Sigma is the readings' own covariance. On the way up each reading is compared with what is expected of it, and
        then each u is integrated out: nothing has to be inverted.
        """
        finest = self._nodes[0]
        # Of the finest keys both terms come from one reading: together they are this, which does not cancel.
        found = _pairs(swept.news[0] * (finest.kept / finest.whole), swept.news[0])
        for node, news, eta in zip(self._nodes[1:], swept.news[1:], swept.eta[1:], strict=True):
            found = found + _pairs(news / node.whole, news) - _pairs(node.free * eta, eta)
        return found

    @cached_property
    def log_determinant(self) -> np.ndarray:
        """Of the readings' covariance (f,), without levels that were not read."""
        found = np.zeros(len(self._nodes[0].b))
        for node in self._nodes:
            read = np.isfinite(node.whole)
            found += np.log(np.where(read, node.whole, 1.0)).sum(axis=1) - np.log(node.kept).sum(axis=1)
        return found


def _pairs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sums over keys of the products of all columns (columns, f, d), for each f."""
    return np.asarray(x.transpose(1, 0, 2) @ y.transpose(1, 2, 0))


def smooth(
    readings: list[np.ndarray], weight: np.ndarray, noise: list[np.ndarray], up: list[KeyGroups], spread: list[np.ndarray]
) -> Posterior:
    """The Gaussian posterior on the tree: readings of weighted sums at every level, noise and spread as variances."""
    smoother = Smoother(weight, noise, up, spread)
    means, variances = smoother.means(smoother.sweep(readings)), smoother.variances
    deviations = list(zip(means.deviations, variances.deviations, strict=True))
    return Posterior(means.values[0], variances.values[0], deviations, list(zip(means.sums, variances.sums, strict=True)))


def estimate_spread(
    readings: list[np.ndarray],
    weight: np.ndarray,
    noise: list[np.ndarray],
    up: list[KeyGroups],
    cap: np.ndarray,
) -> list[np.ndarray]:
    """tau^2 of every level, (f, 1) each: the likeliest, times S/(S+4) with S the sum of squared reliabilities.

    Its own error passes for spread otherwise: what noise leaves open counts as no spread, with the weight of four keys.
    """
    spread = likely_spread(readings, weight, noise, up, cap)
    left = Smoother(weight, noise, up, spread).variances.deviations
    sure = [row_sums(reliability_of(variance, t) ** 2) for t, variance in zip(spread, left, strict=True)]
    return [t * s / (s + 4) for t, s in zip(spread, sure, strict=True)]


def likely_spread(
    readings: list[np.ndarray],
    weight: np.ndarray,
    noise: list[np.ndarray],
    up: list[KeyGroups],
    cap: np.ndarray,
) -> list[np.ndarray]:
    """tau^2 of the largest likelihood: level by level from the top, then jointly if there are several."""
    weights = [weight]
    for group in up:
        weights.append(group.sum(weights[-1]))
    spread: list[np.ndarray] = []
    parent = np.zeros((1, 1))
    for level in range(len(readings) - 1, -1, -1):
        w, R = weights[level], noise[level]
        residual = readings[level] - w * parent
        t = _spread_of_level(residual, w, R, cap)
        spread.insert(0, t)
        parent = (parent + t * w * residual / (t * w**2 + R))[:, up[level - 1].index] if level else parent
    del residual, parent  # room, of millions of keys
    for _ in range(ROUNDS if up else 0):
        found, last = smooth(readings, weight, noise, up, spread), spread
        spread = []
        for t, (mean, variance) in zip(last, found.deviations, strict=True):
            # Squared deviations over the degrees of freedom that are in them: the likelihood's own fixed point.
            freedom = np.maximum(row_sums(reliability_of(variance, t)), 1e-9)
            spread.append(np.where(t > 0, np.clip(row_sums(mean**2) / freedom, 0, cap), 0.0))
        if all(_settled(new, t, 1e-2) for new, t in zip(spread, last, strict=True)):
            break
    return spread


def _spread_of_level(residual: np.ndarray, w: np.ndarray, R: np.ndarray, cap: np.ndarray) -> np.ndarray:
    q = w**2
    t = np.zeros((len(residual), 1))
    excess, qq = (residual**2 - R) * q, q * q
    for _ in range(ROUNDS):
        u, last_t = (t * q + R) ** -2, t
        t = np.clip(row_sums(u * excess) / np.maximum(row_sums(u * qq), 1e-300), 0, cap)
        if _settled(t, last_t, 1e-3):
            break
    return t


def _settled(now: np.ndarray, before: np.ndarray, relative: float) -> bool:
    """As `np.allclose`, for finite numbers: on a few of them that function takes longer than a round of the search."""
    return bool((np.abs(now - before) <= 1e-12 + relative * np.abs(before)).all())


def row_sums(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.sum(axis=1, keepdims=True))


def reliability_of(variance: np.ndarray, spread: np.ndarray) -> np.ndarray:
    share = np.divide(variance, spread, out=np.ones_like(variance), where=spread > 0)
    return np.asarray(np.clip(1 - share, 0, 1))
