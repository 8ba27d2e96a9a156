"""What a search step costs, fitted to measured times, and what corpora of any size need by that.

`python -m research.benchmarks.capacity threads` (or gpu) measures this machine and prints the fit as JSON;
`python -m research.benchmarks.capacity plan FIT.json` prints the table of docs/explanation/capacity.md.

The model: seconds of a step = start + by_candidate N + by_value N K + by_feature N K max(p - 2, 0), for N candidates (one
for each feature of each dataset), K keys and p own features. All four are at least 0; relative errors are kept small.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from research.benchmarks.gpu import synthetic_base

SIZES = ((1_000, 100, 2), (20_000, 100, 2), (100_000, 100, 2), (2_000, 1000, 2), (20_000, 1000, 2), (60_000, 1000, 2),
         (4_000, 10_000, 2), (20_000, 1000, 8), (2_000, 10_000, 8))  # fmt: skip
MORE_ON_GPU = ((1_000_000, 100, 2), (1_000_000, 1000, 2), (1_000_000, 1000, 8), (10_000_000, 1000, 2))
DATASETS, FEATURES, KEYS = (10**5, 10**7, 10**9), 5, 1000  # of the plan: features of a dataset, keys of a domain
MEMORY = {"threads": 200e9, "gpu": 120e9}  # bytes for values on one machine: of 256 GB, and of a GPU's 139 GiB


@dataclass(frozen=True)
class StepCost:
    """Seconds; `worst` is the largest relative error of the fit on what was measured."""

    engine: str
    start: float
    by_candidate: float
    by_value: float
    by_feature: float
    worst: float
    measured: list[dict[str, Any]]

    def seconds(self, candidates: float, keys: float, own: float) -> float:
        values = candidates * keys
        return (
            self.start + self.by_candidate * candidates + self.by_value * values + self.by_feature * values * max(own - 2, 0)
        )


def fitted(engine: str, measured: Sequence[tuple[int, int, int, float]]) -> StepCost:
    """The cost that fits measured (candidates, keys, own features, seconds), in relative least squares."""
    from scipy.optimize import nnls

    n, k, p, seconds = (np.array(column, dtype=float) for column in zip(*measured, strict=True))
    design = np.column_stack([np.ones(len(n)), n, n * k, n * k * np.maximum(p - 2, 0)]) / seconds[:, None]
    size = design.max(axis=0)
    start, by_candidate, by_value, by_feature = (float(one) for one in nnls(design / size, np.ones(len(n)))[0] / size)
    rows = [dict(zip(("candidates", "keys", "own", "seconds"), one, strict=True)) for one in measured]
    cost = StepCost(engine, start, by_candidate, by_value, by_feature, worst=0.0, measured=rows)
    return replace(cost, worst=float(max(abs(cost.seconds(*one[:3]) / one[3] - 1) for one in measured)))


def on_threads(candidates: int, keys: int, own: int) -> float:
    """Seconds of a step on the processor: sweep, scores, the best 50."""
    from saibot.search.scored_sweep import best, scored_sweep

    values = np.random.default_rng(0).standard_normal((candidates, keys), np.float32)
    base = synthetic_base(keys, own=own)
    return _quickest(lambda: best(scored_sweep(values, base, quantile=2.0).rank, 50))


def on_gpu(candidates: int, keys: int, own: int) -> float:
    """The same where the values are in a GPU's memory."""
    import torch

    from saibot.search.gpu import PADDED, DeviceColumn, score_on_gpu

    values = torch.zeros(candidates, -(-keys // PADDED) * PADDED, device="cuda")
    for start in range(0, candidates, 1 << 17):
        values[start : start + (1 << 17), :keys].normal_()
    base = synthetic_base(keys, own=own)
    return _quickest(lambda: DeviceColumn([score_on_gpu(values, base, quantile=2.0).column("rank")]).best(50))


def _quickest(work: Callable[[], Any], *, turns: int = 15) -> float:
    """Others' work can only make a turn longer."""
    work()
    best = math.inf
    for _ in range(turns):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def planned(costs: Sequence[StepCost]) -> str:
    """A table in Markdown: datasets, bytes, and for every engine machines and seconds of a step."""
    lines = [
        "| datasets | candidates | values in float32 |" + "".join(f" {one.engine}: machines, a step |" for one in costs)
    ]
    lines.append("|---" * (3 + len(costs)) + "|")
    for datasets in DATASETS:
        candidates = datasets * FEATURES
        size = 4 * candidates * KEYS
        cells = [f"10^{round(math.log10(datasets))}", f"{candidates:,}", f"{size / 1e9:,.0f} GB"]
        for cost in costs:
            machines = math.ceil(size / MEMORY[cost.engine])
            seconds = cost.seconds(candidates / machines, KEYS, 2)
            cells.append(f"{machines:,}, {seconds:.2g} s" if seconds >= 1 else f"{machines:,}, {seconds * 1e3:.2g} ms")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(words: Sequence[str]) -> None:
    what = words[0] if words else "threads"
    if what == "plan":
        print(planned([StepCost(**json.loads(Path(file).read_text(encoding="utf-8"))) for file in words[1:]]))
    elif what in ("threads", "gpu"):
        sizes, measure = ((*SIZES, *MORE_ON_GPU), on_gpu) if what == "gpu" else (SIZES, on_threads)
        print(json.dumps(asdict(fitted(what, [(*size, measure(*size)) for size in sizes])), indent=2))
    else:
        raise SystemExit("usage: python -m research.benchmarks.capacity threads | gpu | plan FIT.json ...")


if __name__ == "__main__":
    main(sys.argv[1:])
