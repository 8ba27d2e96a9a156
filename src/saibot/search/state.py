"""The augmented training table as moments: what a plan of joins and unions has made of it so far.

A lookup join adds a feature whose value depends on the key alone, a union adds rows; both are arithmetic on per-key sums, so
the table itself is never built.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from saibot.errors import InvalidInput
from saibot.search.scoring import Base
from saibot.semiring import Moments


@dataclass(frozen=True)
class State:
    """Moments over the request's finest keys, features in scaled units around an origin: the training table's means."""

    features: tuple[str, ...]
    target: str
    counts: np.ndarray
    sums: np.ndarray  # (D, m)
    products: np.ndarray  # (m, m)
    total: np.ndarray  # (m,), sums of the whole table: 0 for a table around its own means
    count: float
    ridge: float  # the size of the noise in the squares of the own features; 0 for an exact request
    key_noise: tuple[np.ndarray, np.ndarray]  # (D,) and (D, own): variance of the noise of a count and of sums
    origin: np.ndarray  # (m,), one for every feature
    own: int  # how many features are the request's own; lookups follow

    @classmethod
    def of(cls, moments: Moments, target: str, *, origin: np.ndarray | None = None) -> State:
        """Around the table's means (which keeps year columns from cancelling), or around those of another table."""
        moments.position(target)
        mean = moments.means if origin is None else origin
        n = max(moments.count, 1.0)
        total = moments.total - n * mean
        products = (
            moments.products - np.outer(moments.total, mean) - np.outer(mean, moments.total) + n * np.outer(mean, mean)
        )
        ridge = float(np.max(np.diag(moments.product_noise), initial=0.0))
        return cls(
            features=moments.features,
            target=target,
            counts=smoothed_counts(moments),
            sums=moments.sums - moments.counts[:, None] * mean,
            products=(products + products.T) / 2,
            total=total,
            count=n,
            ridge=ridge,
            key_noise=(moments.count_noise**2, moments.sum_noise**2),
            origin=mean,
            own=len(moments.features),
        )

    def centre_of(self, values: np.ndarray) -> float:
        """The mean that a column of per-key values has on this table."""
        return float(self.counts @ values) / self.count

    def with_lookup(self, name: str, values: np.ndarray, *, centre: float) -> State:
        """Join a column whose value for finest key k is `values[k]`, taken around `centre`."""
        if name in self.features:
            raise InvalidInput(f"the request has a feature {name!r} already.")
        deviation = values - centre
        column = self.counts * deviation
        cross = self.sums.T @ deviation
        square = float(column @ deviation)
        products = np.block([[self.products, cross[:, None]], [cross[None, :], np.array([[square]])]])
        return replace(
            self,
            features=(*self.features, name),
            sums=np.column_stack([self.sums, column]),
            total=np.append(self.total, column.sum()),
            origin=np.append(self.origin, centre),
            products=products,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The explaining features."""
        return tuple(name for name in self.features if name != self.target)

    def _split(self) -> tuple[list[int], int]:
        y = self.features.index(self.target)
        return [i for i in range(len(self.features)) if i != y], y

    def gram(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Centred Gram matrix of the features, their products with the target, and the target's sum of squares.

        Noise can push the matrix out of the positive definite ones; its eigenvalues are lifted to the noise's own size.
        """
        x, y = self._split()
        square = self.products[np.ix_(x, x)].copy()
        if self.ridge and len(x):
            floor = self.ridge
            values, vectors = np.linalg.eigh(square)
            if values[0] < floor:
                square = (vectors * np.maximum(values, floor)) @ vectors.T
        tss = float(self.products[y, y])
        return square, self.products[x, y], max(tss, self.ridge, 1e-300)

    @cached_property
    def _model(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Inverse Gram matrix, coefficients, what they explain, and the target's sum of squares; solved once per state."""
        square, cross, tss = self.gram()
        inverse = _inverse(square)
        theta: np.ndarray = inverse @ cross
        return inverse, theta, float(cross @ theta), tss

    def theta(self) -> np.ndarray:
        """Coefficients of the features around their means."""
        return self._model[1]

    def r2(self) -> float:
        """Of the current model on these very moments, in [0, 1]."""
        _, _, explained, tss = self._model
        return min(max(explained / tss, 0.0), 1.0)

    def r2_of(self, model: State) -> float:
        """Of a model fitted on another table with the same features, at most 1: how it does on this one."""
        x, y = self._split()
        theta = model.theta()
        # The model passes through its own table's means, which may lie beside this table's origin.
        shift = model.origin - self.origin
        level = float(shift[y] - theta @ shift[x])
        unexplained = self.products[y, y] - 2 * theta @ self.products[x, y] + theta @ self.products[np.ix_(x, x)] @ theta
        unexplained += self.count * level**2 - 2 * level * (self.total[y] - theta @ self.total[x])
        spread = max(float(self.products[y, y] - self.total[y] ** 2 / self.count), self.ridge, 1e-300)
        return float(min(1.0 - unexplained / spread, 1.0))

    def residual_sums(self) -> np.ndarray:
        """E_k: the sum over each key's rows of what the current model leaves unexplained."""
        x, y = self._split()
        residual: np.ndarray = self.sums[:, y] - self.sums[:, x] @ self.theta()
        return residual

    def residual_noise(self) -> np.ndarray:
        """The variance of the privacy noise in E_k, own features only."""
        x, y = self._split()
        own = [i for i in x if i < self.own]
        theta = self.theta()[: len(own)]
        level = float(self.origin[y] - theta @ self.origin[own])
        counts, sums = self.key_noise
        variance: np.ndarray = sums[:, y] + sums[:, own] @ theta**2 + counts * level**2
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
        model, theta, _, tss = self._model
        p = 1 + len(x)
        inverse = np.zeros((p, p))
        inverse[0, 0] = 1 / self.count
        inverse[1:, 1:] = model

        def grouped(column: np.ndarray) -> np.ndarray:
            return np.bincount(index, column, size)

        counts = grouped(self.counts)
        sums = [grouped(self.sums[:, i]) for i in x]
        target = grouped(self.sums[:, y])
        residuals = grouped(self.residual_sums())
        weight = self._residual_weights(residuals, counts, grouped(self.residual_noise()))
        return Base(
            inverse=inverse,
            theta=np.append(0.0, theta),
            tss=tss,
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


def _inverse(square: np.ndarray) -> np.ndarray:
    """Taken in correlation units, so that features of very different size do not drown each other."""
    if not len(square):
        return square
    scale = np.sqrt(np.maximum(np.diag(square), 1e-300))
    inner = np.linalg.pinv(square / np.outer(scale, scale), rcond=1e-12, hermitian=True)
    answer: np.ndarray = inner / np.outer(scale, scale)
    return answer
