"""Shared by the tests of factors: made-up tables of one key domain that have causes in common, and their readings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from saibot.estimate.factors import KeyTree, Readings
from saibot.estimate.lookup import level_readings

STEPS = (np.repeat(np.arange(12), 5), np.repeat(np.arange(3), 4))  # 60 keys in 12 groups in 3


@dataclass(frozen=True)
class Made:
    readings: Readings
    truth: np.ndarray  # (N, d), the true means
    loadings: np.ndarray


def make(
    tables: int,
    keys: int,
    rank: int,
    *,
    shared: float = 0.6,
    spread: float = 0.1,
    rows: float = 20.0,
    noise: float = 3.0,
    steps: Sequence[np.ndarray] = (),
    exact: int = 0,
    seed: int = 0,
    loadings: np.ndarray | None = None,
) -> Made:
    """Tables of one feature each; the first `exact` have no noise, and factors have the share `shared` of the variance."""
    rng = np.random.default_rng(seed)
    tree = KeyTree(keys, tuple(f"level{i}" for i in range(len(steps))), tuple(steps))
    share = shared if rank else 0.0
    if loadings is None:
        loadings = rng.normal(size=(keys, rank)) * np.sqrt(share / max(rank, 1))
    found, truth = [], []
    for number in range(tables):
        own, place = rng.normal(size=keys), np.arange(keys)
        for step in steps:
            place = step[place]
            own = own + rng.normal(size=place.max() + 1)[place]
        own *= np.sqrt((1 - share) / (1 + len(steps)))
        z = np.clip(0.1 * rng.normal() + np.sqrt(spread) * (loadings @ rng.normal(size=rank) + own), -1, 1)
        sigma = 0.0 if number < exact else noise
        counts, sums = [rng.poisson(rows, keys).astype(float)], []
        sums.append(counts[0] * z)
        for step in steps:
            counts.append(np.bincount(step, counts[-1]))
            sums.append(np.bincount(step, sums[-1]))
        noisy = [[level + sigma * rng.normal(size=level.shape) for level in part] for part in (counts, sums)]
        sigmas = [sigma] * len(counts)
        facts = {"count_sigma": sigmas, "sum_sigma": sigmas, "rows": counts[0].sum(), "parents": list(steps)}
        found.append(Readings.of_levels(level_readings(noisy[0], [level[None] for level in noisy[1]], **facts), tree))
        truth.append(z)
    return Made(Readings.join(found), np.array(truth), loadings)


@pytest.fixture
def made() -> Callable[..., Made]:
    """made(tables, keys, rank, ...): simulated tables of one domain."""
    return make


@pytest.fixture
def steps() -> tuple[np.ndarray, ...]:
    """60 keys in 12 groups, which are in 3."""
    return STEPS


def agreement(values: np.ndarray, truth: np.ndarray) -> float:
    """The mean over tables of the squared correlation over keys of values with the truth; 0 for a constant."""
    found = [np.corrcoef(one, other)[0, 1] ** 2 if one.std() > 0 else 0.0 for one, other in zip(values, truth, strict=True)]
    return float(np.mean(found))


@pytest.fixture
def agree() -> Callable[[np.ndarray, np.ndarray], float]:
    return agreement
