"""Synthetic rows: a table that a sketch could have come from. Post-processing of a private sketch: it costs no budget.

One draw from what the sketch leaves open, not its means: a table of posterior means would look surer than the sketch is.

* **Key means** are drawn from the posterior on the tree of keys (`saibot.estimate.lookup`) by Matheron's rule: draw values
  and readings from the model, and add to the posterior mean what that draw's own posterior mean missed. All keys and levels
  are drawn together, so sums over a coarser key are as uncertain as the sketch says, and no more.
* **Counts** are drawn around the shrunk ones with their posterior error, and add up to the number of rows.
* **Covariances** within a key: a sketch of layout `lookup` has none per key; the global one is pooled, that is, the whole
  table's second moments less those of the drawn key means. Where products per key were released, each key's are shrunk
  towards the pooled ones by how much of their spread is signal.
* **Rows** of a key follow a Gaussian copula with a beta law for each number and a coin for each indicator, of the mean and
  variance drawn: nothing lies outside the public bounds, so nothing is clipped and no moment is moved. The copula's
  correlations are corrected for what these laws take away from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtr

from saibot.errors import InvalidInput
from saibot.estimate.lookup import LevelReadings, shrunk, sketch_readings
from saibot.estimate.totals import Totals, totals
from saibot.estimate.tree import Smoother, estimate_spread
from saibot.sketch import Feature, Sketch

WIDEST = 0.98  # of the variance that bounds allow around a mean: more would be two points
NARROWEST = 1e-6
MOST = 0.99  # correlation
CALIBRATION_ROWS, CALIBRATION_ROUNDS = 8_000, 3


@dataclass(frozen=True)
class SyntheticRows:
    """Rows in the order of their keys: `keys` is the row of the sketch's finest level (the last one: outside the domain)."""

    keys: np.ndarray  # (n,), all 0 for a sketch without a key
    values: np.ndarray  # (n, m), original units
    means: np.ndarray  # (keys, m), as drawn, scaled units
    counts: np.ndarray  # (keys,)


@dataclass(frozen=True)
class _Drawn:
    """One draw of what the sketch says, scaled: rows per key, means (keys, m), covariances within (1 or keys, m, m)."""

    counts: np.ndarray
    means: np.ndarray
    within: np.ndarray


def synthetic_rows(
    sketch: Sketch, *, seed: int = 0, rows: int | None = None, domain_parents: Sequence[np.ndarray] = ()
) -> SyntheticRows:
    """One draw. `rows` makes the table larger or smaller than the sketch's own, in proportion.

    `domain_parents` are those of `lookup_values`: with them, coarser key levels of the sketch are used.
    """
    whole = totals(sketch)
    if whole.products is None:
        raise InvalidInput(
            "this sketch holds no products, so nothing is known of how its rows vary.",
            hint="Privatise the table with --order 2.",
        )
    rng = np.random.default_rng(seed)
    drawn = _draw(sketch, whole, rng, domain_parents)
    size = round(max(whole.count, 1.0)) if rows is None else rows
    counts = _whole_numbers(drawn.counts, size)
    keys = np.repeat(np.arange(len(counts)), counts)
    features = sketch.header.features
    latent = _latent_correlation(drawn, features, rng)
    scaled = _sampled(keys, drawn, features, latent, rng)
    offset, scale = np.array([(feature.offset, feature.scale) for feature in features]).T
    return SyntheticRows(keys, offset + scale * scaled, drawn.means, counts)


# ------------------------------------------------------------------------------------------------ what the sketch says


def _draw(sketch: Sketch, whole: Totals, rng: np.random.Generator, parents: Sequence[np.ndarray]) -> _Drawn:
    low, high = np.array([(0.0, 1.0) if f.kind == "indicator" else (-1.0, 1.0) for f in sketch.header.features]).T
    overall = whole.sums + rng.normal(size=len(whole.sums)) * np.sqrt(whole.sums_variance)
    mean = np.clip(overall / max(whole.count, 1.0), low, high)
    if not sketch.levels:
        counts, means = np.array([whole.count]), mean[None, :]
    else:
        found, outside = sketch_readings(sketch, parents)
        means = np.vstack([_key_means(found, rng), found.prior[:, 0]])
        counts = np.append(_counts(found, rng), outside)
    share = counts / max(counts.sum(), 1e-300)
    # All keys together are known far better than each: their draws add up to a draw of the whole table's sums.
    means = np.clip(means + mean - share @ means, low, high)
    assert whole.products is not None and whole.products_variance is not None
    error = np.triu(rng.normal(size=whole.products.shape) * np.sqrt(whole.products_variance))
    second = (whole.products + error + np.triu(error, 1).T) / max(whole.count, 1.0)
    pooled = _positive(second - (means.T * share) @ means)
    return _Drawn(counts, means, _by_key(sketch, counts, means, pooled, rng))


def _key_means(found: LevelReadings, rng: np.random.Generator) -> np.ndarray:
    """A draw of all keys' means (keys, m) from their joint posterior."""
    if found.exact:
        return shrunk(found).values.T
    spreads = estimate_spread(found.readings, found.weight, found.noise, found.up, found.cap)
    smoother = Smoother(found.weight, found.noise, found.up, spreads)

    def posterior_mean(readings: list[np.ndarray]) -> np.ndarray:
        return smoother.means(smoother.sweep(readings)).values[0]

    deviations = np.zeros((found.weight.shape[0], 1))  # of the level above, from the coarsest down
    for level in range(len(spreads) - 1, -1, -1):
        above = deviations if level == len(spreads) - 1 else deviations[:, found.up[level].index]
        shape = found.readings[level].shape
        deviations = above + rng.normal(size=shape) * np.sqrt(spreads[level])
    readings, sums = [], found.weight * deviations
    for level, noise in enumerate(found.noise):
        sums = sums if level == 0 else found.up[level - 1].sum(sums)
        readings.append(sums + rng.normal(size=noise.shape) * np.sqrt(noise))
    missed = deviations - posterior_mean(readings)
    return np.asarray((found.prior + posterior_mean(found.readings) + missed).T)


def _counts(found: LevelReadings, rng: np.random.Generator) -> np.ndarray:
    """A draw of the finest keys' counts, none negative, adding up to what they add up to in the posterior mean."""
    mean = found.shrunk_counts[0]
    drawn = np.maximum(mean + rng.normal(size=mean.shape) * found.count_error[0], 0.0)
    return np.asarray(drawn * (mean.sum() / max(float(drawn.sum()), 1e-300)))


def _by_key(
    sketch: Sketch, counts: np.ndarray, means: np.ndarray, pooled: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Covariances within each key, where products per key were released; otherwise the pooled one for all."""
    if not sketch.levels or sketch.key_basis.order < 2:
        return pooled[None]
    m = len(sketch.features)
    products = sketch.levels[0].values[:, sketch.key_basis.squares]
    diagonal, beside = sketch.sigma("key", 2), sketch.sigma("key", 2, multiplicity=2)
    assert diagonal is not None and beside is not None
    noise = np.where(np.eye(m, dtype=bool), diagonal, beside) ** 2
    n = counts[:, None, None]
    surprise = products - n * (means[:, :, None] * means[:, None, :] + pooled)
    spread = np.maximum((surprise**2 - noise).sum(axis=0), 0.0) / max(float((counts**2).sum()), 1e-300)
    known = spread * n**2 + noise
    shrunken = np.divide(spread * n, known, out=np.zeros_like(surprise), where=known > 0) * surprise
    left = np.divide(spread * noise, known, out=np.zeros_like(surprise), where=known > 0)
    error = np.triu(rng.normal(size=surprise.shape) * np.sqrt(left))
    return np.stack([_positive(one) for one in pooled + shrunken + error + np.swapaxes(np.triu(error, 1), 1, 2)])


def _positive(covariance: np.ndarray) -> np.ndarray:
    """The nearest covariance: noise may have left eigenvalues below 0."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, NARROWEST)) @ vectors.T)


# ------------------------------------------------------------------------------------------------ rows


def _whole_numbers(counts: np.ndarray, total: int) -> np.ndarray:
    """Counts in these proportions that add up to the total: the largest remainders are rounded up."""
    exact = counts * (total / max(float(counts.sum()), 1e-300))
    floor = np.floor(exact).astype(np.int64)
    short = total - int(floor.sum())
    floor[np.argsort(-(exact - floor), kind="stable")[:short]] += 1
    return floor


def _sampled(
    keys: np.ndarray, drawn: _Drawn, features: Sequence[Feature], latent: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows of these keys in scaled units, with the laws of the drawn means and variances."""
    uniform = ndtr(rng.normal(size=(len(keys), len(latent))) @ np.linalg.cholesky(latent).T)
    values = np.zeros(uniform.shape)
    levels: dict[str, list[int]] = {}
    for i, feature in enumerate(features):
        if feature.kind == "indicator":
            levels.setdefault(feature.column or feature.name, []).append(i)
            continue
        variance = np.broadcast_to(drawn.within[:, i, i], (len(drawn.counts),))[keys]
        middle = np.clip((1 + drawn.means[keys, i]) / 2, 1e-6, 1 - 1e-6)  # of a beta law on 0 to 1
        most = middle * (1 - middle)
        weight = most / np.clip(variance / 4, NARROWEST * most, WIDEST * most) - 1
        values[:, i] = 2 * betaincinv(middle * weight, (1 - middle) * weight, uniform[:, i]) - 1
    for members in levels.values():  # a row has one level of a column at most
        chance = drawn.means[:, members]
        edges = np.cumsum(chance / np.maximum(chance.sum(axis=1, keepdims=True), 1.0), axis=1)[keys]
        coin = 1 - uniform[:, members[:1]]
        values[:, members] = (coin < edges) & (coin >= np.column_stack([np.zeros(len(keys)), edges[:, :-1]]))
    return values


def _latent_correlation(drawn: _Drawn, features: Sequence[Feature], rng: np.random.Generator) -> np.ndarray:
    """The copula's correlations, raised until a sample of rows has those that were drawn, on average over keys."""
    share = drawn.counts / max(float(drawn.counts.sum()), 1e-300)
    pooled = drawn.within[0] if len(drawn.within) == 1 else np.tensordot(share, drawn.within, 1)
    wanted = latent = _correlation(pooled)
    keys = np.sort(rng.choice(len(share), CALIBRATION_ROWS, p=share))
    for _ in range(CALIBRATION_ROUNDS if len(wanted) > 1 else 0):
        sample = _sampled(keys, drawn, features, latent, rng) - drawn.means[keys]
        reached = _correlation(sample.T @ sample / len(sample))
        latent = _correlation(_positive(np.clip(latent + wanted - reached, -MOST, MOST) + (1 - MOST) * np.eye(len(latent))))
    return latent


def _correlation(covariance: np.ndarray) -> np.ndarray:
    spread = np.sqrt(np.maximum(np.diag(covariance), NARROWEST))
    return np.asarray(covariance / np.outer(spread, spread) * (1 - np.eye(len(spread))) + np.eye(len(spread)))
