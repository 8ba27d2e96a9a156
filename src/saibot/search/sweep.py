"""The sweep: one pass over a shard's values that gives every candidate its moments with the request.

For values Z (candidates x keys) it computes Z @ linear and (Z*Z) @ square (two columns): the only part of a search whose
cost grows with candidates times keys. Two ways to the same numbers: a fused kernel compiled by numba, which reads each value
once, and blocked numpy; both on threads. Values that live on a GPU are swept and scored there (`saibot.search.gpu`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

LEAST_BLOCK, MOST_BLOCK = 256, 8192  # candidates a thread takes at a time
MOST_AT_ONCE = 1 << 18  # numbers of normal columns that are scaled in one go: of very many keys there should be no copies


def sweep(values: np.ndarray, linear: np.ndarray, square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moments (N, p) and (N, q), float64."""
    values = values.view()
    values.flags.writeable = False  # mapped values are read-only anyway; so one compiled kernel serves all
    fused, rows = _kernel()
    linear_rows, linear_size = normal_weights(linear, rows(linear.shape[1]), values.dtype)
    square_rows, square_size = normal_weights(square, square.shape[1], values.dtype)
    # A moment's numbers lie side by side, candidate after candidate: that is how scoring reads them.
    first = np.empty((len(linear_rows), len(values)))
    second = np.empty((len(square_rows), len(values)))

    # Several blocks for every core, so that one core held up by others' work does not hold up the sweep.
    size = min(max(-(-len(values) // (4 * cores())), LEAST_BLOCK), MOST_BLOCK)

    def block(start: int) -> None:
        fused(values, linear_rows, square_rows, first, second, start, min(start + size, len(values)))

    on_threads(block, range(0, len(values), size))
    first, second = first[: linear.shape[1]], second[: square.shape[1]]
    first *= linear_size
    second *= square_size
    return first.T, second.T


def normal_weights(columns: np.ndarray, count: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The columns as rows of largest entry 1, so that their products fit into float32, then rows of 0 up to `count`;
    and what each moment must be multiplied by in the end."""
    if columns.size > MOST_AT_ONCE:
        sizes = [max(float(column.max()), -float(column.min())) or 1.0 for column in columns.T]
        rows = np.zeros((count, len(columns)), dtype)
        for row, column, largest in zip(rows, columns.T, sizes, strict=False):
            row[:] = column / largest
        return rows, np.array(sizes)[:, None]
    given = np.ascontiguousarray(columns.T)
    size = np.abs(given).max(axis=1, keepdims=True, initial=0.0)
    size[size == 0] = 1.0
    rows = np.zeros((count, len(columns)), dtype)
    rows[: len(given)] = given / size
    return rows, size


def on_threads(work: Callable[[int], None], items: Iterable[int]) -> None:
    """Every item worked on once, by this thread and those of the pool: whoever is free takes the next."""
    left = deque(items)

    def drain() -> None:
        while True:
            try:
                item = left.popleft()
            except IndexError:
                return
            work(item)

    helpers = [_pool().submit(drain) for _ in range(min(cores(), len(left)) - 1)]
    drain()
    for helper in helpers:
        if not helper.cancel():  # one that has not begun by now, behind another search's, has nothing left to do
            helper.result()


@cache
def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    """One pool for all sweeps: starting threads takes as long as a small sweep."""
    return ThreadPoolExecutor(max(cores() - 1, 1), thread_name_prefix="saibot-sweep")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


@cache
def _kernel() -> tuple[Callable[..., None], Callable[[int], int]]:
    """What sweeps a block, and how many rows of weights it wants for so many columns."""
    try:
        from saibot.search import kernel
    except ImportError:  # numba is an extra
        return _in_numpy, lambda columns: columns
    return kernel.fused, kernel.rows


def _in_numpy(
    values: np.ndarray,
    linear: np.ndarray,
    square: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    start: int,
    stop: int,
) -> None:
    part = values[start:stop]
    first[:, start:stop] = linear @ part.T
    second[:, start:stop] = square @ (part * part).T
