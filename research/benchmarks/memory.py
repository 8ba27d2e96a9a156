"""A corpus larger than the machine's memory: it is searched all the same, and the process itself stays small.

Values are mapped, not loaded: what a sweep has read, the system may forget again. What the process needs for itself
(anonymous memory, which the system cannot forget) is a few numbers per candidate, whatever the number of keys.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from research.benchmarks.search import synthetic
from saibot.errors import InvalidInput
from saibot.search import SearchOptions
from saibot.search.engine import Engine
from saibot.search.greedy import first_states
from saibot.search.sweep import sweep

KEYS = 100_000
SHARD_BYTES = 256_000_000
BEYOND = 1.25  # times the memory there is


@dataclass(frozen=True)
class MemoryBench:
    """A greedy step over a corpus on disk."""

    corpus_gb: float
    memory_gb: float
    candidates: int
    keys: int
    step_seconds: float
    read_gb_per_s: float
    own_memory_mb: float  # what the step added to the process's anonymous memory, at its peak
    best_is_the_planted_one: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_memory(
    *, corpus_bytes: int | None = None, keys: int = KEYS, tell: Callable[[str, float | None], None]
) -> MemoryBench:
    """Write a corpus, by default larger than memory, and take one greedy step over it."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    wanted = corpus_bytes or int(BEYOND * memory)
    row = 4 * (keys + 1)
    candidates = -(-wanted // row)
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as name:
        folder = Path(name)
        free = shutil.disk_usage(folder).free
        if free < 1.05 * wanted:
            raise InvalidInput(
                f"a corpus of {wanted / 1e9:.3g} GB does not fit into {free / 1e9:.3g} GB of free disk.",
                hint="Set TMPDIR to a folder on a larger disk.",
            )
        tell(f"writing {wanted / 1e9:.3g} GB", None)
        corpus, request, _ = synthetic(
            folder, candidates=candidates, keys=keys, rows=20 * keys, shard=max(SHARD_BYTES // row, 1)
        )
        size = sum(file.stat().st_size for file in folder.rglob("*.arrow"))
        train, _ = first_states(request)
        engine = Engine(corpus, request, SearchOptions(engine="threads"))
        sweep(np.ones((8, 8), np.float32), np.ones((8, 5)), np.ones((8, 2)))  # compiled, or loaded, before it is measured
        tell("sweeping", None)
        with watched_memory() as peak:
            started = time.perf_counter()
            board = engine.board(replace(train), quantile=2.0)
            seconds = time.perf_counter() - started
        return MemoryBench(
            corpus_gb=size / 1e9,
            memory_gb=memory / 1e9,
            candidates=candidates,
            keys=keys,
            step_seconds=seconds,
            read_gb_per_s=size / seconds / 1e9,
            own_memory_mb=(max(peak) - peak[0]) / 1e6,
            best_is_the_planted_one=int(board.order(1)[0]) == 0,
        )


@contextmanager
def watched_memory(every: float = 0.002) -> Iterator[list[float]]:
    """Bytes of anonymous memory of this process: before, and again and again while the block runs."""
    seen = [_anonymous()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(every):
            seen.append(_anonymous())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()
        seen.append(_anonymous())


def _anonymous() -> float:
    """As Linux counts it; nan elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return float("nan")
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), float("nan"))
