"""The baselines' noise on moment matrices: sums of products of [1, features], as symmetric arrays (..., m+1, m+1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["gaussian", "laplace"]


@dataclass(frozen=True)
class EntryNoise:
    """Independent noise for every entry on and above the diagonal. `scale` is sigma (Gaussian) or b (Laplace)."""

    kind: Kind
    scale: np.ndarray  # (m+1, m+1)

    @classmethod
    def by_order(
        cls, kind: Kind, features: int, scales: tuple[float, float, float], *, beside: float | None = None
    ) -> EntryNoise:
        """One scale for each of the orders 0, 1, 2; `beside` the diagonal, products of two features may have another."""
        zero, one, two = scales
        matrix = np.full((features + 1, features + 1), two if beside is None else beside)
        np.fill_diagonal(matrix, two)
        matrix[0, :] = matrix[:, 0] = one
        matrix[0, 0] = zero
        return cls(kind, matrix)

    @classmethod
    def none(cls, features: int) -> EntryNoise:
        return cls("gaussian", np.zeros((features + 1, features + 1)))

    def drawn(self, rng: np.random.Generator, shape: tuple[int, ...], *, copies: np.ndarray | float = 1) -> np.ndarray:
        """Noise of the given leading shape; with `copies`, the sum of that many draws (broadcast to the shape), exactly.

        Sums of normals are normal. A Laplace variable is a difference of two exponentials, so a sum of c of them is a
        difference of two gamma variables of shape c.
        """
        size = (*shape, *self.scale.shape)
        many = np.broadcast_to(np.asarray(copies, dtype=float)[..., None, None], size)
        if self.kind == "gaussian":
            noise = rng.standard_normal(size) * np.sqrt(many)
        elif np.ndim(copies) == 0 and copies == 1:
            noise = rng.laplace(size=size)
        else:
            noise = rng.standard_gamma(many) - rng.standard_gamma(many)
        upper = np.triu(noise * self.scale)
        mirrored: np.ndarray = upper + np.swapaxes(np.triu(upper, 1), -1, -2)
        return mirrored


def moment_matrices(rows: np.ndarray) -> np.ndarray:
    """(..., n, m) rows to (..., m+1, m+1) sums of products of [1, row]."""
    wide = np.concatenate([np.ones((*rows.shape[:-1], 1)), rows], axis=-1)
    return np.asarray(np.swapaxes(wide, -1, -2) @ wide)


def keyed_moment_matrices(rows: np.ndarray, place: np.ndarray, keys: int) -> np.ndarray:
    """(n, m) rows and the place of each one's key, to (keys, m+1, m+1)."""
    wide = np.column_stack([np.ones(len(rows)), rows])
    found = np.empty((keys, wide.shape[1], wide.shape[1]))
    for i in range(wide.shape[1]):
        for j in range(i, wide.shape[1]):
            found[:, i, j] = found[:, j, i] = np.bincount(place, wide[:, i] * wide[:, j], keys)
    return found
