"""The paper's join search: every row of the request meets every row of the provider with the same key.

All candidates of a key domain at once: their joined moment matrices are matrix products of per-key ones, and the small
regressions are solved in one batch.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Rule = Literal["repair", "paper"]


def joined_with_all(request: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """(N, m+2, m+2): moments over [1, the request's m features, the candidate's one] of the request joined with each.

    `request` (d, m+1, m+1) and `candidates` (N, d, 2, 2) are moment matrices by key.
    """
    d, size = request.shape[:2]
    found = np.empty((len(candidates), size + 1, size + 1))
    found[:, :-1, :-1] = (candidates[:, :, 0, 0] @ request.reshape(d, -1)).reshape(-1, size, size)
    found[:, -1, :-1] = found[:, :-1, -1] = candidates[:, :, 0, 1] @ request[:, 0, :]
    found[:, -1, -1] = candidates[:, :, 1, 1] @ request[:, 0, 0]
    return found


def r2_of_grams(grams: np.ndarray, *, target: int, rule: Rule = "repair") -> np.ndarray:
    """R2 of the regression of column `target` on all others, for every moment matrix; in [0, 1], never NaN.

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
    values = np.maximum(values, 1e-12)
    along = np.einsum("nij,ni->nj", vectors, scaled)
    explained = (along**2 / values).sum(axis=1) / np.where(alive, tss, 1.0)
    if rule == "paper":
        explained = np.where((explained >= 0) & (explained <= 1), explained, 0.0)
    return np.where(alive, np.clip(np.nan_to_num(explained), 0.0, 1.0), 0.0)
