"""The sweep: one pass over a shard's values that gives every candidate its moments with the request.

For values Z (candidates x keys) it computes Z @ linear and (Z*Z) @ square (two columns): the only part of a search whose
cost grows with candidates times keys. Three ways to the same numbers: a fused kernel compiled by numba, which reads each
value once; blocked numpy on threads; and torch, for values that live on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

BLOCK = 1024  # candidates a thread takes at a time
GPU_BLOCK = 65_536


def sweep(values: Any, linear: np.ndarray, square: np.ndarray) -> tuple[Any, Any]:
    """Moments (N, p) and (N, q). On a GPU they stay there; otherwise they are float64 arrays."""
    if not isinstance(values, np.ndarray):
        return _sweep_torch(values, linear, square)
    compiled = _kernel()
    linear_rows, square_rows = _padded(linear.T, 4, values.dtype), _padded(square.T, 2, values.dtype)
    first = np.empty((len(values), len(linear_rows)), values.dtype)
    second = np.empty((len(values), len(square_rows)), values.dtype)

    def block(start: int) -> None:
        stop = min(start + BLOCK, len(values))
        if compiled is not None:
            compiled(values, linear_rows, square_rows, first, second, start, stop)
        else:
            part = values[start:stop]
            first[start:stop] = part @ linear_rows.T
            second[start:stop] = (part * part) @ square_rows.T

    _on_threads(block, range(0, len(values), BLOCK))
    return first[:, : linear.shape[1]].astype(np.float64), second[:, : square.shape[1]].astype(np.float64)


def _on_threads(work: Callable[[int], None], starts: range) -> None:
    workers = min(os.cpu_count() or 1, len(starts))
    if workers <= 1:
        for start in starts:
            work(start)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, starts))


def _padded(rows: np.ndarray, multiple: int, dtype: Any) -> np.ndarray:
    """Weights with as many rows as the kernel takes at a time; the added ones are 0."""
    padded = np.zeros((-(-len(rows) // multiple) * multiple, rows.shape[1]), dtype)
    padded[: len(rows)] = rows
    return padded


@cache
def _kernel() -> Callable[..., None] | None:
    """The fused kernel, or None where numba is not installed."""
    try:
        import numba
    except ImportError:
        return None

    @numba.njit(fastmath=True, nogil=True, cache=True)
    def fused(
        values: np.ndarray,
        linear: np.ndarray,
        square: np.ndarray,
        first: np.ndarray,
        second: np.ndarray,
        start: int,
        stop: int,
    ) -> None:
        keys = values.shape[1]
        zero = values[0, 0] * 0
        for i in range(start, stop, 2):
            # Two rows at a time share the weights that are loaded; an odd last row is its own partner.
            n = min(i + 1, stop - 1)
            # Four linear and two square columns on the first pass; the rows then are in the nearest cache.
            a0 = a1 = a2 = a3 = b0 = b1 = c0 = c1 = c2 = c3 = d0 = d1 = zero
            for k in range(keys):
                y, z = values[i, k], values[n, k]
                w0, w1, w2, w3 = linear[0, k], linear[1, k], linear[2, k], linear[3, k]
                v0, v1 = square[0, k], square[1, k]
                a0 += y * w0
                c0 += z * w0
                a1 += y * w1
                c1 += z * w1
                a2 += y * w2
                c2 += z * w2
                a3 += y * w3
                c3 += z * w3
                b0 += y * y * v0
                d0 += z * z * v0
                b1 += y * y * v1
                d1 += z * z * v1
            first[i, 0], first[i, 1], first[i, 2], first[i, 3] = a0, a1, a2, a3
            first[n, 0], first[n, 1], first[n, 2], first[n, 3] = c0, c1, c2, c3
            second[i, 0], second[i, 1], second[n, 0], second[n, 1] = b0, b1, d0, d1
            for j in range(4, linear.shape[0], 4):
                a0 = a1 = a2 = a3 = c0 = c1 = c2 = c3 = zero
                for k in range(keys):
                    y, z = values[i, k], values[n, k]
                    a0 += y * linear[j, k]
                    c0 += z * linear[j, k]
                    a1 += y * linear[j + 1, k]
                    c1 += z * linear[j + 1, k]
                    a2 += y * linear[j + 2, k]
                    c2 += z * linear[j + 2, k]
                    a3 += y * linear[j + 3, k]
                    c3 += z * linear[j + 3, k]
                first[i, j], first[i, j + 1], first[i, j + 2], first[i, j + 3] = a0, a1, a2, a3
                first[n, j], first[n, j + 1], first[n, j + 2], first[n, j + 3] = c0, c1, c2, c3

    return fused


def _sweep_torch(values: Any, linear: np.ndarray, square: np.ndarray) -> tuple[Any, Any]:
    import torch

    def weights(array: np.ndarray) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array), dtype=values.dtype, device=values.device)

    left, right = weights(linear), weights(square)
    firsts, seconds = [], []
    for start in range(0, len(values), GPU_BLOCK):  # squares of a block at a time: the whole would double the memory
        part = values[start : start + GPU_BLOCK]
        firsts.append(part @ left)
        seconds.append((part * part) @ right)
    return torch.cat(firsts).double(), torch.cat(seconds).double()
