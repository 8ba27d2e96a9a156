"""One greedy step by threads of this machine and by Spark, over the same corpus, in one run."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from research.benchmarks.search import synthetic
from saibot.search import SearchOptions
from saibot.search.board import WantedBest
from saibot.search.engine import Engine
from saibot.search.greedy import first_states
from saibot.spark_session import spark_context

SHARD_VALUES = 50_000_000  # of a file: 200 MB
SHOWN = 50


@dataclass(frozen=True)
class SparkBench:
    """Medians of warm steps; the ratios are what to compare."""

    candidates: int
    keys: int
    shards: int
    master: str
    cores: int
    threads_ms: float
    spark_ms: float
    empty_job_ms: float  # as many tasks that do nothing: what Spark itself takes
    spark_over_threads: float
    spark_beyond_empty_job_ms: float
    same_best: bool  # the first candidates, in the same order
    largest_difference: float  # of their gains, relative

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_spark(
    *,
    candidates: int,
    keys: int,
    rows: int,
    master: str | None = None,
    repeats: int = 15,
    tell: Callable[[str, float | None], None],
) -> SparkBench:
    """Steps of both in turns, so that a busy moment hits both alike; the first of each, which opens files, is left out."""
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        tell("writing the corpus", None)
        shard = max(min(SHARD_VALUES // keys, -(-candidates // 8)), 1)
        corpus, request, _ = synthetic(Path(folder), candidates=candidates, keys=keys, rows=rows, shard=shard)
        train, _ = first_states(request)
        tell("starting Spark", None)
        context = spark_context(master)
        here, there = (Engine(corpus, request, SearchOptions(engine=name)) for name in ("threads", "spark"))
        expected, found = (engine.best(train, WantedBest(SHOWN, 2.0)) for engine in (here, there))
        cores = int(context.defaultParallelism)
        tell("sweeping", None)
        works: dict[str, Callable[[], Any]] = {
            "threads": lambda: here.best(replace(train), WantedBest(SHOWN, 2.0)).groups[0][0].values(),
            "spark": lambda: there.best(replace(train), WantedBest(SHOWN, 2.0)).groups[0][0].values(),
            "empty": lambda: context.parallelize(range(cores), cores).map(abs).collect(),
        }
        times = _in_turns(works, repeats)
        return SparkBench(
            candidates=candidates,
            keys=keys,
            shards=-(-candidates // shard),
            master=str(context.master),
            cores=cores,
            threads_ms=times["threads"],
            spark_ms=times["spark"],
            empty_job_ms=times["empty"],
            spark_over_threads=times["spark"] / times["threads"],
            spark_beyond_empty_job_ms=times["spark"] - times["empty"],
            same_best=[group[0].digest for group in expected.groups] == [group[0].digest for group in found.groups],
            largest_difference=float(np.max(np.abs(found.board.gain / expected.board.gain - 1))),
        )


def _in_turns(works: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The median milliseconds of each, after some turns that are not counted: every process of Spark's opens files once."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 5):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            if turn >= 5:
                times[name].append(1000 * (time.perf_counter() - started))
    return {name: statistics.median(found) for name, found in times.items()}
