"""One greedy step on a GPU with the corpus resident, beside reading the values once.

`saibot bench search --engine gpu`; or where little but torch is installed, `PYTHONPATH=src python -m research.benchmarks.gpu
1000000 1000` in a checkout.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from saibot.search.scoring import Base, score
from saibot.search.sweep import sweep

WARMING = 20  # turns that compile, fill caches and raise clocks before any is counted


def synthetic_base(keys: int, *, own: int = 2, rows_per_key: int = 20, seed: int = 0) -> Base:
    """A request with some own features and a target, exact, as the engine would build it."""
    rng = np.random.default_rng(seed)
    counts = np.full(keys, float(rows_per_key))
    features = rng.normal(size=(keys, own)) * np.sqrt(rows_per_key)
    theta = np.linspace(0.5, 0.2, own)
    residual = rng.normal(size=keys) * np.sqrt(rows_per_key)
    n = counts.sum()
    return Base(
        inverse=np.diag([1 / n] * (own + 1)),
        theta=np.append(0.0, theta),
        tss=(1 + float(theta @ theta)) * n,
        count=n,
        residual_total=float(residual.sum()),
        weight_total=float((residual**2).sum()),
        rows_per_key=float(rows_per_key),
        keys=keys,
        linear=np.column_stack([counts, features, features @ theta + residual, residual**2]),
        square=np.column_stack([counts, residual**2]),
    )


def bench_gpu(*, candidates: int, keys: int, repeats: int = 60) -> dict[str, Any]:
    """Median milliseconds of a step (request to the GPU, sweep, scores, the best 50 back), and what it is beside.

    Beside: reading all values once, and the same step in float64 on the processor, of which a sample is compared.
    """
    import torch

    from saibot.search.gpu import PADDED, DeviceColumn, score_on_gpu

    torch.manual_seed(0)
    values = torch.zeros(candidates, -(-keys // PADDED) * PADDED, device="cuda", dtype=torch.float32)
    for start in range(0, candidates, 1 << 17):
        part = values[start : start + (1 << 17), :keys]
        part.copy_(torch.randn(part.shape, device="cuda"))
    base = synthetic_base(keys)

    def step() -> np.ndarray:
        return DeviceColumn([score_on_gpu(values, base, quantile=2.0).column("rank")]).best(50)

    scores = score_on_gpu(values, base, quantile=2.0)
    chosen = torch.randint(0, candidates, (2000,), device="cuda")
    exact = score(*sweep(values[chosen, :keys].cpu().double().numpy(), base.linear, base.square), base, quantile=2.0)
    errors = {}
    for name in ("gain", "deviation", "coefficient"):
        there, here = scores.column(name)[chosen].cpu().double().numpy(), getattr(exact, name)
        errors[name] = float(np.linalg.norm(there - here) / np.linalg.norm(here))
    steps, reads = _milliseconds(step, repeats), _milliseconds(values.sum, repeats)
    return {
        "device": torch.cuda.get_device_name(),
        "candidates": candidates,
        "keys": keys,
        "step_ms": statistics.median(steps),
        "fastest_ms": min(steps),
        "read_once_ms": statistics.median(reads),
        "fraction_of_read_rate": statistics.median(reads) / statistics.median(steps),
        "relative_errors": errors,
    }


def _milliseconds(work: Callable[[], Any], repeats: int) -> list[float]:
    import torch

    times = []
    for attempt in range(repeats + WARMING):
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if attempt >= WARMING:
            times.append(begin.elapsed_time(end))
    return times


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:3]] or [1_000_000, 1000]
    print(json.dumps(bench_gpu(candidates=sizes[0], keys=sizes[1]), indent=2))
