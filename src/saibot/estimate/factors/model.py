"""The factors of a key domain: a few directions over keys that its tables have in common, and what is left to each table.

    z_i = M_i 1 + tau_i (Lambda a_i + b_i),   a_i ~ N(0, I_r),   b_i a tree of deviations with a share t_l for each level,

with mean_k |Lambda_k|^2 + sum_l t_l = 1, so that tau_i^2 is the variance of table i.
Derivation: docs/explanation/mathematics.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saibot.estimate.factors.readings import KeyTree

LEAST_SHARE = 1e-6  # of a level: a share of 0 would stay 0 whatever is read


@dataclass(frozen=True)
class RankScore:
    """How well tables that were held out are foretold with so many factors: log likelihood per table beyond that of none.

    `error` is the standard error, over providers, of what the best rank is ahead of this one.
    """

    rank: int
    gain: float
    error: float


@dataclass(frozen=True)
class Factors:
    """Loadings (d, r), ordered by the variance that they explain, and the share of each level's deviations (L,)."""

    tree: KeyTree
    loadings: np.ndarray
    shares: np.ndarray
    tried: tuple[RankScore, ...] = ()

    @property
    def rank(self) -> int:
        return int(self.loadings.shape[1])

    @property
    def prior_variance(self) -> np.ndarray:
        """Of each key's value, in units of tau^2 (d,)."""
        return np.asarray((self.loadings**2).sum(axis=1) + self.shares.sum())

    def with_direction(self, direction: np.ndarray, share: float) -> Factors:
        """The same with one more factor of this share of the variance; the direction has a mean square of 1."""
        loadings = np.column_stack([self.loadings * np.sqrt(1 - share), direction * np.sqrt(share)])
        return Factors(self.tree, loadings, self.shares * (1 - share), self.tried)

    @classmethod
    def of(cls, tree: KeyTree, loadings: np.ndarray, shares: np.ndarray, tried: tuple[RankScore, ...] = ()) -> Factors:
        """In the one form that all rotations of the loadings share: orthogonal columns by variance, signs by rule."""
        return cls(tree, shared_columns(loadings), shares, tried)

    @classmethod
    def none(cls, tree: KeyTree) -> Factors:
        """Of a domain that nothing is known about."""
        levels = len(tree.sizes)
        return cls(tree, np.zeros((tree.size, 0)), np.full(levels, 1 / levels))


def shared_columns(loadings: np.ndarray) -> np.ndarray:
    """Columns to join: loadings are known up to a rotation only, so these are their principal directions.

    They are ordered by variance, and the entry of each that is largest in magnitude is positive (the first such, where
    rounding could decide). Columns without variance stay, as zeros.
    """
    if not loadings.size:
        return loadings
    left, sizes, _ = np.linalg.svd(loadings, full_matrices=False)
    columns = np.zeros_like(loadings)
    columns[:, : len(sizes)] = left * sizes
    top = np.abs(columns).max(axis=0)
    first = np.argmax(np.abs(columns) >= (1 - 1e-9) * top, axis=0)
    signs = np.where(columns[first, np.arange(columns.shape[1])] < 0, -1.0, 1.0)
    return np.asarray(columns * signs)
