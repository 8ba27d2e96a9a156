"""The paper's join: every row of the request meets every row of the provider with the same key.

All candidates of a key domain at once: their joined Gram matrices are matrix products of per-key statistics, and the small
regressions are solved in one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.moments import KeyedMoments
from saibot.sketch import Sketch

Rule = Literal["repair", "paper"]


@dataclass(frozen=True)
class KeyedStatistics:
    """Counts, sums and squares per key of many one-feature candidates: arrays (N, d)."""

    counts: np.ndarray
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    def of_sketches(cls, sketches: list[Sketch], feature: int = 0) -> KeyedStatistics:
        """Level 0 of semi-ring sketches over one key domain, one feature each."""
        columns: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for sketch in sketches:
            if not sketch.levels or sketch.key_basis.order < 2:
                raise InvalidInput(
                    f"{sketch.header.dataset.name!r} has no products per key, which a many-to-many join needs.",
                    hint="Privatise it with --layout semiring, or with fpm or fpm-opt.",
                )
            values = sketch.levels[0].values
            name = sketch.features[feature]
            square = sketch.key_basis.index((name, name))
            columns.append((values[:, 0], values[:, sketch.key_basis.index(name)], values[:, square]))
        return cls(*(np.array(column) for column in zip(*columns, strict=True)))


def joined_grams(request: KeyedMoments, candidates: KeyedStatistics) -> np.ndarray:
    """(N, m+2, m+2): sums over the joined rows of products of [1, the request's features, the candidate's feature]."""
    if request.key_products is None:
        raise InvalidInput("a many-to-many join needs the request's products per key.", hint="Use --layout semiring.")
    d, m = request.sums.shape
    own = np.empty((d, m + 1, m + 1))
    own[:, 0, 0] = request.counts
    own[:, 0, 1:] = own[:, 1:, 0] = request.sums
    own[:, 1:, 1:] = request.key_products
    grams = np.empty((len(candidates.counts), m + 2, m + 2))
    grams[:, :-1, :-1] = (candidates.counts @ own.reshape(d, -1)).reshape(-1, m + 1, m + 1)
    grams[:, -1, :-1] = grams[:, :-1, -1] = candidates.sums @ own[:, 0, :]
    grams[:, -1, -1] = candidates.squares @ request.counts
    return grams


def r2_of_grams(grams: np.ndarray, *, target: int, rule: Rule = "repair", floor: float = 0.0) -> np.ndarray:
    """R2 of the regression of column `target` on all others, for every Gram matrix; in [0, 1], never NaN.

    `paper`: 0 where the matrix is not positive definite or the result is outside [0, 1]. `repair`: eigenvalues of the
    correlation matrix are lifted to a small floor instead.
    """
    features = [i for i in range(1, grams.shape[1]) if i != target]
    count = grams[:, 0, 0]
    alive = count > 0
    safe = np.where(alive, count, 1.0)
    means = grams[:, 0, :] / safe[:, None]
    centred = grams - means[:, :, None] * grams[:, 0, None, :]
    if rule == "paper":
        with_constant = [0, *features]
        spectrum = np.linalg.eigvalsh(grams[np.ix_(range(len(grams)), with_constant, with_constant)])
        alive &= spectrum[:, 0] > 1e-12 * np.abs(count)
    square = centred[:, features][:, :, features]
    cross = centred[:, features, target]
    tss = centred[:, target, target]
    size = np.sqrt(np.maximum(np.diagonal(square, axis1=1, axis2=2), 0.0))
    alive &= (tss > 0) & (size > 0).all(axis=1)
    size = np.where(alive[:, None], size, 1.0)
    correlation = np.where(alive[:, None, None], square / (size[:, :, None] * size[:, None, :]), np.eye(len(features)))
    scaled = np.where(alive[:, None], cross / size, 0.0)
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(values, max(floor, 1e-12))
    along = np.einsum("nij,ni->nj", vectors, scaled)
    explained = (along**2 / values).sum(axis=1) / np.where(alive, tss, 1.0)
    if rule == "paper":
        explained = np.where((explained >= 0) & (explained <= 1), explained, 0.0)
    return np.where(alive, np.clip(np.nan_to_num(explained), 0.0, 1.0), 0.0)


def many_to_many_r2(request: KeyedMoments, candidates: KeyedStatistics, target: str, *, rule: Rule = "repair") -> np.ndarray:
    """R2 of the joined table's regression for every candidate."""
    position = 1 + request.position(target)
    return r2_of_grams(joined_grams(request, candidates), target=position, rule=rule)
