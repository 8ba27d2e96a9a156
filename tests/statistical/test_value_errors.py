"""The error beside a value covers the mean of its key's rows, also where noise hides how much keys differ."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.estimate.lookup import LevelReadings, LookupValues, level_readings, shrunk
from saibot.estimate.value_errors import STEPS, affordable, squared_errors

NOISE = 10.0
FEATURES = 24


def simulated(
    keys: int, rows: float, spread: float, *, groups: int = 0, seed: int = 0
) -> tuple[np.ndarray, LevelReadings, LookupValues, np.ndarray]:
    """Means of the rows of each key, what is read of them, and where there are rows."""
    rng = np.random.default_rng([keys, int(rows), int(100 * spread), groups, seed])
    counts = rng.poisson(rows, (FEATURES, keys)).astype(float)
    between = spread * rng.normal(size=(FEATURES, keys))
    parents = np.arange(keys) * groups // keys if groups else None
    if parents is not None:
        between = 0.5 * between + spread * rng.normal(size=(FEATURES, groups))[:, parents]
    means = np.clip(0.1 + between, -1, 1) + 0.3 * rng.normal(size=counts.shape) / np.sqrt(np.maximum(counts, 1))
    sums = counts * means
    levels = [(counts, sums)]
    if parents is not None:
        at = np.eye(groups)[parents]
        levels.append((counts @ at, sums @ at))
    found = level_readings(
        [count + NOISE * rng.normal(size=count.shape) for count, _ in levels],
        [total + 1.4 * NOISE * rng.normal(size=total.shape) for _, total in levels],
        count_sigma=[NOISE] * len(levels),
        sum_sigma=[1.4 * NOISE] * len(levels),
        rows=counts.sum(axis=1),
        parents=[] if parents is None else [parents],
    )
    return means, found, shrunk(found), counts > 0


def covered(errors: np.ndarray, told: np.ndarray) -> float:
    return float(np.mean(np.abs(errors) <= 2 * np.sqrt(told)))


CASES = [
    (keys, rows, spread, groups)
    for keys in (12, 60, 365, 3000)
    for rows in (1, 3, 20, 100, 1000)
    for spread in (0.0, 0.1, 0.3)
    for groups in (0, 6)
]


@pytest.mark.parametrize("steps", [STEPS, None], ids=["all", "at most"])
def test_two_errors_cover_the_means_of_keys(steps: np.ndarray | None) -> None:
    """95 % of them on average, and three quarters in the worst case: where nothing but chance tells keys apart."""
    found_there = {}
    for case in CASES:
        keys, rows, spread, groups = case
        means, found, values, there = simulated(keys, rows, spread, groups=groups)
        told = squared_errors(found, values, steps)
        found_there[case] = covered((values.values - means)[there], told[there])
        assert (told >= values.posterior_variance - 1e-12).all()
    assert min(found_there.values()) > 0.75, found_there
    assert np.mean(list(found_there.values())) > 0.94
    assert sorted(found_there.values())[len(CASES) // 10] > 0.9, "nine of ten cases"


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_the_variance_of_a_known_spread_would_not(rows: int) -> None:
    """What pages told before: 115 \u00b1 0 for every one of 100,000 keys."""
    means, _, values, there = simulated(365, rows, 0.1)
    assert covered((values.values - means)[there], values.posterior_variance[there]) < 0.7


def test_where_data_decide_nothing_is_added() -> None:
    """With many rows and keys the spread is known, and the error is that of the noise."""
    _, found, values, _ = simulated(3000, 1000, 0.3)
    assert np.sqrt(squared_errors(found, values) / values.posterior_variance).mean() < 1.01


def test_without_noise_there_is_no_error() -> None:
    counts, sums = np.array([[5.0, 2.0, 0.0]]), np.array([[1.0, -1.0, 0.0]])
    found = level_readings(counts, sums, count_sigma=0.0, sum_sigma=0.0, rows=7)
    assert not squared_errors(found, shrunk(found)).any()


def test_what_is_gone_through_is_bounded() -> None:
    """A visitor without an account may open the page of the largest sketch that is shown."""
    assert affordable(200_000, 1) is STEPS and affordable(100_000, 4) is STEPS
    assert affordable(1_000_000, 1) is None and affordable(100_000, 20) is None
