"""Potential gains of all candidates: what the providers' raw means would give, ranked by a lower bound.

Given its sketch, the true mean of a key is the private value plus an independent error of known variance. The slope on
private values is therefore the slope on true ones (Berkson), and only the spread it works on is larger: the potential gain
is the usable one times (left + n v) / left, with v the mean variance of that error, that is, over the share L of the spread
that is signal. L was estimated from the sketch, with a relative variance of 2 (1-L)^2 / sum L_k^2: that is the error which
the potential gain has beyond the usable one's, and what it is corrected for, because 1/L is too large on average. (Noise
that happens to lie along the true values moves the usable gain and L together, and cancels.)
"""

from __future__ import annotations

import numpy as np

from saibot.search.scoring import Base

LEAST_RELIABLE = 1e-3
ROUNDS = 12


def signal_share(reliability: np.ndarray, keys: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """The share of a feature's spread that is signal, and the relative variance of that estimate.

    Lookup values are shrunk a little more than the estimate asks for, by S/(S+4) with S the sum of squared reliabilities
    (`saibot.estimate.tree`); here that is taken back.
    """
    kept = np.clip(np.asarray(reliability, dtype=float), LEAST_RELIABLE, 1.0)
    odds = kept / np.maximum(1 - kept, 1e-12)
    share = kept
    for _ in range(ROUNDS):
        sure = np.maximum(keys * share**2, 1.0)
        wider = odds * (sure + 4) / sure
        share = wider / (1 + wider)
    return share, 2 * (1 - share) ** 2 / np.maximum(keys * share**2, 1.0)


def potential_scores(
    gain: np.ndarray, deviation: np.ndarray, base: Base, *, reliability: np.ndarray, quantile: float
) -> tuple[np.ndarray, np.ndarray]:
    """Potential gain and its lower bound, for one-feature candidates; both are 0 where the usable gain is."""
    share, variance = signal_share(reliability, max(base.keys, 1))
    found = np.maximum(gain / share / (1 + variance), gain)
    relative = deviation**2 / np.maximum(gain, 1e-300) + variance / 4  # of the root
    clear = np.maximum(1 - quantile * np.sqrt(relative), 0.0)
    return np.minimum(found, 1.0), np.minimum(found * clear**2, 1.0)
