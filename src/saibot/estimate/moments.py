"""The statistics of a request: per-key counts and sums, and the products of the whole table, with the noise they carry.

One type for both ways to ask. A private request's moments come from its sketch, noise included; a local request's are exact
and its noise is 0. Everything downstream, estimators and search alike, reads only this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.totals import totals
from saibot.sketch import Sketch


@dataclass(frozen=True)
class KeyedMoments:
    """Moments over d keys (a sketch's catch-all is its last key) and m features, the target among them.

    `counts` (d), `sums` (d, m), `products` (m, m) in scaled units around an origin that the caller knows; `count` and
    `total` are n and the sums of the whole table, which may be known better than the sum over keys. Each has the standard
    deviation of its noise beside it, 0 where exact. `key_products` (d, m, m) exists for semi-ring sketches only.
    """

    features: tuple[str, ...]
    counts: np.ndarray
    sums: np.ndarray
    products: np.ndarray
    count: float
    total: np.ndarray
    count_noise: np.ndarray  # (d,)
    sum_noise: np.ndarray  # (d,), the same for every feature
    product_noise: np.ndarray  # (m, m)
    total_noise: np.ndarray  # (m,)
    total_count_noise: float = 0.0
    key_products: np.ndarray | None = None
    key_product_noise: np.ndarray | None = None  # (m, m), per key

    @property
    def exact(self) -> bool:
        return not (self.sum_noise.any() or self.count_noise.any() or self.product_noise.any())

    @cached_property
    def means(self) -> np.ndarray:
        mean: np.ndarray = self.total / max(self.count, 1.0)
        return mean

    @cached_property
    def balanced(self) -> tuple[np.ndarray, np.ndarray]:
        """Counts (d,) and sums (d, m) that add up to the better known totals.

        What is missing is spread over keys in proportion to the variance of their noise. Then sum_k w_k x_k is the best
        reading of that sum for any weights w: what they have in common meets the total, the rest the single keys.
        """
        answer = []
        for parts, noise, total in ((self.counts, self.count_noise, self.count), (self.sums, self.sum_noise, self.total)):
            share = noise_share(noise)
            missing = total - parts.sum(axis=0)
            answer.append(parts + (share * missing if parts.ndim == 1 else np.outer(share, missing)))
        return answer[0], answer[1]

    def position(self, feature: str) -> int:
        try:
            return self.features.index(feature)
        except ValueError:
            raise InvalidInput(
                f"the request has no feature {feature!r}.", hint=f"It has {', '.join(self.features)}."
            ) from None

    def select(self, features: tuple[str, ...]) -> KeyedMoments:
        """The same rows with these features only, as listed."""
        if features == self.features:
            return self
        chosen = [self.position(name) for name in features]
        square = np.ix_(chosen, chosen)
        return replace(
            self,
            features=features,
            sums=self.sums[:, chosen],
            products=self.products[square],
            total=self.total[chosen],
            product_noise=self.product_noise[square],
            total_noise=self.total_noise[chosen],
            key_products=None if self.key_products is None else self.key_products[:, chosen][:, :, chosen],
            key_product_noise=None if self.key_product_noise is None else self.key_product_noise[square],
        )

    def onto(self, index: np.ndarray, size: int) -> KeyedMoments:
        """The same rows grouped by a coarser key: `index` gives every key its place among `size`."""
        counts = np.bincount(index, self.counts, size)
        sums = np.column_stack([np.bincount(index, column, size) for column in self.sums.T])
        products = None
        if self.key_products is not None:
            products = np.zeros((size, *self.products.shape))
            np.add.at(products, index, self.key_products)
        return replace(
            self,
            counts=counts,
            sums=sums,
            count_noise=np.sqrt(np.bincount(index, self.count_noise**2, size)),
            sum_noise=np.sqrt(np.bincount(index, self.sum_noise**2, size)),
            key_products=products,
        )


def noise_share(noise: np.ndarray) -> np.ndarray:
    """Each key's share of all keys' noise variance; the same for all where there is none."""
    relative = (noise / noise.max()) ** 2 if noise.any() else np.ones(len(noise))
    share: np.ndarray = relative / relative.sum()
    return share


def moments_of_sketch(sketch: Sketch, *, level: int = 0) -> KeyedMoments:
    """What a request sketch says, at one of its key levels. A keyless sketch has a single key that holds all rows."""
    whole = totals(sketch)
    if whole.products is None or whole.products_variance is None:
        raise InvalidInput("a request needs a sketch of order 2.", hint="Privatise it with --order 2.")
    m = len(sketch.features)
    if sketch.levels:
        values = sketch.levels[level].values
        counts, sums = values[:, 0], values[:, 1 : 1 + m]
        count_noise = np.full(len(values), sketch.sigma("key", 0, level=level) or 0.0)
        sum_noise = np.full(len(values), sketch.sigma("key", 1, level=level) or 0.0)
    else:
        counts, sums = np.array([whole.count]), whole.sums[None, :]
        count_noise, sum_noise = np.array([whole.count_variance**0.5]), np.array([float(np.sqrt(whole.sums_variance).max())])
    key_products = key_product_noise = None
    if sketch.levels and sketch.key_basis.order >= 2:
        places = sketch.key_basis.squares
        key_products = sketch.levels[level].values[:, places]
        diagonal, beside = sketch.sigma("key", 2, level=level), sketch.sigma("key", 2, level=level, multiplicity=2)
        assert diagonal is not None and beside is not None
        key_product_noise = np.where(np.eye(m, dtype=bool), diagonal, beside)
    return KeyedMoments(
        features=sketch.features,
        counts=counts,
        sums=sums,
        products=whole.products,
        count=whole.count,
        total=whole.sums,
        count_noise=count_noise,
        sum_noise=sum_noise,
        product_noise=np.sqrt(whole.products_variance),
        total_noise=np.sqrt(whole.sums_variance),
        total_count_noise=whole.count_variance**0.5,
        key_products=key_products,
        key_product_noise=key_product_noise,
    )


def exact_moments(features: tuple[str, ...], values: np.ndarray, keys: np.ndarray, size: int) -> KeyedMoments:
    """Moments without noise, from values around their origin and the place of each row's key: a local request's own."""
    n, m = values.shape
    counts = np.bincount(keys, minlength=size).astype(float)
    sums = np.column_stack([np.bincount(keys, column, size) for column in values.T])
    key_products = np.empty((size, m, m))
    for i in range(m):
        for j in range(i, m):
            key_products[:, i, j] = key_products[:, j, i] = np.bincount(keys, values[:, i] * values[:, j], size)
    return KeyedMoments(
        features=features,
        counts=counts,
        sums=sums,
        products=values.T @ values,
        count=float(n),
        total=values.sum(axis=0),
        count_noise=np.zeros(size),
        sum_noise=np.zeros(size),
        product_noise=np.zeros((m, m)),
        total_noise=np.zeros(m),
        key_products=key_products,
        key_product_noise=np.zeros((m, m)),
    )
