"""The moments of a table with values looked up by key: what a lookup join is regressed from (the solver is `Gram.fit`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from saibot.estimate.moments import KeyedMoments, noise_share
from saibot.semiring import Gram


def lookup_gram(
    moments: KeyedMoments, values: np.ndarray | None = None, names: Sequence[str] = (), *, features: Sequence[str] = ()
) -> Gram:
    """The Gram matrix over [1, features, values] of the rows with per-key values (D, j) looked up for each of them.

    `features` (all, if none are named) are the moments' own, the target among them. Totals that are known better than the
    sum over keys, n above all, take the place of that sum: values are centred at their mean over keys, and only what
    deviates from it meets the noise of single keys.
    """
    own = moments.select(tuple(features)) if features else moments
    m = len(own.features)
    looked = (
        np.zeros((len(own.counts), 0)) if values is None else np.asarray(values, dtype=float).reshape(len(own.counts), -1)
    )
    j = looked.shape[1]
    gram, sd = np.zeros((1 + m + j, 1 + m + j)), np.zeros((1 + m + j, 1 + m + j))
    gram[0, 0], sd[0, 0] = own.count, own.total_count_noise
    gram[0, 1 : 1 + m], sd[0, 1 : 1 + m] = own.total, own.total_noise
    gram[1 : 1 + m, 1 : 1 + m], sd[1 : 1 + m, 1 : 1 + m] = own.products, own.product_noise
    if j:
        counts, sums = own.balanced
        gram[0, 1 + m :] = counts @ looked
        gram[1 + m :, 1 + m :] = (looked * counts[:, None]).T @ looked
        gram[1 : 1 + m, 1 + m :] = sums.T @ looked
    if j and not own.exact:
        for a in range(j):
            place, column = 1 + m + a, looked[:, a]
            sd[0, place] = total_error(column, own.count_noise, own.total_count_noise)
            for i in range(m):
                sd[1 + i, place] = total_error(column, own.sum_noise, float(own.total_noise[i]))
            for b in range(a, j):
                sd[place, 1 + m + b] = total_error(column * looked[:, b], own.count_noise, own.total_count_noise)
    upper = np.triu(np.ones_like(gram, dtype=bool))
    gram, sd = np.where(upper, gram, gram.T), np.where(upper, sd, sd.T)
    return Gram((*own.features, *names), gram, sd)


def total_error(weights: np.ndarray, noise: np.ndarray, total_noise: float) -> float:
    """The noise, as a standard deviation, of sum_k w_k x_k read off balanced moments: noisy x_k and a better known total.

    The total is an inverse-variance average that the x_k take part in, so its covariance with their sum is its variance:
    sum (w - w0) x~ + w0 total has uncorrelated terms for w0 the noise-weighted mean of w, and no other w0 does better.
    """
    centre = float(noise_share(noise) @ weights)
    rest = (weights - centre) * noise
    return float(np.sqrt(rest @ rest + (centre * total_noise) ** 2))
