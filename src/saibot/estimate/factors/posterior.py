"""What a block of tables says, given factors: the exact Gaussian posterior, by one sweep over the tree of keys.

With y the readings and A Lambda_f those that a column of loadings would give, smoothed together (`Smoother`),

    G = (A Lambda)' Sigma^-1 (A Lambda),  g = (A Lambda)' Sigma^-1 y,   V = (I + tau^2 G)^-1,   a = tau V g
    b = S y - tau (S A Lambda) a,   z = tau Lambda a + b,   dz/da = tau (Lambda - S A Lambda)
    Cov(z) = (dz/da) V (dz/da)' + T - S A T

where Sigma is the readings' covariance without factors, S the tree's smoother, and T the tree's covariance.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from saibot.estimate.factors.readings import Readings
from saibot.estimate.tree import Means, Smoother

# Noise variance relative to the variance of what is read: below it, what is read and what is left of it cancel.
NOISE_FLOOR = 1e-8


class FactorPosterior:
    """Of tables whose tau^2 is given. Arrays have one row per table; those with a column per factor have it first."""

    def __init__(self, readings: Readings, loadings: np.ndarray, shares: np.ndarray, tau2: np.ndarray) -> None:
        self.readings, self.loadings, self.tau2 = readings, loadings, tau2
        self._shares = shares
        tree, weight = readings.tree, readings.weight
        noise = []
        for variance, total in zip(readings.noise, tree.sums(weight), strict=True):
            floored = np.maximum(variance, NOISE_FLOOR * tau2[:, None] * total**2)
            noise.append(np.where(floored > 0, floored, 1.0))  # 0: a key without rows, of which nothing is read
        spread = [share * tau2[:, None] for share in shares]
        self._smoother = Smoother(weight, noise, tree.up, spread)
        columns = tree.sums(weight * loadings.T[:, None, :])
        together = [np.concatenate([y[None], column]) for y, column in zip(readings.sums, columns, strict=True)]
        self._swept = self._smoother.sweep(together)
        products = self._smoother.products(self._swept)
        self._total, g = products[:, 0, 0], products[:, 0, 1:]
        G = (products[:, 1:, 1:] + products[:, 1:, 1:].transpose(0, 2, 1)) / 2
        self._precision = np.eye(loadings.shape[1]) + tau2[:, None, None] * G
        self.factor_covariance = np.linalg.inv(self._precision)  # V, (B, r, r)
        self.factor_means = self.tau[:, None] * (self.factor_covariance @ g[:, :, None])[:, :, 0]  # (B, r)
        self._g = g

    @property
    def tau(self) -> np.ndarray:
        return np.asarray(np.sqrt(self.tau2))

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """Of the readings (B,), but for a constant that depends on neither factors nor tau^2."""
        explained = self.tau * (self._g * self.factor_means).sum(axis=1)
        freedom = np.linalg.slogdet(self._precision)[1] if self.loadings.shape[1] else 0.0
        return np.asarray(-(self._total - explained + self._smoother.log_determinant + freedom) / 2)

    @cached_property
    def _means(self) -> Means:
        return self._smoother.means(self._swept)

    @property
    def smoothed_loadings(self) -> np.ndarray:
        """S A Lambda, (r, B, d)."""
        return self._means.values[0][1:]

    def _less_factors(self, columns: np.ndarray) -> np.ndarray:
        """The readings' column less what the factors' means make of the others."""
        scaled = (self.factor_means * self.tau[:, None])[:, None, :]
        return np.asarray(columns[0] - (scaled @ columns[1:].transpose(1, 0, 2))[:, 0])

    @cached_property
    def tree_part(self) -> np.ndarray:
        """The mean of tau b, (B, d)."""
        return self._less_factors(self._means.values[0])

    @property
    def deviations(self) -> np.ndarray:
        """The mean of z - M, (B, d)."""
        return np.asarray(self.tau[:, None] * (self.factor_means @ self.loadings.T) + self.tree_part)

    @cached_property
    def by_factor(self) -> np.ndarray:
        """dz/da, (r, B, d)."""
        return np.asarray(self.tau[:, None] * (self.loadings.T[:, None, :] - self.smoothed_loadings))

    @cached_property
    def variance(self) -> np.ndarray:
        """Of each key's value, (B, d)."""
        D = self.by_factor.transpose(1, 0, 2)
        known = (D * (self.factor_covariance @ D)).sum(axis=1)
        return np.asarray(np.maximum(self._smoother.variances.values[0] + known, 0.0))

    def level_squares(self) -> np.ndarray:
        """What is expected of the sum of each level's squared deviations of tau b, (levels, B)."""
        found = []
        for columns, variance in zip(self._means.deviations, self._smoother.variances.deviations, strict=True):
            D = columns[1:].transpose(1, 0, 2)
            spread = self.tau2 * np.einsum("bfg,bgf->b", self.factor_covariance, D @ D.transpose(0, 2, 1))
            found.append((self._less_factors(columns) ** 2).sum(axis=1) + variance.sum(axis=1) + spread)
        return np.asarray(found)

    def covariance_along(self, directions: np.ndarray) -> np.ndarray:
        """C' Cov(z) C for directions C over keys, (p, d), or (p, B, d) where each table has its own; (B, p, p)."""
        tree, weight, scale = self.readings.tree, self.readings.weight, self.tau2[:, None]
        each = directions if directions.ndim == 3 else directions[:, None, :] + np.zeros_like(weight)
        spread = tree.covariance_times(self._shares, each) * scale  # T C, (p, B, d)
        smoothed = self._smoother.means(self._smoother.sweep(tree.sums(weight * spread))).values[0]
        C = each.transpose(1, 0, 2)  # (B, p, d)
        along = C @ self.by_factor.transpose(1, 2, 0)  # C' dz/da, (B, p, r)
        found = C @ (spread - smoothed).transpose(1, 2, 0) + along @ self.factor_covariance @ along.transpose(0, 2, 1)
        return np.asarray((found + found.transpose(0, 2, 1)) / 2)
