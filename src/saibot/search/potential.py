"""Potential gains of all candidates: what the providers' raw means would give, ranked by a lower bound.

Given its sketch, the true mean of a key is the private value plus an independent error of known variance. The slope on
private values is therefore the slope on true ones (Berkson), and only the spread it works on is larger: the potential gain
is the usable one times (left + n v) / left, with v the mean variance of that error. It is the noisier number: its bound has
the error of the slope, what is unknown of the keys' means, and the error of the spread, which was estimated (A6).
"""

from __future__ import annotations

import numpy as np

from saibot.search.scoring import Base

LEAST_RELIABLE = 1e-3


def potential_scores(
    gain: np.ndarray,
    deviation: np.ndarray,
    coefficient: np.ndarray,
    base: Base,
    *,
    spread: np.ndarray,
    reliability: np.ndarray,
    quantile: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Potential gain and its lower bound, for one-feature candidates; both are 0 where the usable gain is."""
    kept = np.clip(reliability, LEAST_RELIABLE, 1.0)
    unknown = spread * (1 - kept)
    usable = np.maximum(gain, 1e-300)
    left = usable * max(base.tss, 1e-300) / np.maximum(coefficient**2, 1e-300)
    found = gain * (1 + base.count * unknown / left)
    provider = base.rows_per_key * unknown / left + 2 * (1 - kept) ** 2 / (max(base.keys, 1) * kept**2)
    clear = np.maximum(1 - quantile * np.sqrt(deviation**2 / usable + provider), 0.0)
    return np.minimum(found, 1.0), np.minimum(found * clear**2, 1.0)
