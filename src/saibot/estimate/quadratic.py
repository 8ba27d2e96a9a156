"""Sums over rows of quadratic forms, read off a request's statistics, with the noise and the sampling error they carry.

Everything a regression reports is such a sum: of squared residuals, of a feature's part that others do not explain times the
target's. With per-key values it is *linear* in the request's counts, sums and products (mathematics.md, "Gains and their
errors"), so its noise has an exact variance; its sampling error has the same shape with other weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from saibot.errors import InvalidInput
from saibot.semiring import Moments
from saibot.semiring.moving import total_error

Sampling = Literal["rows", "keys"]


@dataclass(frozen=True)
class Problem:
    """A regression on a request's own features and on values looked up by key (D, j), and the statistics to judge it by."""

    moments: Moments
    own: tuple[str, ...]
    target: str
    values: np.ndarray

    @classmethod
    def of(cls, moments: Moments, own: Sequence[str], target: str, values: np.ndarray | None = None) -> Problem:
        d = len(moments.counts)
        columns = np.zeros((d, 0)) if values is None else np.asarray(values, dtype=float).reshape(d, -1)
        return cls(moments.select((*own, target)), tuple(own), target, columns)

    @property
    def size(self) -> int:
        """Coefficients with the intercept."""
        return 1 + len(self.own) + int(self.values.shape[1])

    @property
    def mean(self) -> float:
        return float(self.moments.total[-1]) / max(self.moments.count, 1.0)

    def form(self, weights: np.ndarray, target: float = 0.0) -> RowForm:
        """target * y + weights . (1, own, values)."""
        if len(weights) != self.size:
            raise InvalidInput(f"this model has {self.size} coefficients with its intercept, not {len(weights)}.")
        p = len(self.own)
        return RowForm(weights[0] + self.values @ weights[1 + p :], np.append(weights[1 : 1 + p], target))

    def residual(self, theta: np.ndarray) -> RowForm:
        return self.form(-np.asarray(theta, dtype=float), 1.0)

    def around_mean(self) -> RowForm:
        return self.residual(np.append(self.mean, np.zeros(self.size - 1)))


@dataclass(frozen=True)
class RowForm:
    """A function of a row: a constant of its key plus weights on the request's own features, the target the last."""

    keys: np.ndarray
    weights: np.ndarray

    def __mul__(self, factor: float) -> RowForm:
        return RowForm(self.keys * factor, self.weights * factor)

    def __sub__(self, other: RowForm) -> RowForm:
        return RowForm(self.keys - other.keys, self.weights - other.weights)


@dataclass(frozen=True)
class Quadratic:
    """sum over rows of sum_ij A_ij f_i f_j, for row forms f."""

    moments: Moments
    forms: tuple[RowForm, ...]
    A: np.ndarray

    def _functional(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Its coefficients: of counts (D,), of sums (D, m) and of products (m, m)."""
        keys = np.array([form.keys for form in self.forms])
        weights = np.array([form.weights for form in self.forms])
        mixed = self.A @ keys
        return np.sum(keys * mixed, axis=0), 2 * mixed.T @ weights, weights.T @ self.A @ weights

    def value(self) -> float:
        return float(np.sum(self.A * self._pairs))

    @cached_property
    def _pairs(self) -> np.ndarray:
        """sum over rows of f_i f_j, for every pair of forms."""
        counts = self.moments.balanced_counts
        keys = np.array([form.keys for form in self.forms])
        weights = np.array([form.weights for form in self.forms])
        mixed = keys @ self.moments.balanced_over_features(weights.T)
        pairs: np.ndarray = (keys * counts) @ keys.T + mixed + mixed.T + weights @ self.moments.products @ weights.T
        return pairs

    def noise_variance(self) -> float:
        """Of the privacy noise: exact, given the forms (with the totals where they are known better)."""
        moments = self.moments
        if moments.exact:
            return 0.0
        h0, h1, G = self._functional()
        errors = [total_error(h0, moments.count_noise, moments.total_count_noise)]
        errors += [total_error(h1[:, i], moments.sum_noise[:, i], float(moments.total_noise[i])) for i in range(len(G))]
        # Off the diagonal a product stands twice in the sum and was released once.
        once = np.triu(2 * G) - np.diag(np.diag(G))
        return float(np.sum(np.square(errors)) + np.sum((once * moments.product_noise) ** 2))

    def sampling_variance(self, kind: Sampling, clusters: np.ndarray | None = None) -> float:
        """`clusters` gives every key its place among coarser ones, where those are what new keys would be drawn of."""
        n = max(self.moments.count, 1.0)
        product = self.A @ self._pairs / n
        rows = max(2 * n * float(np.trace(product @ product)), 0.0)
        return rows if kind == "rows" else max(self._between_keys(clusters), rows)

    def _between_keys(self, clusters: np.ndarray | None) -> float:
        moments, (h0, h1, G) = self.moments, self._functional()
        counts, by_key = moments.counts, moments.key_products
        # Where products of a single key were not released, its rows get their share of the whole table's.
        each = 0.0 if by_key is not None else float(np.sum(G * moments.products)) / max(moments.count, 1.0)
        parts = (h0 + each) * counts + np.sum(h1 * moments.sums, axis=1)
        if by_key is not None:
            parts = parts + np.einsum("kij,ij->k", by_key, G)
        noise: np.ndarray = np.zeros(len(counts))
        if not moments.exact:
            noise = ((h0 + each) * moments.count_noise) ** 2 + np.sum((h1 * moments.sum_noise) ** 2, axis=1)
            if moments.key_product_noise is not None:
                once = np.triu(2 * G) - np.diag(np.diag(G))
                noise = noise + np.sum((once * moments.key_product_noise) ** 2, axis=(1, 2))
        if clusters is not None:
            parts, noise, counts = (np.bincount(clusters, column) for column in (parts, noise, counts))
        # Few keys: one degree of freedom for each coefficient, and (t/z)^2 of Student's t for a 90 % interval.
        free = max(int(np.sum(counts > 0)) - len(moments.features) - 1, 2)
        return float(np.sum(parts**2 - noise)) * (1 + (len(moments.features) + 1) / free) * (1 + 2 / free)
