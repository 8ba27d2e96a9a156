"""Union: rows of several tables with the same features, as one. Moments add, and so do the variances of their noise.

Each sketch holds scaled units, (original - offset) / scale, of its own public bounds. Before they add, moments are brought
to the units of the first: an affine map of the features is a linear map of the moments, so this costs nothing but that a
shift carries the noise of the counts into the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.moments import moments_of_sketch
from saibot.semiring import Moments
from saibot.sketch import Feature, Sketch


def union_sketches(sketches: Sequence[Sketch], *, keyed: bool = True) -> Moments:
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
            moments = moments.whole()
        parts.append(moments.rescale(*affine([by_name[feature.name] for feature in first.features], first.features)))
    if len({len(part.counts) for part in parts}) > 1:
        parts = [part.whole() for part in parts]
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


def union_moments(parts: Sequence[Moments]) -> Moments:
    """The sum of moments in the same units, over the same keys. Features follow the first."""
    if not parts:
        raise InvalidInput("a union needs at least one table.")
    return reduce(add, parts)
