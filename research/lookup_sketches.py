"""What `joint` lookup sketches of many simulated tables say, with seeded noise: the moments that estimators read."""

from __future__ import annotations

import numpy as np

from research.baselines import EntryNoise
from saibot.estimate.moments import KeyedMoments
from saibot.privacy.mechanisms import Plan


def noisy_moments(exact: np.ndarray, names: tuple[str, ...], plan: Plan, rng: np.random.Generator) -> list[KeyedMoments]:
    """Per-key moments (runs, keys, m+1, m+1) with a lookup plan's noise: the global sums pooled with those of the keys."""
    runs, keys = exact.shape[:2]
    m = len(names)
    by_key, whole = EntryNoise.of_plan(plan, "key"), EntryNoise.of_plan(plan, "global")
    noisy = exact + by_key.drawn(rng, (runs, keys))
    total = exact.sum(axis=1) + whole.drawn(rng, (runs,))
    count_sigma, sum_sigma, total_sigma = by_key.scale[0, 0], by_key.scale[0, 1], whole.scale[0, 1]
    from_keys, from_total = 1 / (keys * sum_sigma**2), 1 / total_sigma**2
    pooled = (noisy[:, :, 0, 1:].sum(axis=1) * from_keys + total[:, 0, 1:] * from_total) / (from_keys + from_total)
    return [
        KeyedMoments(
            features=names,
            counts=noisy[run, :, 0, 0],
            sums=noisy[run, :, 0, 1:],
            products=total[run, 1:, 1:],
            count=float(exact[run, :, 0, 0].sum()),
            total=pooled[run],
            count_noise=np.full(keys, count_sigma),
            sum_noise=np.full(keys, sum_sigma),
            product_noise=whole.scale[1:, 1:],
            total_noise=np.full(m, (from_keys + from_total) ** -0.5),
        )
        for run in range(runs)
    ]
