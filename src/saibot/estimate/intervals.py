"""Intervals for gains, R2 and coefficients: how far a number may be off because of noise, of sampling, or of both.

Everything a regression reports is a sum over rows of a quadratic form in a few *row forms*, each linear in a row: residuals
e = y - theta.(1, x, z), the target around its mean, the part of a feature that others do not explain. With per-key values z
such a sum is *linear* in the request's statistics (counts, sums, products), so its privacy noise has an exact variance
(mathematics.md, "Gains and their errors").
Sampling error has the same shape with other weights, of two kinds:

* `rows`: new rows of the same keys. Row forms are taken as jointly normal: Var = 2 n tr(A K A K), K their second moments.
* `keys`: new keys, with all their rows. The sum over keys of squared per-key sums, which allows for any dependence within a
  key; noise in the per-key sums is taken off, and the result is never taken below `rows`. This is what stops a search: a
  useless per-key feature gains about icc/d, not 1/n.

What is conditional on what: the *usable* gain of a private request, on its very table, has request noise only; a local
request has no noise and sampling error only; for a statement about new rows or keys a private request adds both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import chndtr, chndtrinc, ndtri

from saibot.errors import InvalidInput
from saibot.estimate.quadratic import Problem, Quadratic, RowForm, Sampling
from saibot.semiring import Gram, Moments

Source = Literal["train", "test"]


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval; a side that noise leaves open is infinite. `error` is a standard deviation."""

    value: float
    lower: float
    upper: float
    privacy_error: float
    sampling_error: float

    @property
    def error(self) -> float:
        return math.hypot(self.privacy_error, self.sampling_error)


@dataclass(frozen=True)
class GainInterval(Interval):
    """A gain in R2. `debiased` has the expected contribution of noise taken off: fitting noise always gains something."""

    debiased: float


def stop_quantile(alpha: float, candidates: int) -> float:
    """How many standard errors a gain must clear for the best of N useless candidates to pass with probability alpha."""
    return float(-ndtri(alpha / (2 * max(candidates, 1))))


def gain_interval(
    moments: Moments,
    *,
    own: Sequence[str],
    target: str,
    values: np.ndarray | None,
    base: np.ndarray,
    full: np.ndarray,
    source: Source = "train",
    confidence: float = 0.9,
    sampling: Sampling | None = None,
    clusters: np.ndarray | None = None,
    added: int | None = None,
) -> GainInterval:
    """The gain in R2 of the model `full` over `base`, both coefficients on (1, own, values), on these moments.

    `source="test"`: the coefficients come from elsewhere, so the gain is a ratio of two linear statistics (Fieller).
    `source="train"`: both were fitted to these moments; then the square root of the gain is the length of a vector with
    `added` coordinates, normal around the truth, and the gain a multiple of a noncentral chi-square.
    `clusters` gives every key its place among coarser ones: new `keys` are then drawn of those.
    """
    problem = Problem.of(moments, own, target, values)
    wide, narrow, centred = problem.residual(full), problem.residual(base), problem.around_mean()
    tss = Quadratic(problem.moments, (centred,), np.ones((1, 1))).value()
    if tss <= 0:
        return GainInterval(0.0, -math.inf if source == "test" else 0.0, 1.0, math.inf, 0.0, 0.0)
    if source == "test":
        forms = (narrow, wide, centred)
        found = _ratio(problem.moments, forms, np.diag([1.0, -1, 0]), np.diag([0.0, 0, 1]), confidence, sampling, clusters)
        value, lower, upper = (min(number, 1.0) for number in (found.value, found.lower, found.upper))
        return GainInterval(value, lower, upper, found.privacy_error, found.sampling_error, value)
    change = narrow - wide
    size = Quadratic(problem.moments, (change,), np.ones((1, 1))).value()
    gain = max(Quadratic(problem.moments, (narrow, wide), np.diag([1.0, -1])).value(), 0.0) / tss
    if size <= 0:
        return GainInterval(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    root = math.sqrt(gain)
    # d sqrt(g): along the unit change u, d(sum u e) + q/2 d(sum u^2), less what the noise of TSS takes with it.
    A = np.array([[root / 2, 0.5 / math.sqrt(tss), 0], [0.5 / math.sqrt(tss), 0, 0], [0, 0, -root / (2 * tss)]])
    statistic = Quadratic(problem.moments, (change * (1 / math.sqrt(size)), wide, centred), A)
    noise = statistic.noise_variance()
    sample = statistic.sampling_variance(sampling, clusters) if sampling else 0.0
    count = added if added is not None else max(int(np.sum((np.asarray(base) == 0) & (np.asarray(full) != 0))), 1)
    if not math.isfinite(noise + sample):
        return GainInterval(gain, 0.0, 1.0, math.inf, 0.0, 0.0)
    lower, upper = _length_interval(gain, noise + sample, count, confidence)
    # To first order the error of g is 2 sqrt(g) that of its root; near 0 the square of the latter is all there is.
    spread = [math.sqrt(4 * gain * part + 2 * part**2) for part in (noise, sample)]
    lower, upper = min(lower, 1.0), min(upper, 1.0)
    return GainInterval(min(gain, 1.0), lower, upper, spread[0], spread[1], min(gain, 1.0) - count * (noise + sample))


def new_key_gain(
    moments: Moments,
    *,
    own: Sequence[str],
    target: str,
    values: np.ndarray | None,
    base: np.ndarray,
    full: np.ndarray,
    clusters: np.ndarray | None = None,
    added: int = 1,
) -> float:
    """The gain in R2 to expect on keys that are not among these, of models that were fitted here.

    A slope fits its own keys better than the truth would, and others worse, each by its variance over keys:
    (v^2 - 2 SUM_k (SUM_i z~_i e_i)^2) / (r TSS), e the residuals with the candidate.
    """
    problem = Problem.of(moments, own, target, values)
    wide, narrow = problem.residual(full), problem.residual(base)
    tss = Quadratic(problem.moments, (problem.around_mean(),), np.ones((1, 1))).value()
    size = Quadratic(problem.moments, (narrow - wide,), np.ones((1, 1))).value()
    if tss <= 0 or size <= 0:
        return 0.0
    meeting = Quadratic(problem.moments, ((narrow - wide) * (1 / math.sqrt(size)), wide), np.array([[0, 0.5], [0.5, 0]]))
    return (size - 2 * added * meeting.sampling_variance("keys", clusters)) / tss


def r2_interval(
    moments: Moments,
    *,
    own: Sequence[str],
    target: str,
    values: np.ndarray | None,
    theta: np.ndarray,
    source: Source = "train",
    confidence: float = 0.9,
    sampling: Sampling | None = None,
) -> GainInterval:
    """R2 of a model: its gain over the mean."""
    problem = Problem.of(moments, own, target, values)
    return gain_interval(
        moments,
        own=own,
        target=target,
        values=values,
        base=np.append(problem.mean, np.zeros(problem.size - 1)),
        full=theta,
        source=source,
        confidence=confidence,
        sampling=sampling,
        added=problem.size - 1,
    )


def coefficient_interval(
    moments: Moments,
    *,
    own: Sequence[str],
    target: str,
    values: np.ndarray | None,
    index: int,
    confidence: float = 0.9,
    sampling: Sampling | None = None,
    clusters: np.ndarray | None = None,
) -> Interval:
    """Fieller's interval for coefficient `index` of (1, own, values), fitted without ridge: all slopes that noise allows.

    With u the part of the feature that the others do not explain and v that of the target, the slope is sum uv / sum uu.
    """
    problem = Problem.of(moments, own, target, values)
    if not 0 < index < problem.size:
        raise InvalidInput(f"the model has the coefficients 1 to {problem.size - 1}, not {index}.")
    looked = [f"looked up {i}" for i in range(problem.values.shape[1])]
    gram = problem.moments.gram(problem.values, looked)
    names = (*problem.own, *looked)
    others = [i for i in range(problem.size) if i != index]
    chosen = [names[i - 1] for i in others[1:]]
    known = Gram.exact(gram.features, gram.matrix)
    fit = known.fit(chosen, target, ridge=0.0)
    # The same inverse explains the feature itself by the others.
    feature, _ = known.arranged(chosen, names[index - 1])
    means = feature[0, 1:] / fit.count
    slopes = fit.inverse @ (feature[1:-1, -1] - feature[0, -1] * means[:-1])
    weights = np.zeros((2, problem.size))
    weights[0, index] = 1.0
    weights[0, others] = -np.append(means[-1] - slopes @ means[:-1], slopes)
    weights[1, others] = -fit.theta
    forms = problem.form(weights[0]), problem.form(weights[1], 1.0)
    return _ratio(
        problem.moments, forms, np.array([[0, 0.5], [0.5, 0]]), np.array([[1.0, 0], [0, 0]]), confidence, sampling, clusters
    )


def level_interval(
    moments: Moments,
    *,
    own: Sequence[str],
    target: str,
    values: np.ndarray | None,
    at: np.ndarray,
    confidence: float = 0.9,
    sampling: Sampling | None = None,
) -> Interval:
    """Fieller's interval for what the model, fitted without ridge, expects where (own, values) is `at`.

    At 0 in original units that is the intercept. Around `at` the level is the coefficient of the constant: with u the part
    of the constant that the other columns do not explain, and v that of the target, it is sum uv / sum uu.
    """
    problem = Problem.of(moments, own, target, values)
    looked = [f"looked up {i}" for i in range(problem.values.shape[1])]
    matrix, _ = problem.moments.gram(problem.values, looked).arranged((*problem.own, *looked), target)
    moved = np.eye(len(matrix))
    moved[0, 1:-1] = -np.asarray(at, dtype=float)  # every column less what it is at that place
    around = moved.T @ matrix @ moved
    inner = np.linalg.pinv(around[1:-1, 1:-1], rcond=1e-12, hermitian=True)
    weights = np.zeros((2, problem.size))
    for row, column in ((0, around[1:-1, 0]), (1, around[1:-1, -1])):
        slopes = inner @ column
        weights[row] = np.append((1.0 if row == 0 else 0.0) + slopes @ at, -slopes)
    forms = problem.form(weights[0]), problem.form(weights[1], 1.0)
    under = np.array([[1.0, 0], [0, 0]])
    return _ratio(problem.moments, forms, np.array([[0, 0.5], [0.5, 0]]), under, confidence, sampling)


# ------------------------------------------------------------------------------------------------ inside


def _ratio(
    moments: Moments,
    forms: tuple[RowForm, ...],
    over: np.ndarray,
    under: np.ndarray,
    confidence: float,
    sampling: Sampling | None,
    clusters: np.ndarray | None = None,
) -> Interval:
    """Fieller: every ratio b for which over - b under is within its error of 0. Open where the divisor is not clear of 0."""
    z = float(ndtri((1 + confidence) / 2))
    N, T = Quadratic(moments, forms, over).value(), Quadratic(moments, forms, under).value()
    if T <= 0:
        return Interval(0.0, -math.inf, math.inf, math.inf, 0.0)
    b = N / T
    at = Quadratic(moments, forms, over - b * under)
    noise, sample = at.noise_variance(), at.sampling_variance(sampling, clusters) if sampling else 0.0
    # In t = ratio - b:  (t T)^2 <= z^2 (V(b) - 2 t Cov + t^2 V(T)), with the sampling error as it is at b.
    v_under = Quadratic(moments, forms, under).noise_variance()
    step = math.sqrt(noise / v_under) if noise > 0 and v_under > 0 else 1.0
    shifted = Quadratic(moments, forms, over - (b + step) * under).noise_variance()
    covariance = (noise + step**2 * v_under - shifted) / (2 * step)
    errors = math.sqrt(noise) / T, math.sqrt(sample) / T
    a, h, c = 1 - z**2 * v_under / T / T, -(z**2) * covariance / T / T, -(z**2) * (noise / T / T + sample / T / T)
    if not a > 0 or not math.isfinite(h * h - a * c):
        return Interval(b, -math.inf, math.inf, *errors)
    root = math.sqrt(max(h * h - a * c, 0.0))
    return Interval(b, b + (h - root) / a, b + (h + root) / a, *errors)


def _length_interval(gain: float, variance: float, count: int, confidence: float) -> tuple[float, float]:
    """For gain/variance ~ noncentral chi-square with `count` degrees of freedom: the interval of the true gain."""
    if variance <= 0:
        return gain, gain
    x, tail = gain / variance, (1 - confidence) / 2
    if x > 1e4:  # where the noncentral chi-square is normal in its root, and its series slow
        root, z = math.sqrt(max(x - count + 1, 0.0)), float(ndtri(1 - tail))
        return variance * max(root - z, 0.0) ** 2, variance * (root + z) ** 2
    below = float(chndtr(x, count, 0.0))
    ends = [float(chndtrinc(x, count, p)) if below > p else 0.0 for p in (1 - tail, tail)]
    return variance * ends[0], variance * max(ends[1], x if x < 1 else 0.0)
