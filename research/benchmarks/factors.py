"""Shared factors of a large key domain: seconds for learning, values and one request's ranking, and the memory they need."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.benchmarks.memory import watched_memory
from saibot.estimate.factors import KeyTree, Readings, RequestSums, apply, expected_gains, learn
from saibot.estimate.lookup import level_readings

CAUSES, SHARED, SPREAD = 3, 0.5, 0.1
ROWS, SIGMA = 20.0, 10.0  # rows per key, and noise of counts and sums
TOGETHER = 250  # tables that are made at once
GROWN_TABLES, GROWN_KEYS = (500, 1000, 2000, 4000), (125, 250, 500, 1000)


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


def bench_growth(*, shrink: int = 1, tell: Callable[[str, float | None], None]) -> dict[str, list[tuple[int, float]]]:
    """Seconds for learning a given number of factors and applying them, where tables grow and where keys do."""
    sizes = [(tables, GROWN_KEYS[1]) for tables in GROWN_TABLES] + [(GROWN_TABLES[1], keys) for keys in GROWN_KEYS]
    found: dict[tuple[int, int], float] = {}
    for number, (tables, keys) in enumerate(sizes):
        tell("growing tables and keys", number / len(sizes))
        readings = made_up(max(tables // shrink, 8), max(keys // shrink, 8))
        began = time.perf_counter()
        apply(learn(readings, rank=CAUSES), readings)
        found[tables, keys] = time.perf_counter() - began
    return {
        "sketches": [(tables, found[tables, GROWN_KEYS[1]]) for tables in GROWN_TABLES],
        "keys": [(keys, found[GROWN_TABLES[1], keys]) for keys in GROWN_KEYS],
    }


def write_growth(found: dict[str, list[tuple[int, float]]], folder: Path) -> Path:
    """A figure of two panels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    folder.mkdir(parents=True, exist_ok=True)
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), constrained_layout=True)
    for panel, (name, points) in zip(panels, found.items(), strict=True):
        sizes, seconds = np.array(points).T
        slope, start = np.polyfit(sizes, seconds, 1)
        panel.plot(sizes, seconds, "o-", color="#0b6e99", linewidth=1.8, markersize=5)
        panel.plot([0, sizes[-1]], [start, start + slope * sizes[-1]], "--", color="#999999", label="straight line")
        panel.set(xlabel=name, ylim=(0, None), title=f"linear in {name}")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
        panel.legend(frameon=False, loc="upper left")
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"learning and applying {CAUSES} factors, s")
    path = folder / "factors-scaling.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
