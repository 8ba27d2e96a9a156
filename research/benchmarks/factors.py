"""Shared factors of a large key domain: seconds for learning, values and one request's ranking, and the memory they need.

python -m research.benchmarks.factors --tables 10000 --keys 1000
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from research.benchmarks.memory import watched_memory
from saibot.estimate.factors import KeyTree, Readings, RequestSums, apply, expected_gains, learn
from saibot.estimate.lookup import level_readings

CAUSES, SHARED, SPREAD = 3, 0.5, 0.1
ROWS, SIGMA = 20.0, 10.0  # rows per key, and noise of counts and sums
TOGETHER = 250  # tables that are made at once


@dataclass(frozen=True)
class FactorsBench:
    """Memory is what was added to the process's own, at its peak; `tables_mb` of it are the readings themselves."""

    tables: int
    keys: int
    levels: int
    rank: int
    readings_seconds: float
    learn_seconds: float
    apply_seconds: float
    request_seconds: float
    tables_mb: float
    peak_mb: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_factors(*, tables: int = 10_000, keys: int = 1000, groups: int = 0) -> FactorsBench:
    """Made-up sketches of one feature each with three causes in common; with `groups`, keys have a coarser level."""
    with watched_memory() as memory:
        times = [time.perf_counter()]
        readings = made_up(tables, keys, groups)
        times.append(time.perf_counter())
        factors = learn(readings)
        times.append(time.perf_counter())
        found = apply(factors, readings)
        times.append(time.perf_counter())
        expected_gains(factors, readings, found.tau2, _request(keys))
        times.append(time.perf_counter())
    arrays = (*readings.sums, *readings.noise, readings.weight, readings.plain, readings.plain_variance)
    seconds = np.diff(times)
    return FactorsBench(
        tables=tables,
        keys=keys,
        levels=len(readings.sums),
        rank=factors.rank,
        readings_seconds=float(seconds[0]),
        learn_seconds=float(seconds[1]),
        apply_seconds=float(seconds[2]),
        request_seconds=float(seconds[3]),
        tables_mb=sum(array.nbytes for array in arrays) / 1e6,
        peak_mb=(max(memory) - memory[0]) / 1e6,
    )


def made_up(tables: int, keys: int, groups: int = 0) -> Readings:
    """Readings as of sketches with seeded noise."""
    rng = np.random.default_rng(0)
    steps = (np.arange(keys) * groups // keys,) if groups else ()
    tree = KeyTree(keys, ("group",) * len(steps), steps)
    loadings = rng.normal(size=(keys, CAUSES)) * np.sqrt(SHARED / CAUSES)
    parts, sigmas = [], [SIGMA] * (1 + len(steps))
    for start in range(0, tables, TOGETHER):
        size = min(TOGETHER, tables - start)
        values = rng.normal(size=(size, CAUSES)) @ loadings.T + np.sqrt(1 - SHARED) * rng.normal(size=(size, keys))
        counts = rng.poisson(ROWS, (size, keys)).astype(float)
        exact = [tree.sums(part) for part in (counts, counts * np.clip(np.sqrt(SPREAD) * values, -1, 1))]
        noisy = [[level + SIGMA * rng.normal(size=level.shape) for level in part] for part in exact]
        found = level_readings(*noisy, count_sigma=sigmas, sum_sigma=sigmas, rows=counts.sum(axis=1), parents=list(steps))
        part = Readings.of_levels(found, tree)
        part.sketch[:] = np.arange(size)  # each a sketch of its own
        parts.append(part)
    return Readings.join(parts)


def _request(keys: int) -> RequestSums:
    rng = np.random.default_rng(1)
    counts, own = np.full(keys, 20.0), rng.normal(size=(keys, 3))
    X = np.column_stack([counts, 20 * own])
    inverse = np.linalg.inv(X.T @ (X / 20) + 200 * np.eye(4))
    return RequestSums(counts, 20 * rng.normal(size=keys), np.full(keys, 100.0), X, inverse, 40.0 * keys, within=1.0)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", type=int, default=10_000)
    options.add_argument("--keys", type=int, default=1000)
    options.add_argument("--groups", type=int, default=0, help="keys of a coarser level")
    given = options.parse_args()
    for name, value in bench_factors(tables=given.tables, keys=given.keys, groups=given.groups).to_json().items():
        print(f"{name:>18} {value:,.1f}" if isinstance(value, float) else f"{name:>18} {value:,}")


if __name__ == "__main__":
    main()
