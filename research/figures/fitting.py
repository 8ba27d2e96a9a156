"""Regressions of all runs at once, from moment matrices over [1, y, x1, ...], and how far their coefficients are off.

The paper's rule: where X^T X is not positive definite the run has failed, and its error is infinite. The repair of
`saibot.semiring.solve` is the alternative (`repaired_slopes`): it never fails.
"""

from __future__ import annotations

import numpy as np

from saibot.semiring import solve


def slopes(moments: np.ndarray, *, ridge: np.ndarray | float = 0.0, centred: bool = False) -> np.ndarray:
    """Coefficients (runs, f) of y, column 1, on columns 2.. of (runs, f+2, f+2); NaN in all of a run that failed.

    Without intercept, or with one (`centred`). The ridge is added to the diagonal of the mean squares.
    """
    count = moments[:, :1, :1]
    failed = ~(count[:, 0, 0] > 0)
    means = moments / np.where(failed[:, None, None], 1.0, count)
    if centred:
        means = means - means[:, :1, :] * means[:, :, :1]
    square, cross = means[:, 2:, 2:] + np.diag(np.broadcast_to(ridge, moments.shape[1] - 2)), means[:, 2:, 1]
    failed |= ~(np.linalg.eigvalsh(square)[:, 0] > 0)
    square = np.where(failed[:, None, None], np.eye(square.shape[1]), square)
    found = np.linalg.solve(square, cross[..., None])[..., 0]
    found[failed] = np.nan
    return np.asarray(found)


def repaired_slopes(moments: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The same, with an intercept, as this system fits them: noise of the given deviations repaired, ridge chosen by it."""
    order = [0, *range(2, moments.shape[1]), 1]
    arranged = np.ix_(range(len(moments)), order, order)
    return solve(moments[arranged], deviation[np.ix_(order, order)], ridge="auto").coefficients


def distance(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """l2 distance of coefficients, run by run; infinite where a run failed."""
    error = np.linalg.norm(found - truth, axis=1)
    return np.where(np.isnan(error), np.inf, error)


def statistics_error(found: np.ndarray, truth: np.ndarray, rows: float) -> np.ndarray:
    """l2 distance of the mean monomials of orders 1 and 2, each counted once."""
    upper = np.triu_indices(truth.shape[-1])
    each = ((found - truth) / rows)[..., upper[0], upper[1]]
    return np.asarray(np.linalg.norm(each[..., 1:], axis=-1))


def joined(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Moment matrices of many-to-many joins, the semi-ring's product summed over keys: (runs, d, a+1, a+1) and
    (runs, d, b+1, b+1) give (runs, a+b+1, a+b+1) over [1, left's features, right's features]."""
    a, b = left.shape[-1], right.shape[-1]
    found = np.empty((len(left), a + b - 1, a + b - 1))
    found[:, :a, :a] = np.einsum("rk,rkij->rij", right[..., 0, 0], left)
    found[:, a:, a:] = np.einsum("rk,rkij->rij", left[..., 0, 0], right[..., 1:, 1:])
    found[:, :a, a:] = np.einsum("rki,rkj->rij", left[..., 0], right[..., 0, 1:])
    found[:, a:, :a] = np.swapaxes(found[:, :a, a:], 1, 2)
    return found


def as_published(moments: np.ndarray, *, left: int, rows: int, keys: int) -> np.ndarray:
    """The proposition's estimate of one table's mean moments from its projections' join: cross moments between the first
    `left` features and the rest are a s'[f1 f2] + b s'[f1] s'[f2], everything else is read from the join."""
    from saibot.estimate.many_to_many import paper_weights

    count = moments[:, :1, :1]
    means = moments / np.where(count == 0, np.nan, count)
    a, b = paper_weights(rows=rows, keys=keys)
    here, there = slice(1, 1 + left), slice(1 + left, None)
    cross = a * means[:, here, there] + b * means[:, here, :1] * means[:, :1, there]
    means[:, here, there], means[:, there, here] = cross, np.swapaxes(cross, 1, 2)
    return means
