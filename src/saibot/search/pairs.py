"""How sure R2 of a many-to-many join is: sums over keys of what every key adds to it."""

from __future__ import annotations

import numpy as np

from saibot.estimate.many_to_many import JoinedMoments
from saibot.semiring import Fit
from saibot.semiring.solve import centred_noise, wald


def influence(features: tuple[str, ...], scatter: np.ndarray, fit: Fit) -> np.ndarray:
    """What each key adds to the error of R2: its residual sum of squares against its share of the target's, relative."""
    weights = np.zeros(len(features))
    weights[[features.index(name) for name in fit.features]] = -fit.coefficients
    y = features.index(fit.target)
    weights[y] = 1.0
    residual = np.einsum("kij,i,j->k", scatter, weights, weights)
    answer: np.ndarray = ((1 - fit.r2) * scatter[:, y, y] - residual) / max(fit.tss, 1e-300)
    return answer


def wald_statistic(whole: JoinedMoments, before: Fit, after: Fit, group: tuple[str, ...]) -> float:
    """How clear of 0 the slopes of the new features are, keys as a sample: compare with a chi-square, one degree each."""
    names = whole.gram.features
    old = [names.index(name) for name in before.features]
    new, y = [names.index(name) for name in group], names.index(after.target)
    narrow = whole.gram.fit(before.features, after.target, ridge=0.0)
    own = np.zeros((len(group), len(names)))  # the part of each new feature that the current ones do not explain
    for row, name in enumerate(group):
        own[row, new[row]] = 1.0
        own[row, old] = -whole.gram.fit(before.features, name, ridge=0.0).coefficients
    residual = np.zeros((2, len(names)))
    residual[:, y] = 1.0
    residual[0, old] = -narrow.coefficients
    residual[1, [names.index(name) for name in after.features]] = -after.coefficients
    product = own @ whole.scatter.sum(axis=0) @ residual[0]
    by_key = np.einsum("fi,kij,j->kf", own, whole.scatter, residual[1])
    # A key with many pairs pulls the fit towards itself, and its residual looks smaller than its error is: the jackknife's
    # correction, by the share of the features' own spread that is the key's (no more than half of it; noise has no limit).
    spread = np.einsum("fi,kij,fj->kf", own, whole.scatter, own)
    share = np.clip(spread / np.maximum(spread.sum(axis=0), 1e-300), 0.0, 0.5)
    by_key = by_key / (1 - share)
    size = np.sqrt(np.maximum(np.sum(by_key**2, axis=0), 1e-300))
    covariance = by_key.T @ by_key / np.outer(size, size)
    return float(wald((product / size)[None], covariance[None])[0])


def noise_variance(whole: JoinedMoments, fit: Fit) -> float:
    """The privacy noise in R2, to first order, entries of the joined moments taken as independent."""
    matrix, noise = whole.gram.arranged(fit.features, fit.target)
    spread = centred_noise(matrix[None], noise[None], np.array([fit.count]))
    weights = np.append(-fit.coefficients, 1.0)
    by_entry = np.outer(weights, weights)
    by_entry[-1, -1] -= 1 - fit.r2
    once = np.triu(2 * by_entry) - np.diag(np.diag(by_entry))
    return float(np.sum((once * spread[0]) ** 2)) / max(fit.tss, 1e-300) ** 2
