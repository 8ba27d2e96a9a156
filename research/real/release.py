"""Releases with seeded noise: what providers and the requester of a task would publish, many runs at once.

Simulation only. The noise is numpy's, with the sigmas of the very plans that a provider would use; everything after it is
the code that reads real sketches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from research.plans import plan_for, sigma
from research.real.keys import Domain
from saibot.estimate.lookup import LevelValues, LookupValues, shrink
from saibot.estimate.moments import KeyedMoments
from saibot.privacy import Budget
from saibot.privacy.mechanisms import Plan

CHUNK = 40_000  # values that are shrunk at a time
THREADS = min(os.cpu_count() or 1, 8)
LEVEL_FIELDS = ("deviations", "reliability", "spread")


def rounded_rows(rows: int) -> int:
    """Two digits in base 2: plans hardly depend on more, and fewer of them are made."""
    scale = 1 << max(rows.bit_length() - 2, 0)
    return rows // scale * scale


@dataclass(frozen=True)
class Values:
    """Private values of all candidates in all runs (runs, N, d), and what they are made of, level by level."""

    values: np.ndarray
    levels: tuple[LevelValues, ...]  # arrays (runs, N, d_l) and (runs, N)

    def of_run(self, run: int) -> tuple[np.ndarray, list[LevelValues]]:
        parts = [LevelValues(part.deviations[run], part.reliability[run], part.spread[run]) for part in self.levels]
        return self.values[run], parts


def private_values(
    counts: np.ndarray,
    sums: np.ndarray,
    domain: Domain,
    left: tuple[Budget, Decimal],
    *,
    rng: np.random.Generator,
    levels: bool = True,
    allocation: str = "values",
) -> Values:
    """Every candidate's lookup values in every run, from a joint lookup release each.

    `counts` (N, d+1) and `sums` (runs, N, d+1) are exact, the last key outside the domain; sums differ between runs where a
    private preparation was drawn anew. `left` is the budget of the release, and the share of its mu^2.
    """
    kept = domain if levels else Domain(domain.keys, ())
    runs, candidates = sums.shape[:2]
    values = np.empty((runs, candidates, kept.sizes[0]))
    parts = [[np.empty((runs, candidates, size)) for _ in range(2)] + [np.empty((runs, candidates))] for size in kept.sizes]
    for plan, chosen in _plans(counts.sum(axis=1), kept, left, allocation):
        values[:, chosen], found = _shrunk(plan, kept, counts[chosen], sums[:, chosen], rng)
        for part, level in zip(parts, found, strict=True):
            part[0][:, chosen] = level.deviations.reshape(runs, len(chosen), -1)
            part[1][:, chosen] = level.reliability.reshape(runs, len(chosen), -1)
            part[2][:, chosen] = level.spread.reshape(runs, len(chosen))
    return Values(values, tuple(LevelValues(*part) for part in parts))


def _plans(
    rows: np.ndarray, domain: Domain, left: tuple[Budget, Decimal], allocation: str
) -> Iterator[tuple[Plan, np.ndarray]]:
    """One plan for all candidates of about the same size."""
    sizes = np.array([rounded_rows(int(size)) for size in rows])
    for size in np.unique(sizes):
        plan = plan_for(
            "joint",
            "lookup",
            features=1,
            budget=left[0],
            share=left[1],
            allocation=allocation,
            sizes=domain.sizes,
            rows=int(size),
        )
        yield plan, np.flatnonzero(sizes == size)


def _shrunk(
    plan: Plan, domain: Domain, counts: np.ndarray, sums: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, list[LevelValues]]:
    runs, candidates = sums.shape[:2]

    def noisy(exact: np.ndarray, scale: float) -> np.ndarray:
        drawn = exact + rng.normal(size=(runs, *exact.shape[-2:])) * scale
        return drawn.reshape(runs * candidates, -1)

    depth = range(len(domain.sizes))
    sigma0 = [sigma(plan, "key", 0, level) for level in depth]
    sigma1 = [sigma(plan, "key", 1, level) for level in depth]
    all_counts = [noisy(part, scale) for part, scale in zip(domain.up(counts[:, :-1]), sigma0, strict=True)]
    all_sums = [noisy(part, scale) for part, scale in zip(domain.up(sums[:, :, :-1]), sigma1, strict=True)]
    # The catch-all is read once per level, as in `lookup_values`; the best of them will do.
    n = np.tile(counts.sum(axis=1), runs)
    inside = np.maximum(n - np.clip(noisy(counts[:, -1:], min(sigma0))[:, 0], 0, n), 1.0)

    def shrunk(some: slice) -> LookupValues:
        return shrink(
            [part[some] for part in all_counts],
            [part[some] for part in all_sums],
            count_sigma=sigma0,
            sum_sigma=sigma1,
            rows=inside[some],
            parents=domain.parents,
            typical_spread=True,
        )

    # Small enough for the caches, and each stops when its own rows have converged.
    step = max(CHUNK // domain.sizes[0], 1)
    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(shrunk, (slice(start, start + step) for start in range(0, len(n), step))))
    values = np.concatenate([part.values for part in parts])
    levels = [
        LevelValues(*(np.concatenate([getattr(part.levels[level], name) for part in parts]) for name in LEVEL_FIELDS))
        for level in depth
    ]
    return values.reshape(runs, candidates, -1), levels


def private_moments(
    exact: KeyedMoments, budget: Budget, *, bound_squared: Decimal, rng: np.random.Generator, share: Decimal = Decimal(1)
) -> KeyedMoments:
    """A request's moments as its own joint lookup sketch would give them."""
    keys, m = exact.sums.shape
    rows = rounded_rows(int(exact.count))
    plan = plan_for(
        "joint", "lookup", features=m, budget=budget, bound_squared=bound_squared, sizes=(keys,), rows=rows, share=share
    )
    block = plan.block("global", 2)
    assert block is not None
    product_noise = np.where(np.eye(m, dtype=bool), block.sigma, block.noise_of(2))
    noise = np.triu(rng.normal(size=(m, m)) * product_noise)
    count_sigma, sum_sigma, total_sigma = sigma(plan, "key", 0), sigma(plan, "key", 1), sigma(plan, "global", 1)
    sums = exact.sums + rng.normal(size=exact.sums.shape) * sum_sigma
    by_keys, by_block = 1 / (keys * sum_sigma**2), 1 / total_sigma**2
    whole = exact.total + rng.normal(size=m) * total_sigma
    return KeyedMoments(
        features=exact.features,
        counts=exact.counts + rng.normal(size=keys) * count_sigma,
        sums=sums,
        products=exact.products + noise + np.triu(noise, 1).T,
        count=exact.count,
        total=(sums.sum(axis=0) * by_keys + whole * by_block) / (by_keys + by_block),
        count_noise=np.full(keys, count_sigma),
        sum_noise=np.full(keys, sum_sigma),
        product_noise=product_noise,
        total_noise=np.full(m, (by_keys + by_block) ** -0.5),
    )
