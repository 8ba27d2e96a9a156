"""One greedy step on a GPU with the corpus resident: the same sweep and the same scoring as on a processor.

Needs torch with CUDA and numpy, nothing else: `PYTHONPATH=src python -m research.benchmarks.gpu` in a checkout.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

import numpy as np

from saibot.search.scoring import Base, score
from saibot.search.sweep import sweep


def synthetic_base(keys: int, *, rows_per_key: int = 20, seed: int = 0) -> Base:
    """A request with two own features and a target, exact, as the engine would build it."""
    rng = np.random.default_rng(seed)
    counts = np.full(keys, float(rows_per_key))
    own = rng.normal(size=(keys, 2)) * np.sqrt(rows_per_key)
    theta = np.array([0.5, 0.2])
    residual = rng.normal(size=keys) * np.sqrt(rows_per_key)
    n = counts.sum()
    return Base(
        inverse=np.diag([1 / n] * 3),
        theta=np.append(0.0, theta),
        tss=(1 + float(theta @ theta)) * n,
        count=n,
        residual_total=float(residual.sum()),
        weight_total=float((residual**2).sum()),
        rows_per_key=float(rows_per_key),
        keys=keys,
        linear=np.column_stack([counts, own, own @ theta + residual, residual**2]),
        square=np.column_stack([counts, residual**2]),
    )


def bench_gpu(*, candidates: int, keys: int, repeats: int = 20) -> dict[str, Any]:
    """Median milliseconds of a step, and how far it is from the same step in float64 on the processor."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    values = torch.randn(candidates, keys, device="cuda", dtype=torch.float32)
    base = synthetic_base(keys)

    def step() -> Any:
        scores = score(*sweep(values, base.linear, base.square), base, quantile=2.0)
        return torch.topk(scores.lower, 50), scores

    _, scores = step()
    chosen = torch.randint(0, candidates, (2000,))
    exact = score(*sweep(values[chosen].cpu().double().numpy(), base.linear, base.square), base, quantile=2.0)
    gain = scores.gain[chosen.cuda()].cpu().numpy()
    error = float(np.linalg.norm(gain - exact.gain) / np.linalg.norm(exact.gain))
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    copy = torch.empty_like(values)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    copy.copy_(values)
    end.record()
    torch.cuda.synchronize()
    moved = 2 * values.numel() * 4
    return {
        "device": torch.cuda.get_device_name(),
        "candidates": candidates,
        "keys": keys,
        "step_ms": statistics.median(times),
        "fastest_ms": min(times),
        "relative_error_of_gains": error,
        "copy_tb_per_s": moved / begin.elapsed_time(end) / 1e9,
        "read_fraction_of_copy_rate": (moved / 2 / statistics.median(times)) / (moved / begin.elapsed_time(end)),
    }


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:3]] or [1_000_000, 1000]
    print(json.dumps(bench_gpu(candidates=sizes[0], keys=sizes[1]), indent=2))
