"""The second generator: a share of every attribute's variance, and of their covariance, lies between keys.

A row is sqrt(1 - share) e + sqrt(share) t_k, e of the row and t_k of its key, both with the covariance that the paper's
generator would use. So the table has the same covariance as the paper's, but its key carries signal, as a district, a day or
an airport does. share = 0 is the paper's generator.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from research.workloads.synthetic import BOUND, KeyedTable


def keyed_tables(
    covariances: np.ndarray, n: int, *, keys: int, share: float, rng: np.random.Generator, bound: float = BOUND
) -> Iterator[KeyedTable]:
    """One table a run; rows beyond the norm bound are drawn again, their key's part kept."""
    place = np.arange(n) % keys
    for covariance in covariances:
        root = np.linalg.cholesky((covariance + covariance.T) / 2)
        shared = _kept_within(np.zeros((keys, len(root))), root, bound, rng)
        yield KeyedTable(_kept_within(np.sqrt(share) * shared[place], np.sqrt(1 - share) * root, bound, rng), place, keys)


def _kept_within(centres: np.ndarray, root: np.ndarray, bound: float, rng: np.random.Generator) -> np.ndarray:
    """Normal rows around their centres, drawn again until they are within the bound; centres within it always get there."""
    rows = centres + rng.standard_normal(centres.shape) @ root.T
    while (beyond := np.nonzero((rows**2).sum(axis=1) > bound**2)[0]).size:
        rows[beyond] = centres[beyond] + rng.standard_normal((len(beyond), len(root))) @ root.T
    return np.asarray(rows)
