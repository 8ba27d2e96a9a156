"""Linear regression from moments, for a whole stack of tables at once: centred, scaled, steady under noise of a known size.

Moments come as augmented Gram matrices over [1, features..., target]. Each is centred with its row count and scaled to unit
diagonal before anything is solved, so neither a feature around 2000 nor one in units of 1e-6 costs digits that the moments
still hold.

**Repair.** Let eta be the root mean square of the noise of an eigenvalue of that scaled matrix, known from the noise of its
entries: eta^2 = ||sd of the noise||_F^2 / m. An eigenvalue below eta says nothing but that it is small: it is lifted to eta,
which makes the matrix positive definite whatever the noise. Without noise, directions that the moments cannot tell from a
constant are left out, as a pseudo-inverse does.
**Ridge.** `ridge="auto"` is Hoerl and Kennard's, with the noise of the moments in the place of a residual variance: a
part of b - A theta has the noise variance v = (sd of b)^2 + eta^2 |theta|^2 / m, and a ridge of m v / R2, R2 <= 1 from
the repaired fit, balances bias and variance on average over eigenvectors. In simulation (1 to 8 features, R2 of 0.05 to
0.9, noise of 0.3 % to 100 % of a feature's variance) it was at worst as good as no ridge, a tenth of its error at best, and
better than the ridge eta wherever noise is small or large. A ridge that is given is added to the unit diagonal too.
`rule="paper"` is the paper's: no repair, R2 = 0 when X^T X is not positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Rule = Literal["repair", "paper"]
Penalty = float | Literal["auto"]
SINGULAR = 1e-11  # of a unit diagonal: an eigenvalue below it is rounding, if the moments are exact
ROUNDING = 1e-14  # of a sum of squares: a scatter below it is rounding


@dataclass(frozen=True)
class Solutions:
    """The models of a stack of N Gram matrices over m features, and how well each fits its own moments."""

    intercept: np.ndarray  # (N,)
    coefficients: np.ndarray  # (N, m)
    inverse: np.ndarray  # (N, m, m): of the features' scatter, repaired and with the ridge
    rss: np.ndarray
    tss: np.ndarray
    r2: np.ndarray  # in [0, 1], never NaN
    ridge: np.ndarray
    repaired: np.ndarray
    smallest: np.ndarray | None = None  # under the paper's rule, the smallest eigenvalue of X^T X / n
    failed: np.ndarray | None = None  # under the paper's rule, whether there is no model


def solve(grams: np.ndarray, noise: np.ndarray | float = 0.0, *, ridge: Penalty = 0.0, rule: Rule = "repair") -> Solutions:
    """The regression of the last column on all others, for every matrix of (N, m+2, m+2).

    `noise` is the standard deviation of the noise of each entry. The number of rows is a matrix's first entry.
    """
    n = np.maximum(grams[:, 0, 0], 1.0)
    if rule == "paper":
        return _as_published(grams, n, 0.0 if ridge == "auto" else ridge)
    m = grams.shape[1] - 2
    scatter, spread = centred(grams, n), None
    size = np.abs(_diagonal(scatter))
    if np.any(noise):
        spread = centred_noise(grams, np.broadcast_to(np.asarray(noise, dtype=float), grams.shape), n)
        size = np.maximum(size, _diagonal(spread))
    constant = size <= ROUNDING * np.abs(_diagonal(grams)[:, 1:])  # what is left of it is rounding: it gets no coefficient
    if constant.any():
        scatter = np.where(constant[:, :, None] | constant[:, None, :], 0.0, scatter)
    unit = np.where(constant, 1.0, np.sqrt(size))
    units = unit[:, :, None] * unit[:, None, :]
    scaled = scatter / units
    values, vectors = np.linalg.eigh(scaled[:, :m, :m])
    eta, target_noise = np.zeros(len(grams)), np.zeros((len(grams), m))
    if spread is not None:
        eta = np.sqrt(np.sum((spread / units)[:, :m, :m] ** 2, axis=(1, 2)) / max(m, 1))
        target_noise = (spread / units)[:, :m, m]
    floor = np.maximum(eta, SINGULAR)[:, None]
    lifted = np.maximum(values, floor)
    tss = np.maximum(scaled[:, m, m], 0.0)
    # A target that varies by less than its noise leaves nothing to explain; nor does a direction that is rounding.
    known = (values >= SINGULAR) | (eta > 0)[:, None]
    along = np.where(known & (tss > 0)[:, None], (scaled[:, m, None, :m] @ vectors)[:, 0], 0.0)
    extra = np.full(len(grams), 0.0 if ridge == "auto" else float(ridge))
    if ridge == "auto" and spread is not None:
        extra = _auto_ridge(along / lifted, lifted, eta, target_noise)
    weight = np.where(known, 1 / (lifted + extra[:, None]), 0.0)
    theta = along * weight
    rss = np.maximum(tss - 2 * np.sum(theta * along, axis=1) + np.sum(theta**2 * lifted, axis=1), 0.0)
    coefficients = (vectors @ theta[:, :, None])[:, :, 0] * unit[:, m:] / unit[:, :m]
    means = grams[:, 0, 1:] / n[:, None]
    return Solutions(
        intercept=means[:, m] - np.sum(coefficients * means[:, :m], axis=1),
        coefficients=coefficients,
        inverse=(vectors * weight[:, None, :]) @ vectors.transpose(0, 2, 1) / units[:, :m, :m],
        rss=rss * unit[:, m] ** 2,
        tss=tss * unit[:, m] ** 2,
        r2=np.where(tss > 0, np.minimum(1 - rss / np.where(tss > 0, tss, 1.0), 1.0), 0.0),
        ridge=extra,
        repaired=(values < floor).any(axis=1) | (scaled[:, m, m] <= 0),
    )


def centred(grams: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Scatter around the means of n rows."""
    sums = grams[:, 0, 1:]
    scatter = grams[:, 1:, 1:] - sums[:, :, None] * sums[:, None, :] / n[:, None, None]
    return np.asarray((scatter + scatter.transpose(0, 2, 1)) / 2)


def centred_noise(grams: np.ndarray, sd: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The standard deviation of the noise of `centred` (first order)."""
    moved = np.abs(grams[:, 0, 1:, None] / n[:, None, None]) * sd[:, 0, None, 1:]
    # A diagonal entry subtracts the same noisy mean twice.
    twice = np.where(np.eye(moved.shape[1], dtype=bool), 2 * moved, np.hypot(moved, moved.transpose(0, 2, 1)))
    return np.asarray(np.hypot(sd[:, 1:, 1:], twice))


def inverse_roots(matrices: np.ndarray, *, least: float) -> np.ndarray:
    """W with W W' = M^-1 for every symmetric matrix of (N, m, m), eigenvalues below `least` lifted to it."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray(vectors / np.sqrt(np.maximum(values, least))[:, None, :])


def wald(vectors: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """v' S^-1 v for every vector of (N, m): how clear of 0 it is. S is lifted by 1e-9 of its trace, and may be singular."""
    size = np.maximum(np.trace(covariances, axis1=1, axis2=2), 1e-300)
    lifted = covariances + 1e-9 * size[:, None, None] * np.eye(vectors.shape[1])
    return np.asarray(np.einsum("gi,gi->g", vectors, np.linalg.solve(lifted, vectors[..., None])[..., 0]))


# ------------------------------------------------------------------------------------------------ inside


def _diagonal(matrices: np.ndarray) -> Any:
    return np.diagonal(matrices, axis1=1, axis2=2)


def _auto_ridge(theta: np.ndarray, eigenvalues: np.ndarray, eta: np.ndarray, target_noise: np.ndarray) -> np.ndarray:
    variance = np.sum(target_noise**2, axis=1) + eta**2 * np.sum(theta**2, axis=1)  # m v of the module's docstring
    explained = np.minimum(np.sum(eigenvalues * theta**2, axis=1), 1.0)
    return np.asarray(variance / np.maximum(explained, 1e-12))


def _as_published(grams: np.ndarray, n: np.ndarray, ridge: float) -> Solutions:
    """Solve the normal equations as they are. The ridge is added after dividing by the count."""
    m = grams.shape[1] - 2
    means = grams / n[:, None, None]
    A = means[:, : m + 1, : m + 1] + ridge * np.diag([0.0] + [1.0] * m)
    smallest = np.linalg.eigvalsh(A)[:, 0]
    # Less than one row is no table, and dividing by it would only make noise larger.
    failed = ~(smallest > 1e-14 * np.abs(A).max(axis=(1, 2))) | (grams[:, 0, 0] < 1)
    safe = np.where(failed[:, None, None], np.eye(m + 1), A)
    theta = np.where(failed[:, None], 0.0, np.linalg.solve(safe, means[:, : m + 1, m + 1 :])[:, :, 0])
    weights = np.column_stack([-theta, np.ones(len(grams))])
    rss = np.einsum("ni,nij,nj->n", weights, grams, weights)
    tss = grams[:, m + 1, m + 1] - grams[:, 0, m + 1] ** 2 / n
    varies = (tss > 0) & ~failed
    r2 = np.where(varies, 1 - rss / np.where(varies, tss, 1.0), 0.0)
    return Solutions(
        intercept=theta[:, 0],
        coefficients=theta[:, 1:],
        inverse=np.linalg.inv(safe)[:, 1:, 1:] / n[:, None, None],
        rss=rss,
        tss=tss,
        r2=np.where((r2 >= 0) & (r2 <= 1), r2, 0.0),
        ridge=np.full(len(grams), ridge),
        repaired=np.zeros(len(grams), dtype=bool),
        smallest=smallest,
        failed=failed,
    )
