"""Lookup values: what a provider's sketch says about the mean of each key, fit to be joined to anybody's rows.

Never the ratio of two noisy numbers: a count near 0 would make it anything. The value of a key is its posterior mean, given
all that the sketch holds and the noise that is known to be in it. The model, for one feature with true means z_k:

    z_k = M + one deviation N(0, tau_l^2) per key level;  at every level  s~ = (sum of c_k z_k over its keys) + noise.

Counts have the same form with every weight 1, so one routine serves both: the exact Gaussian posterior on the tree of keys,
one pass up and one pass down, linear in the number of keys. tau_l^2 comes from the sketch itself (maximum likelihood), so a
feature that is all noise at this budget ends with a spread near 0 and its keys at the prior mean M. Nothing is ever divided
by a count, and no noise however large gives an infinite value.

The formulas are in mathematics.md, "Lookup values". What this does beyond the textbook: residuals are taken against the
shrunk count, not the noisy one, which keeps out the count noise that the counts themselves disprove; levels are solved
together instead of top down; tau^2 is multiplied by S/(S+4), S the sum of squared reliabilities, because its own error
(Var/tau^4 = 2/S) otherwise passes for spread: a null feature's false spread falls by more than half, a real one's error
stays; tau^2 and values keep to the public bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.totals import Totals, totals
from saibot.estimate.tree import KeyGroups, Posterior, estimate_spread, reliability_of, row_sums, smooth
from saibot.privacy.mechanisms.value_allocation import typical_share
from saibot.sketch import Sketch

# An uncertain count multiplies z_k, whose distance from M is not known yet: a tenth of the squared half-range is typical.
# It matters only where the noise of the counts does.
TYPICAL_SPREAD = 0.1
TINY = 1e-24
TOGETHER = 1 << 17  # values that are computed at a time


@dataclass(frozen=True)
class LookupValues:
    """Per-key values of one or many features. From a sketch, the last key is the catch-all: its value is the prior mean."""

    values: np.ndarray  # (f, d+1) shrunk posterior means, scaled units, in the sketch's domain order (level 0)
    prior_mean: np.ndarray  # (f,)
    reliability: np.ndarray  # (f, d+1) share of the spread that is signal: 1 - posterior variance / spread
    posterior_variance: np.ndarray  # (f, d+1)
    spread: np.ndarray  # (f,) tau^2 in total over levels; 0 = all noise
    counts: np.ndarray  # (d+1,) shrunk counts
    levels: tuple[LevelValues, ...] = ()  # what noisy values are made of, finest first, without catch-alls


@dataclass(frozen=True)
class LevelValues:
    """How the keys of one level (f, d) differ from their parents: posterior mean and reliability; and the spread (f,)."""

    deviations: np.ndarray
    reliability: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True)
class LevelReadings:
    """What a table says of its keys, one feature per row: the part of `shrink` that comes before any belief about spreads.

    At every level the reading is the noisy sum less M times the shrunk count: a weighted sum of the keys' distances from M
    plus noise. Readings, weights and deviations of noise are all divided by one `unit`, which leaves values as they are.
    """

    counts: list[np.ndarray]  # as released, per level (1 or f, d)
    sums: list[np.ndarray]  # as released, per level (f, d)
    readings: list[np.ndarray]
    weight: np.ndarray  # (f, d), of the finest keys
    noise: list[np.ndarray]  # variances, per level
    sum_noise: list[np.ndarray]  # the part of them that is the noise of sums, (1 or f, 1)
    shrunk_counts: np.ndarray  # (1 or f, d)
    count_error: np.ndarray  # their posterior standard deviation, likewise
    up: list[KeyGroups]
    prior: np.ndarray  # M, (f, 1)
    low: np.ndarray  # public bounds of the values, (1 or f, 1)
    high: np.ndarray
    cap: np.ndarray  # (f, 1), the most that tau^2 can be
    typical: list[np.ndarray]  # tau^2 that keys usually have at each level, (1 or f, 1)
    exact: bool  # no noise at all: a value is a mean, and weights are true counts
    unit: float  # rows that a weight of 1 stands for


def lookup_values(sketch: Sketch, domain_parents: Sequence[np.ndarray] = ()) -> LookupValues:
    """The lookup values of all features of a keyed sketch, of any layout.

    `domain_parents[l-1]` is `KeyDomain.parent_index(l)` of the sketch's domain; levels beyond those given are not used.
    """
    blocks = list(lookup_blocks(sketch, domain_parents))
    return blocks[0] if len(blocks) == 1 else joined(blocks)


def lookup_blocks(sketch: Sketch, domain_parents: Sequence[np.ndarray] = ()) -> Iterator[LookupValues]:
    """The same, of a large sketch some features at a time: what is computed on the way takes far more room than they do."""
    keys = len(sketch.levels[0]) if sketch.levels else 1
    together = max(TOGETHER // keys, 1)
    whole = totals(sketch) if sketch.levels else None
    for first in range(0, len(sketch.features), together):
        found, outside = sketch_readings(sketch, domain_parents, features=slice(first, first + together), whole=whole)
        yield with_others(shrunk(found), found.prior[:, 0], outside)


def with_others(inside: LookupValues, prior: np.ndarray, outside: float) -> LookupValues:
    """With the catch-all as the last key."""
    return LookupValues(
        values=np.column_stack([inside.values, prior]),
        prior_mean=prior,
        reliability=np.column_stack([inside.reliability, np.zeros(len(prior))]),
        posterior_variance=np.column_stack([inside.posterior_variance, inside.spread]),
        spread=inside.spread,
        counts=np.append(inside.counts, outside),
        levels=inside.levels,
    )


def joined(blocks: list[LookupValues]) -> LookupValues:
    """Features of several blocks, over the same keys."""
    names = ("values", "prior_mean", "reliability", "posterior_variance", "spread")
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in names}
    levels = tuple(
        LevelValues(
            *(np.concatenate([getattr(one, name) for one in same]) for name in ("deviations", "reliability", "spread"))
        )
        for same in zip(*(block.levels for block in blocks), strict=True)
    )
    return LookupValues(**columns, counts=blocks[0].counts, levels=levels)


def sketch_readings(
    sketch: Sketch,
    domain_parents: Sequence[np.ndarray] = (),
    *,
    features: slice = slice(None),
    whole: Totals | None = None,
) -> tuple[LevelReadings, float]:
    """What a keyed sketch says of the keys of its domain, and how many of its rows are outside of it.

    `whole` are its totals, where they are known already: a thousand features have half a million products.
    """
    if not sketch.levels:
        raise InvalidInput("this sketch has no key: its values cannot be looked up.", hint="Privatise it with a key.")
    m = len(sketch.features)
    used = 1 + min(len(domain_parents), len(sketch.levels) - 1)
    tables = [level.values for level in sketch.levels[:used]]
    sigma = np.array([[sketch.sigma("key", order, level=level) or 0.0 for level in range(used)] for order in (0, 1)])
    whole = totals(sketch) if whole is None else whole
    limits = np.array([(0.0, 1.0) if feature.kind == "indicator" else (-1.0, 1.0) for feature in sketch.header.features]).T
    prior = _prior_mean(whole.sums, whole.count, np.sqrt(whole.sums_variance), whole.count_variance**0.5, limits)
    ceiling = None
    if whole.products is not None and whole.products_variance is not None:
        # Means of keys hardly vary more than rows do, and those were measured; twice that leaves room for skewed keys.
        n, error = max(whole.count, 1.0), np.sqrt(np.diag(whole.products_variance))
        ceiling = 2 * ((np.diag(whole.products) + 3 * error) / n - prior**2)
    # Rows outside the domain share one key, which is no key like the others. Every level has read its count once.
    least = max(float(sigma[0].min()), 1e-150)
    weights = (least / np.maximum(sigma[0], least)) ** 2
    outside = float(np.clip(weights @ [table[-1, 0] for table in tables] / weights.sum(), 0, max(whole.count, 0)))
    found = level_readings(
        [table[:-1, 0] for table in tables],
        [table[:-1, 1 : 1 + m].T[features] for table in tables],
        count_sigma=sigma[0],
        sum_sigma=sigma[1],
        rows=max(whole.count - outside, 1.0),
        parents=level_steps([len(table) for table in tables], domain_parents),
        prior=prior[features],
        limits=limits[:, features],
        ceiling=None if ceiling is None else ceiling[features],
    )
    return found, outside


def shrink(
    counts: np.ndarray | Sequence[np.ndarray],
    sums: np.ndarray | Sequence[np.ndarray],
    **facts: Any,
) -> LookupValues:
    """Posterior means from noisy counts and sums; `facts` are those of `level_readings`."""
    return shrunk(level_readings(counts, sums, **facts))


def level_readings(
    counts: np.ndarray | Sequence[np.ndarray],
    sums: np.ndarray | Sequence[np.ndarray],
    *,
    count_sigma: float | Sequence[float] | np.ndarray,
    sum_sigma: float | Sequence[float] | np.ndarray,
    rows: float | np.ndarray,
    parents: Sequence[np.ndarray] = (),
    prior: np.ndarray | None = None,
    limits: tuple[float, float] | np.ndarray = (-1.0, 1.0),
    ceiling: np.ndarray | None = None,
) -> LevelReadings:
    """From noisy counts, (d,) or (f, d), and sums (f, d): one feature, table or simulation per row.

    With key levels, counts and sums are lists, finest first, and `parents[l]` gives every key of level l its row at level
    l+1. `rows` is the number of rows in all keys together, `limits` the public bounds of the values; `prior`, M, and
    `ceiling`, the most that values vary, are (f,) where something is known about them.
    """
    c = [np.atleast_2d(level) for level in ([counts] if isinstance(counts, np.ndarray) else counts)]
    s = [np.atleast_2d(level) for level in ([sums] if isinstance(sums, np.ndarray) else sums)]
    noise0, noise1 = np.atleast_1d(count_sigma), np.atleast_1d(sum_sigma)
    up = [KeyGroups(index, level.shape[1]) for index, level in zip(parents, s[1:], strict=True)]
    low, high = (np.reshape(limit, (-1, 1)) for limit in limits)
    n = np.reshape(np.asarray(rows, dtype=float), (-1, 1))
    if prior is None:
        # Every level has read the overall sum once, the coarsest best. (A sketch's global block is better still.)
        errors = noise1 * np.sqrt([level.shape[1] for level in s])
        share = (errors.min() / errors) ** 2 if errors.all() else np.eye(len(s))[errors.argmin()]
        total = share @ np.array([level.sum(axis=1) for level in s]) / share.sum()
        error = float(errors.min()) / share.sum() ** 0.5
        prior = _prior_mean(total, n[:, 0], error, 0.0, np.stack([low[:, 0], high[:, 0]]))
    M = np.broadcast_to(np.reshape(prior, (-1, 1)), (len(s[0]), 1))
    exact = bool(noise0[0] == 0 and noise1[0] == 0)
    # Values spread evenly over their bounds have a third of the squared half-range; more is never believed.
    cap = np.minimum((high - M) * (M - low), (high - low) ** 2 / 12)
    cap = cap if ceiling is None else np.minimum(cap, np.reshape(ceiling, (-1, 1)))
    cap = np.maximum(cap, 1e-4 * (high - low) ** 2)  # M may have reached a bound by noise alone
    weight, uncertain = _shrink_counts(c, noise0, n, up)
    typical = M**2 + TYPICAL_SPREAD * ((high - low) / 2) ** 2
    unit = max(float(weight.max()), 1e-150) if exact else _unit(noise1, weight, *s)
    readings, variances, total = [], [], weight
    for level, reading in enumerate(s):
        readings.append((reading - M * total) / unit)
        variance = (noise1[level] / unit) ** 2 + typical * (uncertain[level] / unit) ** 2
        variances.append(np.maximum(variance, 0.0 if exact else TINY) + np.zeros_like(readings[-1]))
        total = up[level].sum(total) if level < len(up) else total
    scaled = weight / unit + np.zeros_like(readings[0])
    scaled[scaled < 1e-60] = 0.0  # nothing is learned from such a key, and its inverse has no square
    # Rows that vary by half of what their bounds allow.
    usual = [((high - low) / 2) ** 2 / 2 * typical_share(level.shape[1], n) for level in s]
    of_sums = [np.maximum(np.reshape((sigma / unit) ** 2, (-1, 1)), 0.0 if exact else TINY) for sigma in noise1]
    return LevelReadings(
        c, s, readings, scaled, variances, of_sums, weight, uncertain[0], up, M, low, high, cap, usual, exact, unit
    )


def shrunk(found: LevelReadings) -> LookupValues:
    """The posterior means that a table's readings give by themselves."""
    M, weight = found.prior, found.shrunk_counts
    levels: tuple[LevelValues, ...] = ()
    if found.exact:
        solution, spread = _exact(found.counts, found.sums, M, found.up)
    else:
        spreads = estimate_spread(found.readings, found.weight, found.noise, found.up, found.cap)
        solution = smooth(found.readings, found.weight, found.noise, found.up, spreads)
        spread = np.sum(spreads, axis=0)
        levels = tuple(
            LevelValues(mean, reliability_of(variance, t), np.broadcast_to(t, (len(mean), 1))[:, 0])
            for t, (mean, variance) in zip(spreads, solution.deviations, strict=True)
        )
    return LookupValues(
        values=np.clip(M + solution.mean, found.low, found.high),
        prior_mean=M[:, 0],
        reliability=reliability_of(solution.variance, spread),
        posterior_variance=np.maximum(solution.variance, 0),
        spread=spread[:, 0],
        counts=weight if len(weight) > 1 else weight[0],
        levels=levels,
    )


def ratio_values(counts: np.ndarray, sums: np.ndarray, *, prior: float | np.ndarray) -> np.ndarray:
    """The raw ratio of noisy sum and noisy count, the prior where the count is not positive: for comparison only."""
    positive = counts > 0
    return np.where(positive, sums / np.where(positive, counts, 1.0), np.reshape(prior, (-1, 1)))


def level_steps(sizes: list[int], parents: Sequence[np.ndarray]) -> list[np.ndarray]:
    """From each key's row at every level (catch-all last) to each level's rows at the next one, without catch-alls."""
    below = np.arange(sizes[0])
    steps = []
    for size, smaller, rows in zip(sizes[1:], sizes, parents, strict=False):
        if len(rows) != sizes[0] or rows.max() != size - 1:
            raise InvalidInput("the key domain's levels are not those of the sketch.", hint="Use the domain that it names.")
        step = np.zeros(smaller, dtype=np.intp)
        step[below] = rows
        steps.append(step[:-1])
        below = rows
    return steps


# ------------------------------------------------------------------------------------------------ inside


def _unit(sigma: np.ndarray, *sizes: np.ndarray) -> float:
    """Numbers are taken in units of their noise, so that squares stay within floating point whatever the noise is."""
    return max(float(sigma[0]), 1e-12 * max(float(np.abs(size).max()) for size in sizes), 1e-150)


def _shrink_counts(
    c: list[np.ndarray], sigma: np.ndarray, rows: np.ndarray, up: list[KeyGroups]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Counts of the finest keys, none negative, adding up to `rows`; and the error of every level's counts."""
    if sigma[0] == 0:
        return np.maximum(c[0], 0.0), [np.zeros_like(level) for level in c]
    unit, each = _unit(sigma, rows, *c), rows / c[0].shape[1]
    keys = [np.ones((max(len(c[0]), len(rows)), c[0].shape[1]))]
    for group in up:
        keys.append(group.sum(keys[-1]))
    readings = [(reading - each * k) / unit for reading, k in zip(c, keys, strict=True)]
    variances = [np.full_like(k, max((s / unit) ** 2, TINY)) for s, k in zip(sigma, keys, strict=True)]
    spread = estimate_spread(readings, keys[0], variances, up, cap=np.maximum(rows / unit, TINY) ** 2)
    found = smooth(readings, keys[0], variances, up, spread)
    total = rows
    for level in range(len(c) - 1, -1, -1):
        # Clipped at 0, children would add up to more than their parent: they are scaled back to it.
        positive = np.maximum(each * keys[level] + unit * found.sums[level][0], TINY)
        if level == len(up):
            total = positive * (total / row_sums(positive))
        else:
            total = positive * (total / np.maximum(up[level].sum(positive), TINY))[:, up[level].index]
    return total, [unit * np.sqrt(np.maximum(variance, 0)) for _, variance in found.sums]


def _exact(c: list[np.ndarray], s: list[np.ndarray], M: np.ndarray, up: list[KeyGroups]) -> tuple[Posterior, np.ndarray]:
    """Without noise the mean itself; a key without rows takes its parent's, in the end M."""
    value = M
    for level in range(len(s) - 1, -1, -1):
        rows = np.broadcast_to(c[level], s[level].shape)
        value = np.where(rows > 0, s[level] / np.where(rows > 0, rows, 1.0), value)
        value = value[:, up[level - 1].index] if level else value
    weight = np.maximum(c[0], 0.0)
    spread = row_sums(weight * (value - M) ** 2) / np.maximum(row_sums(weight), 1.0)
    return Posterior(value - M, np.zeros_like(value), [], []), spread


def _prior_mean(
    total: np.ndarray, rows: float | np.ndarray, error: float | np.ndarray, rows_error: float, limits: np.ndarray
) -> np.ndarray:
    """The overall mean, drawn to the middle of its public bounds as far as it is noise: as if uniform between them."""
    n = np.maximum(rows, 1.0)
    low, high = limits
    middle, width = (low + high) / 2, (high - low) / 12**0.5
    raw = np.clip(total / n, low - 1e3, high + 1e3)
    relative = np.minimum(np.hypot(error / n, raw * rows_error / n) / width, 1e150)
    return np.asarray(np.clip(middle + (raw - middle) / (1 + relative**2), low, high))
