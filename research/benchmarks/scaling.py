"""How the cost of a search step grows: linearly in candidates and keys, not at all in the rows of anybody's table."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from research.benchmarks.search import step_once, synthetic
from saibot.search import SearchOptions
from saibot.search.engine import Engine
from saibot.search.greedy import first_states

CANDIDATES, KEYS, ROWS = (
    (2000, 5000, 10_000, 20_000, 40_000),
    (100, 300, 1000, 2000, 4000),
    (2000, 20_000, 200_000, 1_000_000),
)
USUAL = (10_000, 1000, 20_000)


@dataclass(frozen=True)
class ScalingPoint:
    candidates: int
    keys: int
    rows: int
    milliseconds: float


def bench_scaling(
    *, shrink: int = 1, rounds: int = 4, tell: Callable[[str, float | None], None]
) -> dict[str, list[ScalingPoint]]:
    """One quantity grows at a time, the others stay at their usual size. `shrink` divides all sizes, for tests.

    Every point is measured in several rounds and the best one counts: a busy moment of the machine then bends no line.
    """
    lines: dict[str, list[tuple[int, int, int]]] = {
        "candidates": [(n, USUAL[1], USUAL[2]) for n in CANDIDATES],
        "keys": [(USUAL[0], d, USUAL[2]) for d in KEYS],
        "rows": [(USUAL[0], USUAL[1], n) for n in ROWS],
    }
    best: dict[tuple[int, int, int], ScalingPoint] = {}
    for number in range(rounds):
        tell("growing candidates, keys and rows", number / rounds)
        for size in dict.fromkeys(size for sizes in lines.values() for size in sizes):
            point = _measure(*(max(part // shrink, 10) for part in size))
            best[size] = min(best.get(size, point), point, key=lambda one: one.milliseconds)
    return {name: [best[size] for size in sizes] for name, sizes in lines.items()}


def growth(points: list[ScalingPoint], name: str) -> float:
    """The exponent of a power law through the points: 1 is linear, 0 is no growth at all."""
    sizes = np.log([getattr(point, name) for point in points])
    return float(np.polyfit(sizes, np.log([point.milliseconds for point in points]), 1)[0])


def write_report(found: dict[str, list[ScalingPoint]], folder: Path) -> Path:
    """A figure of three panels, and its numbers beside it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    folder.mkdir(parents=True, exist_ok=True)
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, constrained_layout=True)
    for panel, (name, points) in zip(panels, found.items(), strict=True):
        sizes = [getattr(point, name) for point in points]
        times = [point.milliseconds for point in points]
        panel.plot(sizes, times, "o-", color="#0b6e99", linewidth=1.8, markersize=5)
        slope, start = np.polyfit(sizes, times, 1)
        if name != "rows":
            panel.plot([0, max(sizes)], [start, start + slope * max(sizes)], "--", color="#999999", label="straight line")
            panel.legend(frameon=False, loc="upper left")
        panel.set(xlabel=name if name != "rows" else "rows of the request", ylim=(0, None))
        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
        titles = {"candidates": "linear in candidates", "keys": "linear in keys", "rows": "the same for any number of rows"}
        panel.set_title(titles[name], fontsize=10)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("one greedy step, ms")
    path = folder / "search-scaling.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    numbers = {name: [asdict(point) for point in points] for name, points in found.items()}
    (folder / "search-scaling.json").write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return path


def _measure(candidates: int, keys: int, rows: int, repeats: int = 15) -> ScalingPoint:
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        corpus, request, _ = synthetic(Path(folder), candidates=candidates, keys=keys, rows=rows)
        engine = Engine(corpus, request, SearchOptions(engine="threads"))
        train, _ = first_states(request)
        step_once(engine, train)
        best = float("inf")
        for _ in range(repeats):
            started = time.perf_counter()
            step_once(engine, train)
            best = min(best, time.perf_counter() - started)
    return ScalingPoint(candidates, keys, rows, best * 1e3)
