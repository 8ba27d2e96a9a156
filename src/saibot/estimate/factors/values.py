"""The values of tables once factors are known, and how large each table's tau^2 is.

A table has one unknown scale, tau^2. It is taken where the likelihood of the table's readings times the prior of
`saibot.estimate.lookup` (the typical spread, which weighs as four keys) is largest, on a grid of scales around the table's
own first guess: that takes sweeps upwards only. How well factors foretell a table is its mean likelihood over the same grid,
without the prior: a table that is all noise must be free to say so, or any direction would explain some of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saibot.estimate.factors.model import Factors
from saibot.estimate.factors.posterior import FactorPosterior
from saibot.estimate.factors.readings import PRIOR_KEYS, Readings
from saibot.estimate.tree import reliability_of

# Logarithms of tau^2 relative to the first guess, finer around it.
GRID = np.log(2.0) * np.array([-12.0, -9.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])


@dataclass(frozen=True)
class FactorValues:
    """Of N tables over d keys, scaled units: posterior means within their bounds, variances, and each table's tau^2."""

    values: np.ndarray  # (N, d)
    variance: np.ndarray  # (N, d)
    tau2: np.ndarray  # (N,)
    prior_variance: np.ndarray  # (N, d), before anything was read

    @property
    def reliability(self) -> np.ndarray:
        """The share of the prior variance of each value that is signal, (N, d)."""
        return reliability_of(self.variance, self.prior_variance)


def apply(factors: Factors, readings: Readings) -> FactorValues:
    """The values of all tables. With no factors they are exactly those that each table gives by itself."""
    N, d = readings.weight.shape
    tau2 = scales(factors, readings).tau2
    if not factors.rank:
        prior = np.broadcast_to(readings.plain_spread[:, None], (N, d))
        return FactorValues(readings.plain, readings.plain_variance, tau2, prior)
    values, variance = np.empty((N, d)), np.empty((N, d))
    for block in readings.blocks(1 + factors.rank):
        some = readings.take(block)
        found = FactorPosterior(some, factors.loadings, factors.shares, tau2[block])
        values[block] = np.clip(some.mean[:, None] + found.deviations, some.low[:, None], some.high[:, None])
        variance[block] = found.variance
    return FactorValues(values, variance, tau2, tau2[:, None] * factors.prior_variance)


@dataclass(frozen=True)
class Scales:
    """Each table's best tau^2 (N,), and the logarithm of its mean likelihood over scales (N,)."""

    tau2: np.ndarray
    log_likelihood: np.ndarray


def scales(factors: Factors, readings: Readings) -> Scales:
    """How large each table's values spread, given factors."""
    first, N = readings.first_scales, len(readings)
    if not N:
        return Scales(first, np.zeros(0))
    likelihood = np.empty((len(GRID), N))
    for block in readings.blocks(1 + factors.rank):
        some = readings.take(block)
        for row, exponent in zip(likelihood, GRID, strict=True):
            found = FactorPosterior(some, factors.loadings, factors.shares, first[block] * np.exp(exponent))
            row[block] = found.log_likelihood
    top = likelihood.max(axis=0)
    mean = top + np.log(np.exp(likelihood - top).mean(axis=0))
    tau2 = first * np.exp(GRID)[:, None]
    prior = np.log(tau2) + np.maximum(readings.typical, 1e-12) / tau2
    best = first * np.exp(_peak(likelihood - PRIOR_KEYS / 2 * prior))
    return Scales(np.clip(best, 1e-6 * readings.cap, readings.cap), mean)


def _peak(found: np.ndarray) -> np.ndarray:
    """Where a parabola through the best point of the grid and its neighbours is largest, as a logarithm."""
    best = np.clip(found.argmax(axis=0), 1, len(GRID) - 2)
    tables = np.arange(found.shape[1])
    before, here, after = GRID[best - 1], GRID[best], GRID[best + 1]
    below = (found[best, tables] - found[best - 1, tables]) / (here - before)  # slopes on both sides
    above = (found[best + 1, tables] - found[best, tables]) / (after - here)
    bend = below - above
    middle = (before + here) / 2 + np.divide(below, bend, out=np.zeros_like(bend), where=bend > 1e-12) * (after - before) / 2
    at_edge = np.where(above > 0, after, before)
    return np.asarray(np.clip(np.where(bend > 1e-12, middle, at_edge), before, after))
