"""The augmented training table as moments: what a plan of joins and unions has made of it so far.

A lookup join adds a feature whose value depends on the key alone, a union adds rows; both are arithmetic on per-key sums, so
the table itself is never built.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from saibot.search.scoring import Base
from saibot.semiring import Fit, Gram, Moments


@dataclass(frozen=True)
class State:
    """Moments over the request's finest keys, in scaled units around an origin: the training table's means.

    The noise of per-key sums is that before they were moved to the origin: counts and sums are noisy apart.
    """

    moments: Moments
    target: str
    origin: np.ndarray  # (m,), one for every feature
    own: int  # how many features are the request's own; lookups follow
    scale: float | None = None  # what gains are a share of, where that is not the target's sum of squares

    @classmethod
    def of(cls, moments: Moments, target: str, *, origin: np.ndarray | None = None) -> State:
        """Around the table's means (which keeps year columns from cancelling), or around those of another table."""
        moments.position(target)
        mean = moments.means if origin is None else origin
        moved = replace(moments, count=max(moments.count, 1.0)).rescale(np.ones(len(mean)), -mean)
        moved = replace(
            moved,
            counts=smoothed_counts(moments),
            products=(moved.products + moved.products.T) / 2,
            sum_noise=moments.sum_noise,
            product_noise=moments.product_noise,
            key_products=None,
            key_product_noise=None,
        )
        return cls(moved, target, mean, len(moments.features))

    @property
    def features(self) -> tuple[str, ...]:
        return self.moments.features

    @property
    def counts(self) -> np.ndarray:
        return self.moments.counts

    @property
    def count(self) -> float:
        return self.moments.count

    def centre_of(self, values: np.ndarray) -> float:
        """The mean that a column of per-key values has on this table."""
        return float(self.counts @ values) / self.count

    def with_lookup(self, name: str, values: np.ndarray, *, centre: float) -> State:
        """Join a column whose value for finest key k is `values[k]`, taken around `centre`."""
        moments = self.moments.with_lookup(name, values - centre)
        return replace(self, moments=moments, origin=np.append(self.origin, centre))

    def without(self, name: str) -> State:
        """The same table without one of the request's own features."""
        kept = [i for i, feature in enumerate(self.features) if feature != name]
        moments = self.moments.select(tuple(self.features[i] for i in kept))
        return replace(self, moments=moments, origin=self.origin[kept], own=self.own - 1)

    @property
    def names(self) -> tuple[str, ...]:
        """The explaining features."""
        return tuple(name for name in self.features if name != self.target)

    def _split(self) -> tuple[list[int], int]:
        y = self.features.index(self.target)
        return [i for i in range(len(self.features)) if i != y], y

    @cached_property
    def fit(self) -> Fit:
        """The model of these moments, through their origin; solved once per state."""
        size = 1 + len(self.features)
        matrix, noise = np.zeros((size, size)), np.zeros((size, size))
        matrix[0, 0], matrix[1:, 1:], noise[1:, 1:] = self.count, self.moments.products, self.moments.product_noise
        return Gram(self.features, matrix, noise).fit(self.names, self.target, ridge=0.0)

    @property
    def tss(self) -> float:
        """The target's sum of squares, not below the noise that it carries."""
        if self.scale is not None:
            return max(self.scale, 1e-300)
        y = self.features.index(self.target)
        return max(self.fit.tss, float(self.moments.product_noise[y, y]), 1e-300)

    def theta(self) -> np.ndarray:
        """Coefficients of the features around their means."""
        return self.fit.coefficients

    def r2(self) -> float:
        """Of the current model on these very moments, in [0, 1]."""
        return self.fit.r2

    def r2_of(self, model: State) -> float:
        """Of a model fitted on another table with the same features, at most 1: how it does on this one."""
        x, y = self._split()
        # The model passes through its own table's means, which may lie beside this table's origin.
        shift = model.origin - self.origin
        moved = replace(model.fit, intercept=float(shift[y] - model.theta() @ shift[x]))
        return self.moments.gram().r2_of(moved)

    def residual_sums(self) -> np.ndarray:
        """E_k: the sum over each key's rows of what the current model leaves unexplained."""
        x, y = self._split()
        residual: np.ndarray = self.moments.sums[:, y] - self.moments.sums[:, x] @ self.theta()
        return residual

    def residual_noise(self) -> np.ndarray:
        """The variance of the privacy noise in E_k, own features only."""
        x, y = self._split()
        own = [i for i in x if i < self.own]
        theta = self.theta()[: len(own)]
        level = float(self.origin[y] - theta @ self.origin[own])
        variance: np.ndarray = self.moments.sum_noise[:, y] ** 2 + self.moments.count_noise**2 * level**2
        for i, slope in zip(own, theta, strict=True):
            variance += self.moments.sum_noise[:, i] ** 2 * slope**2
        return variance

    @staticmethod
    def _residual_weights(residuals: np.ndarray, counts: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """What stands for E_k^2 in the error of a gain: E_k^2 itself, or its expectation where it is mostly noise.

        One draw of noise says little about its own size. With noise, the sum of all E_k^2 is kept and spread over keys: the
        known noise as it is known, the rest in proportion to the squared counts, as for rows that share a key's effect.
        """
        total, known = float(residuals @ residuals), float(noise.sum())
        if not known or not total:
            return residuals**2
        share = min(known / total, 1.0)
        squared = counts**2
        weight: np.ndarray = total * (share * noise / known + (1 - share) * squared / max(float(squared.sum()), 1e-300))
        return weight

    def base(self, index: np.ndarray, size: int) -> Base:
        """Everything the sweep needs, grouped by the keys of one domain: `index` places every finest key in it."""
        x, y = self._split()
        p = 1 + len(x)
        inverse = np.zeros((p, p))
        inverse[0, 0] = 1 / self.count
        inverse[1:, 1:] = self.fit.inverse

        def grouped(column: np.ndarray) -> np.ndarray:
            return np.bincount(index, column, size)

        counts = grouped(self.counts)
        sums = [grouped(self.moments.sums[:, i]) for i in x]
        target = grouped(self.moments.sums[:, y])
        residuals = grouped(self.residual_sums())
        weight = self._residual_weights(residuals, counts, grouped(self.residual_noise()))
        return Base(
            inverse=inverse,
            theta=np.append(0.0, self.theta()),
            tss=self.tss,
            count=self.count,
            residual_total=float(residuals.sum()),
            weight_total=float(weight.sum()),
            rows_per_key=float(counts @ counts) / max(float(counts.sum()), 1e-300),
            keys=int(np.count_nonzero(counts > 0)),
            linear=np.column_stack([counts, *sums, target, weight]),
            square=np.column_stack([counts, weight]),
        )


def smoothed_counts(moments: Moments) -> np.ndarray:
    """Counts pulled towards their mean by as much as their noise deserves, none of them negative; exact ones as they are."""
    noise = float(np.mean(moments.count_noise**2))
    if not noise:
        return moments.counts
    mean = moments.count / len(moments.counts)
    spread = max(float(np.mean((moments.counts - mean) ** 2)) - noise, 0.0)
    return np.maximum(mean + spread / (spread + noise) * (moments.counts - mean), 0.0)
