"""The paper's join search: every row of the request meets every row of the provider with the same key.

All candidates of a key domain at once: their joined moment matrices are matrix products of per-key ones, and the small
regressions are solved in one batch.
"""

from __future__ import annotations

import numpy as np

from saibot.semiring import solve
from saibot.semiring.solve import Rule


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

    `paper`: 0 where the matrix is not positive definite or the result is outside [0, 1].
    """
    order = [0, *(i for i in range(1, grams.shape[1]) if i != target), target]
    return solve(grams[np.ix_(range(len(grams)), order, order)], rule=rule).r2
