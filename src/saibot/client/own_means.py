"""The free alternative: what a requester knows of a key from its own rows alone.

The mean of a key's residuals, drawn towards 0 by as much as its few rows deserve. A row's own value never takes part in the
mean that it is explained by: training rows get the mean of other rows of their key, fold by fold. A key without rows has 0.
"""

from __future__ import annotations

import numpy as np

from saibot.client.families import Family, fit_family

FOLDS = 5


def shrunk_means(residuals: np.ndarray, keys: np.ndarray, size: int) -> np.ndarray:
    """(size,): each key's mean residual times n tau^2 / (n tau^2 + sigma^2), both variances by moments."""
    n = np.bincount(keys, minlength=size).astype(float)
    there = n > 0
    mean = np.divide(np.bincount(keys, residuals, size), n, out=np.zeros(size), where=there)
    total, groups = float(n.sum()), int(there.sum())
    within = float(np.sum((residuals - mean[keys]) ** 2)) / max(total - groups, 1.0)
    between = float(n @ mean**2) - (groups - 1) * within
    tau2 = max(between / max(total - float(n @ n) / max(total, 1.0), 1e-300), 0.0)
    whole = n * tau2 + within
    shrunk: np.ndarray = np.divide(n * tau2, whole, out=np.zeros(size), where=whole > 0) * mean
    return shrunk


def own_means(
    X: np.ndarray, y: np.ndarray, keys: np.ndarray, size: int, fit: np.ndarray, family: Family, rng: np.random.Generator
) -> np.ndarray:
    """A column for all rows: of rows outside the mask `fit` the means of all of it, of the others those of other folds."""

    def means(rows: np.ndarray) -> np.ndarray:
        theta = fit_family(X[rows], y[rows], family)
        left = y[rows] - family.mean(theta[0] + X[rows] @ theta[1:])
        return shrunk_means(left, keys[rows], size)

    column: np.ndarray = means(fit)[keys]
    fold = rng.integers(0, FOLDS, len(y))
    for number in range(FOLDS):
        inside = fit & (fold == number)
        if inside.any() and (fit & ~inside).sum() > 1:
            column[inside] = means(fit & ~inside)[keys[inside]]
    return column
