"""The paper's generator: a random covariance per run, normal rows with it, rows beyond the norm bound drawn again.

The covariance is scikit-learn's `make_spd_matrix`, for all runs at once (a test holds the two together). One of its
eigenvalues is about 3.5 and the others about a half, for three attributes. Attributes have mean 0, so regressions on them
have no intercept here. Join keys are dealt out evenly, n/d rows each, as the paper's proposition assumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from research.baselines.noise import keyed_moment_matrices, moment_matrices

BOUND = 5.0
ATTRIBUTES = 3  # y, x1, x2
BATCH = 2_000_000  # rows in memory at once


@dataclass(frozen=True)
class KeyedTable:
    """Rows [y, x1, x2] and the place of each row's key."""

    rows: np.ndarray
    place: np.ndarray
    keys: int

    @property
    def moments(self) -> np.ndarray:
        """By key, over [1, y, x1, x2]."""
        return keyed_moment_matrices(self.rows, self.place, self.keys)


def spd_matrices(runs: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Random symmetric positive definite matrices, (runs, size, size)."""
    uniform = rng.uniform(size=(runs, size, size))
    left, _, right = np.linalg.svd(np.swapaxes(uniform, 1, 2) @ uniform)
    # One plus a diagonal: the ones reach every entry, which is what makes the attributes correlated.
    middle = 1.0 + np.eye(size) * rng.uniform(size=(runs, 1, size))
    return np.asarray(left @ middle @ right)


def bounded_rows(covariances: np.ndarray, n: int, *, bound: float, rng: np.random.Generator) -> np.ndarray:
    """(runs, n, m) normal rows of the given covariances, each within the norm bound."""
    root = np.linalg.cholesky((covariances + np.swapaxes(covariances, 1, 2)) / 2)
    rows = rng.standard_normal((len(root), n, root.shape[1])) @ np.swapaxes(root, 1, 2)
    while True:
        run, place = np.nonzero((rows**2).sum(axis=2) > bound**2)
        if not len(run):
            return np.asarray(rows)
        again = rng.standard_normal((len(run), root.shape[1]))
        rows[run, place] = np.einsum("kij,kj->ki", root[run], again)


def union_moments(
    covariances: np.ndarray, n: int, *, tables: int, rng: np.random.Generator, bound: float = BOUND
) -> np.ndarray:
    """Moment matrices (runs, tables, m+1, m+1) of tables with n rows each, batch by batch of runs."""
    runs, m = covariances.shape[:2]
    found = np.empty((runs, tables, m + 1, m + 1))
    step = max(BATCH // n, 1)
    for table in range(tables):
        for start in range(0, runs, step):
            part = slice(start, start + step)
            found[part, table] = moment_matrices(bounded_rows(covariances[part], n, bound=bound, rng=rng))
    return found


def keyed_tables(
    covariances: np.ndarray, n: int, *, keys: int, rng: np.random.Generator, bound: float = BOUND
) -> Iterator[KeyedTable]:
    """One table a run, its keys dealt out evenly."""
    place = np.arange(n) % keys
    for covariance in covariances:
        yield KeyedTable(bounded_rows(covariance[None], n, bound=bound, rng=rng)[0], place, keys)
