"""Moments: count, sums and products of a table, by key or not, with the size of the noise they carry.

One type for both ways to ask and for what is asked about: moments that come from a sketch have its noise, exact ones have
0. The algebra is that of the order-2 semi-ring: `+` is union, `*` a many-to-many join, `onto` sums keys away, and each
carries noise along. What joins and unions would hold is computed without building them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from saibot.errors import InvalidInput
from saibot.semiring.gram import Gram
from saibot.semiring.moving import (
    bordered,
    grouped,
    moved_noise,
    moved_products,
    moved_sum_noise,
    moved_sums,
    noise_share,
    pairs,
    total_error,
)


@dataclass(frozen=True)
class Moments:
    """Moments over d keys (a sketch's catch-all is its last key) and m features, a target among them.

    `counts` (d), `sums` (d, m), `products` (m, m) in scaled units around an origin that the caller knows; `count` and
    `total` are n and the sums of the whole table, which may be known better than the sum over keys. Each has the standard
    deviation of its noise beside it, 0 where exact. `key_products` (d, m, m) are there where products are known by key.
    Noise that is the same for all features, or for all keys, may be given once.
    """

    features: tuple[str, ...]
    counts: np.ndarray
    sums: np.ndarray
    products: np.ndarray
    count: float
    total: np.ndarray
    count_noise: np.ndarray  # (d,)
    sum_noise: np.ndarray  # (d, m)
    product_noise: np.ndarray  # (m, m)
    total_noise: np.ndarray  # (m,)
    total_count_noise: float = 0.0
    key_products: np.ndarray | None = None
    key_product_noise: np.ndarray | None = None  # (d, m, m)

    def __post_init__(self) -> None:
        d, m = self.sums.shape
        noise = self.sum_noise if self.sum_noise.ndim == 2 else self.sum_noise[:, None]
        object.__setattr__(self, "sum_noise", np.broadcast_to(noise, (d, m)))
        if self.key_products is not None:
            each = 0.0 if self.key_product_noise is None else self.key_product_noise
            object.__setattr__(self, "key_product_noise", np.broadcast_to(each, (d, m, m)))

    @classmethod
    def by_key(cls, features: tuple[str, ...], matrices: np.ndarray, noise: np.ndarray) -> Moments:
        """From a moment matrix over [1, features] for every key; the whole table is their sum."""
        whole, error = matrices.sum(axis=0), np.sqrt(np.sum(noise**2, axis=0))
        return cls(
            features=features,
            counts=matrices[:, 0, 0],
            sums=matrices[:, 0, 1:],
            products=whole[1:, 1:],
            count=float(whole[0, 0]),
            total=whole[0, 1:],
            count_noise=noise[:, 0, 0],
            sum_noise=noise[:, 0, 1:],
            product_noise=error[1:, 1:],
            total_noise=error[0, 1:],
            total_count_noise=float(error[0, 0]),
            key_products=matrices[:, 1:, 1:],
            key_product_noise=noise[:, 1:, 1:],
        )

    @classmethod
    def of_rows(cls, features: tuple[str, ...], values: np.ndarray, keys: np.ndarray, size: int) -> Moments:
        """Exact moments of (n, m) values around their origin; `keys` gives each row's place among `size` keys."""
        m = values.shape[1]
        counts = np.bincount(keys, minlength=size).astype(float)
        sums = np.column_stack([np.bincount(keys, column, size) for column in values.T])
        key_products = np.empty((size, m, m))
        for i in range(m):
            for j in range(i, m):
                key_products[:, i, j] = key_products[:, j, i] = np.bincount(keys, values[:, i] * values[:, j], size)
        return cls(
            features=features,
            counts=counts,
            sums=sums,
            products=values.T @ values,
            count=float(len(values)),
            total=values.sum(axis=0),
            count_noise=np.zeros(size),
            sum_noise=np.zeros(size),
            product_noise=np.zeros((m, m)),
            total_noise=np.zeros(m),
            key_products=key_products,
            key_product_noise=np.zeros((m, m)),
        )

    # Reading

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.counts)

    @cached_property
    def exact(self) -> bool:
        return not (self.sum_noise.any() or self.count_noise.any() or self.product_noise.any())

    @property
    def _noise_is_of_keys(self) -> bool:
        """Whether the noise of sums is the same for all features, and there only once."""
        return self.sum_noise.shape[1] > 0 and self.sum_noise.strides[1] == 0

    @cached_property
    def means(self) -> np.ndarray:
        mean: np.ndarray = self.total / max(self.count, 1.0)
        return mean

    @cached_property
    def balanced_counts(self) -> np.ndarray:
        """Counts (d,) that add up to the better known number of rows.

        What is missing is spread over keys in proportion to the variance of their noise. Then sum_k w_k x_k is the best
        reading of that sum for any weights w: what they have in common meets the total, the rest the single keys. The same
        holds for sums, which are balanced where they are multiplied: of many keys and features there should be no copy.
        """
        return np.asarray(self.counts + noise_share(self.count_noise) * (self.count - self.counts.sum()))

    def balanced_over_keys(self, values: np.ndarray) -> np.ndarray:
        """(m, j): balanced sums times what is looked up for each key (d, j), added up over keys."""
        found = self.sums.T @ values
        for row, share, missing in zip(found, self._shares(), self._missing, strict=True):
            row += missing * (share @ values)
        return np.asarray(found)

    def balanced_over_features(self, weights: np.ndarray) -> np.ndarray:
        """(d, j): balanced sums times weights of features (m, j), added up over features."""
        found = self.sums @ weights
        for one, share, missing in zip(weights, self._shares(), self._missing, strict=True):
            found += share[:, None] * (missing * one)
        return np.asarray(found)

    @cached_property
    def _missing(self) -> np.ndarray:
        return np.asarray(self.total - self.sums.sum(axis=0))

    def _shares(self) -> Iterator[np.ndarray]:
        """Of each feature's sums, what part of what is missing is each key's."""
        same = noise_share(self.sum_noise[:, 0]) if self._noise_is_of_keys else None
        for column in self.sum_noise.T:
            yield noise_share(column) if same is None else same

    @cached_property
    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """(d, m+1, m+1): the moment matrix over [1, features] of every key, and the standard deviations of its noise."""
        if self.key_products is None or self.key_product_noise is None:
            raise InvalidInput(
                "a many-to-many join needs products per key, which this sketch does not hold.",
                hint="Privatise it with --layout semiring, or use a lookup join.",
            )
        parts = (
            (self.counts, self.sums, self.key_products),
            (self.count_noise, self.sum_noise, self.key_product_noise),
        )
        answer = np.empty((2, len(self), 1 + len(self.features), 1 + len(self.features)))
        for matrix, (counts, sums, products) in zip(answer, parts, strict=True):
            matrix[:, 0, 0], matrix[:, 0, 1:], matrix[:, 1:, 0], matrix[:, 1:, 1:] = counts, sums, sums, products
        return answer[0], answer[1]

    @cached_property
    def scatter(self) -> np.ndarray:
        """(d, m, m): what each key adds to the products around the whole table's means.

        Where products of single keys were not released, a key's rows get their share of the whole table's.
        """
        mean, crossed = self.means, self.sums[:, :, None] * self.means
        products = self.key_products
        if products is None:
            products = self.counts[:, None, None] * self.products / max(self.count, 1.0)
        moved = self.counts[:, None, None] * np.outer(mean, mean) - crossed - crossed.transpose(0, 2, 1)
        return np.asarray(products + moved)

    def position(self, feature: str) -> int:
        try:
            return self.features.index(feature)
        except ValueError:
            raise InvalidInput(
                f"the request has no feature {feature!r}.", hint=f"It has {', '.join(self.features)}."
            ) from None

    def gram(self, values: np.ndarray | None = None, names: Sequence[str] = ()) -> Gram:
        """The moments of the whole table over [1, features, values], with per-key values (d, j) looked up for each row.

        Totals that are known better than the sum over keys, n above all, take the place of that sum: values are centred at
        their mean over keys, and only what deviates from it meets the noise of single keys.
        """
        d, m = self.sums.shape
        looked = np.zeros((d, 0)) if values is None else np.asarray(values, dtype=float).reshape(d, -1)
        j = looked.shape[1]
        gram, sd = np.zeros((1 + m + j, 1 + m + j)), np.zeros((1 + m + j, 1 + m + j))
        own, new = slice(1, 1 + m), slice(1 + m, None)
        gram[0, 0], sd[0, 0] = self.count, self.total_count_noise
        gram[0, own], sd[0, own] = self.total, self.total_noise
        gram[own, own], sd[own, own] = self.products, self.product_noise
        if j:
            counts = self.balanced_counts
            gram[0, new], gram[new, new], gram[own, new] = (
                counts @ looked,
                (looked * counts[:, None]).T @ looked,
                self.balanced_over_keys(looked),
            )
        if j and not self.exact:
            for a in range(j):
                place, column = 1 + m + a, looked[:, a]
                sd[0, place] = total_error(column, self.count_noise, self.total_count_noise)
                for i in range(m):
                    sd[1 + i, place] = total_error(column, self.sum_noise[:, i], float(self.total_noise[i]))
                for b in range(a, j):
                    sd[place, 1 + m + b] = total_error(column * looked[:, b], self.count_noise, self.total_count_noise)
        upper = np.triu(np.ones_like(gram, dtype=bool))
        return Gram((*self.features, *names), np.where(upper, gram, gram.T), np.where(upper, sd, sd.T))

    # The algebra

    def __add__(self, other: Moments) -> Moments:
        """Union: the rows of both, in the same units and over the same keys. Features follow the first."""
        if set(self.features) != set(other.features):
            raise InvalidInput("a union needs tables of the same features.", hint="Select the common ones first.")
        if len(self) != len(other):
            raise InvalidInput(
                "a union per key needs one key domain.", hint="Bring the tables onto a common key, or onto none."
            )
        right = other.select(self.features)
        keyed = error = None
        if self.key_products is not None and right.key_products is not None:
            keyed = self.key_products + right.key_products
            error = np.hypot(self.matrices[1], right.matrices[1])[:, 1:, 1:]
        return Moments(
            features=self.features,
            counts=self.counts + right.counts,
            sums=self.sums + right.sums,
            products=self.products + right.products,
            count=self.count + right.count,
            total=self.total + right.total,
            count_noise=np.hypot(self.count_noise, right.count_noise),
            sum_noise=np.hypot(self.sum_noise, right.sum_noise),
            product_noise=np.hypot(self.product_noise, right.product_noise),
            total_noise=np.hypot(self.total_noise, right.total_noise),
            total_count_noise=float(np.hypot(self.total_count_noise, right.total_count_noise)),
            key_products=keyed,
            key_product_noise=error,
        )

    def __mul__(self, other: Moments) -> Moments:
        """Many-to-many join: all pairs of rows with the same key. Names that repeat are numbered as in the semi-ring.

        The noise of a product of independent numbers: Var(xy) = E[x^2] E[y^2] - mean^2 mean^2, with the squares of the true
        parts estimated free of their noise.
        """
        if len(self) != len(other):
            raise InvalidInput(
                "a join needs one key domain on both sides.", hint="Bring the finer key onto the coarser one."
            )
        renamed = distinct(self.features, other.features)
        (left, left_noise), (right, right_noise) = self.matrices, other.matrices
        clean = [np.maximum(value**2 - sd**2, 0) for value, sd in ((left, left_noise), (right, right_noise))]
        whole = pairs(clean[0] + left_noise**2, clean[1] + right_noise**2)
        noise = np.sqrt(np.maximum(whole - pairs(*clean), 0))
        features = (*self.features, *(renamed.get(name, name) for name in other.features))
        return Moments.by_key(features, pairs(left, right), noise)

    def with_lookup(self, name: str, values: np.ndarray) -> Moments:
        """A lookup join: a further feature whose value for the rows of key k is `values[k]`, counts as they are."""
        if name in self.features:
            raise InvalidInput(f"the request has a feature {name!r} already.")
        column, error = self.counts * values, self.count_noise * np.abs(values)
        cross, crossed = self.sums.T @ values, np.sqrt(values**2 @ self.sum_noise**2)
        return replace(
            self,
            features=(*self.features, name),
            sums=np.column_stack([self.sums, column]),
            products=bordered(self.products, cross, float(column @ values)),
            total=np.append(self.total, column.sum()),
            sum_noise=np.column_stack([self.sum_noise, error]),
            product_noise=bordered(self.product_noise, crossed, float(np.linalg.norm(error * values))),
            total_noise=np.append(self.total_noise, np.linalg.norm(error)),
            key_products=None,
            key_product_noise=None,
        )

    # Reshaping

    def select(self, features: tuple[str, ...]) -> Moments:
        """The same rows with these features only, as listed."""
        if features == self.features:
            return self
        chosen = [self.position(name) for name in features]
        square = np.ix_(chosen, chosen)
        keyed = np.ix_(range(len(self)), chosen, chosen)
        return replace(
            self,
            features=features,
            sums=self.sums[:, chosen],
            products=self.products[square],
            total=self.total[chosen],
            sum_noise=self.sum_noise[:, 0] if self._noise_is_of_keys else self.sum_noise[:, chosen],
            product_noise=self.product_noise[square],
            total_noise=self.total_noise[chosen],
            key_products=None if self.key_products is None else self.key_products[keyed],
            key_product_noise=None if self.key_product_noise is None else self.key_product_noise[keyed],
        )

    def rename(self, features: tuple[str, ...]) -> Moments:
        """The same numbers under other names, in the same order."""
        return replace(self, features=features)

    def onto(self, index: np.ndarray, size: int) -> Moments:
        """The same rows grouped by a coarser key: `index` gives every key its place among `size`."""
        if size == len(self) and np.array_equal(index, np.arange(size)):
            return self
        products = error = None
        if self.key_products is not None and self.key_product_noise is not None:
            products = grouped(self.key_products, index, size)
            error = np.sqrt(grouped(self.key_product_noise**2, index, size))
        return replace(
            self,
            counts=grouped(self.counts, index, size),
            sums=grouped(self.sums, index, size),
            count_noise=np.sqrt(grouped(self.count_noise**2, index, size)),
            sum_noise=np.sqrt(grouped(self.sum_noise**2, index, size)),
            key_products=products,
            key_product_noise=error,
        )

    def at(self, index: np.ndarray) -> Moments:
        """The rows of a key, once for every finer key that belongs to it; none where `index` is negative."""
        inside = (index >= 0)[:, None, None]
        matrices, noise = (np.where(inside, part[index], 0.0) for part in self.matrices)
        return Moments.by_key(self.features, matrices, noise)

    def whole(self) -> Moments:
        """The same rows without a key: one key that holds them all."""
        return self.onto(np.zeros(len(self), np.intp), 1)

    def rescale(self, scale: np.ndarray, shift: np.ndarray) -> Moments:
        """The moments of the features  scale * x + shift, one of each per feature."""
        a, b = np.asarray(scale, dtype=float), np.asarray(shift, dtype=float)
        if (a == 1).all() and (b == 0).all():
            return self
        keyed = error = None
        if self.key_products is not None and self.key_product_noise is not None:
            keyed = moved_products(self.key_products, self.sums, self.counts, a, b)
            error = moved_noise(self.key_product_noise, self.sum_noise, self.count_noise, a, b)
        n, sd = np.asarray(self.count), np.asarray(self.total_count_noise)
        return replace(
            self,
            sums=moved_sums(self.sums, self.counts, a, b),
            products=moved_products(self.products, self.total, n, a, b),
            total=self.total * a + self.count * b,
            sum_noise=moved_sum_noise(self.sum_noise, self.count_noise, a, b),
            product_noise=moved_noise(self.product_noise, self.total_noise, sd, a, b),
            total_noise=np.hypot(self.total_noise * a, self.total_count_noise * b),
            key_products=keyed,
            key_product_noise=error,
        )


def distinct(left: Iterable[str], right: Iterable[str]) -> dict[str, str]:
    """New names for those on the right that the left has too: x becomes x.2, or the next number that is free.

    Only colliding names change, and only on the right, so a name once on the left keeps its meaning along a chain of
    joins: ((a * b) * c) gives x, x.2, x.3. The values are associative whatever the names; the names are not: in
    (a * (b * c)) it is b's x that becomes x.3. Rename first where that matters.

    >>> distinct(("x", "y"), ("x", "x.2", "z"))
    {'x': 'x.3'}
    """
    kept, renamed = tuple(left), tuple(right)
    taken = {*kept, *renamed}
    mapping: dict[str, str] = {}
    for name in renamed:
        if name in kept:
            number = 2
            while f"{name}.{number}" in taken:
                number += 1
            mapping[name] = f"{name}.{number}"
            taken.add(mapping[name])
    return mapping
