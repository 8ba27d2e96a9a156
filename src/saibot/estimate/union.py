"""Union: rows of several tables with the same features, as one. Moments add, and so do the variances of their noise.

Each sketch holds scaled units, (original - offset) / scale, of its own public bounds. Before they add, moments are brought
to the units of the first: an affine map of the features is a linear map of the moments, so this costs nothing but that a
shift carries the noise of the counts into the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.moments import KeyedMoments, moments_of_sketch
from saibot.estimate.totals import Totals
from saibot.sketch import Feature, Sketch


def union_sketches(sketches: Sequence[Sketch], *, keyed: bool = True) -> KeyedMoments:
    """The moments of all rows of some sketches, in the units of the first; per key if all have the same key domain."""
    if not sketches:
        raise InvalidInput("a union needs at least one sketch.")
    first = sketches[0].header
    parts = []
    for sketch in sketches:
        header = sketch.header
        by_name = {feature.name: feature for feature in header.features}
        if set(by_name) != {feature.name for feature in first.features}:
            raise InvalidInput("a union needs sketches of the same features.", hint="Rename or select them first.")
        moments = moments_of_sketch(sketch).select(tuple(feature.name for feature in first.features))
        same_key = header.key is not None and first.key is not None and header.key.parts == first.key.parts
        if not (keyed and same_key):
            moments = moments.onto(np.zeros(len(moments.counts), dtype=np.intp), 1)
        parts.append(rescaled(moments, *affine([by_name[feature.name] for feature in first.features], first.features)))
    if len({len(part.counts) for part in parts}) > 1:
        parts = [part.onto(np.zeros(len(part.counts), dtype=np.intp), 1) for part in parts]
    return union_moments(parts)


def affine(source: Sequence[Feature], target: Sequence[Feature]) -> tuple[np.ndarray, np.ndarray]:
    """a and b with  target's scaled units = a * (source's scaled units) + b, feature by feature."""
    for one, other in zip(source, target, strict=True):
        if (one.kind, one.unit, one.level, one.weights) != (other.kind, other.unit, other.level, other.weights):
            raise InvalidInput(
                f"feature {one.name!r} means different things in the tables of this union.",
                hint="Its kind and its unit must be the same; bounds may differ.",
            )
    scale = np.array([one.scale / other.scale for one, other in zip(source, target, strict=True)])
    shift = np.array([(one.offset - other.offset) / other.scale for one, other in zip(source, target, strict=True)])
    return scale, shift


def rescaled(moments: KeyedMoments, scale: np.ndarray, shift: np.ndarray) -> KeyedMoments:
    """The moments of the features  scale * x + shift, one of each per feature."""
    a, b = np.asarray(scale, dtype=float), np.asarray(shift, dtype=float)
    if (a == 1).all() and (b == 0).all():
        return moments
    keys = None
    if moments.key_products is not None:
        keys = _products(moments.key_products, moments.sums, moments.counts, a, b)
    # One number stands for the noise of all features' sums: the largest, which is right or too careful.
    sum_noise = np.max([np.hypot(s * moments.sum_noise, t * moments.count_noise) for s, t in zip(a, b, strict=True)], axis=0)
    return replace(
        moments,
        sums=moments.sums * a + np.outer(moments.counts, b),
        products=_products(moments.products, moments.total, np.asarray(moments.count), a, b),
        total=moments.total * a + moments.count * b,
        sum_noise=sum_noise,
        product_noise=_product_noise(
            moments.product_noise, moments.total_noise, np.asarray(moments.total_count_noise), a, b
        ),
        total_noise=np.hypot(moments.total_noise * a, moments.total_count_noise * b),
        key_products=keys,
        key_product_noise=None
        if moments.key_product_noise is None
        else _product_noise(
            moments.key_product_noise,
            np.full(len(a), float(moments.sum_noise.max())),
            np.asarray(moments.count_noise.max()),
            a,
            b,
        ),
    )


def union_moments(parts: Sequence[KeyedMoments]) -> KeyedMoments:
    """The sum of moments in the same units, over the same keys. Features follow the first."""
    if not parts:
        raise InvalidInput("a union needs at least one table.")
    first = parts[0]
    if any(set(part.features) != set(first.features) for part in parts):
        raise InvalidInput("a union needs tables of the same features.", hint="Select the common ones first.")
    if any(len(part.counts) != len(first.counts) for part in parts):
        raise InvalidInput("a union per key needs one key domain.", hint="Bring the tables onto a common key, or onto none.")
    aligned = [part.select(first.features) for part in parts]
    keyed = all(part.key_products is not None for part in aligned)

    def quadrature(name: str) -> np.ndarray:
        return np.asarray(np.sqrt(np.sum([np.asarray(getattr(part, name)) ** 2 for part in aligned], axis=0)))

    def total(name: str) -> np.ndarray:
        return np.asarray(np.sum([getattr(part, name) for part in aligned], axis=0))

    return KeyedMoments(
        features=first.features,
        counts=total("counts"),
        sums=total("sums"),
        products=total("products"),
        count=float(total("count")),
        total=total("total"),
        count_noise=quadrature("count_noise"),
        sum_noise=quadrature("sum_noise"),
        product_noise=quadrature("product_noise"),
        total_noise=quadrature("total_noise"),
        total_count_noise=float(quadrature("total_count_noise")),
        key_products=total("key_products") if keyed else None,
        key_product_noise=quadrature("key_product_noise") if keyed else None,
    )


def union_totals(parts: Sequence[Totals]) -> Totals:
    """The sum of whole-table moments in the same units, features in the same order."""
    first = parts[0]
    if any(part.features != first.features for part in parts):
        raise InvalidInput("a union needs tables of the same features in the same order.")
    whole = [(part.products, part.products_variance) for part in parts]
    products = [p for p, v in whole if p is not None and v is not None]
    variances = [v for p, v in whole if p is not None and v is not None]
    complete = len(products) == len(parts)
    return Totals(
        features=first.features,
        count=sum(part.count for part in parts),
        count_variance=sum(part.count_variance for part in parts),
        sums=np.sum([part.sums for part in parts], axis=0),
        sums_variance=np.sum([part.sums_variance for part in parts], axis=0),
        products=np.sum(products, axis=0) if complete else None,
        products_variance=np.sum(variances, axis=0) if complete else None,
    )


def _products(products: np.ndarray, sums: np.ndarray, counts: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a x + b)(a x + b)^T summed over rows; leading axes are keys."""
    crossed = (sums * a)[..., :, None] * b
    moved = products * np.outer(a, a) + crossed + np.swapaxes(crossed, -1, -2)
    return np.asarray(moved + counts[..., None, None] * np.outer(b, b))


def _product_noise(products: np.ndarray, sums: np.ndarray, counts: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    crossed = np.outer(sums * a, b)
    # On the diagonal both crossed terms are the same number, so their noise adds before it is squared.
    both = np.where(np.eye(len(a), dtype=bool), 2 * np.abs(crossed), np.hypot(crossed, crossed.T))
    return np.asarray(np.hypot(np.hypot(products * np.outer(a, a), both), counts * np.outer(b, b)))
