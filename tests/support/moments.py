"""Moments as a private request would have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saibot.semiring import Moments


def add_noise(exact: Moments, rng: np.random.Generator, counts: float, sums: float, products: float) -> Moments:
    """As a lookup sketch says it, with noise of these sizes: n public, a global block of sums beside those of the keys."""
    d, m = exact.sums.shape
    c, s = exact.counts + rng.normal(size=d) * counts, exact.sums + rng.normal(size=(d, m)) * sums
    # The global block has the noise of one key's sums; the total is the inverse-variance average of both readings.
    reading = exact.total + rng.normal(size=m) * sums
    weight = d / (d + 1)
    noise = rng.normal(size=(m, m)) * products / np.sqrt(2)
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(rng.normal(size=m) * products)
    return replace(
        exact,
        counts=c,
        sums=s,
        products=exact.products + noise,
        total=weight * reading + (1 - weight) * s.sum(axis=0),
        count_noise=np.full(d, counts),
        sum_noise=np.full(d, sums),
        product_noise=np.where(np.eye(m, dtype=bool), products, products / np.sqrt(2)),
        total_noise=np.full(m, sums * np.sqrt(weight)),
        key_products=None,
        key_product_noise=None,
    )
