"""How fast a search step is, beside the loop a user would write today and beside what the memory can stream."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from saibot.estimate.moments import exact_moments
from saibot.search import Corpus, RequestKey, SearchOptions, SearchRequest
from saibot.search.engine import Engine
from saibot.search.greedy import first_states
from saibot.search.key_maps import view_id
from saibot.search.scored_sweep import order_by
from saibot.search.scoring import score
from saibot.search.shard import ShardRows
from saibot.search.state import State
from saibot.search.sweep import cores, on_threads, sweep
from saibot.sketch import KeyDomain


@dataclass(frozen=True)
class SearchBench:
    """Microseconds are of this run only; the ratios are what to compare."""

    candidates: int
    keys: int
    rows: int
    engine_us_per_candidate: float
    loop_us_per_candidate: float
    speedup: float
    bandwidth_fraction: float  # bytes of values swept once, per second, over stream_gb_per_s
    stream_gb_per_s: float  # the same values read and added up by numpy on all cores, as fast as memory gives them
    fastest_read_gb_per_s: float  # by compiled code; faster than memory where caches hold a good part of the values
    fraction_of_fastest_read: float
    float32_speedup: float  # of the sweep alone: seconds for the same candidates in float64, over those in float32
    fused_speedup: float  # seconds for a step that sweeps first and scores then, by numpy, over those of this one
    threads_speedup: float  # seconds on one core, over those on all

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_search(
    *, candidates: int, keys: int, rows: int, sample: int = 30, tell: Callable[[str, float | None], None]
) -> SearchBench:
    """One greedy step over a memory-mapped corpus; the loop merges and fits a sample of the same candidates."""
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        tell("writing the corpus", None)
        corpus, request, table = synthetic(Path(folder), candidates=candidates, keys=keys, rows=rows)
        engine = Engine(corpus, request, SearchOptions(engine="threads"))
        train, _ = first_states(request)
        values = corpus.shards(next(iter(corpus.key_ids)))[0].values
        tell("sweeping", None)
        step, streamed, fastest = _alternate(
            lambda: step_once(engine, train), lambda: _read(values, np.sum), lambda: _read(values, _compiled_sum())
        )
        narrow = values[: max(candidates // 2, 1)]
        wide, base = narrow.astype(np.float64), train.base(np.arange(keys + 1), keys + 1)
        tell("sweeping float64 values beside float32 ones", None)
        slow, quick = _alternate(
            lambda: _sweep(wide, base.linear, base.square), lambda: _sweep(narrow, base.linear, base.square)
        )
        tell("sweeping first and scoring then; on one core", None)
        apart, together = _alternate(lambda: _apart(values, train, keys), lambda: step_once(engine, train))
        alone, shared = _alternate(lambda: _on_one_core(lambda: step_once(engine, train)), lambda: step_once(engine, train))
        tell("looping, as one would today", None)
        loop = _loop(table, values, sample)
        return SearchBench(
            candidates=candidates,
            keys=keys,
            rows=rows,
            engine_us_per_candidate=step / candidates * 1e6,
            loop_us_per_candidate=loop * 1e6,
            speedup=loop / (step / candidates),
            bandwidth_fraction=streamed / step,
            stream_gb_per_s=values.nbytes / streamed / 1e9,
            fastest_read_gb_per_s=values.nbytes / min(fastest, streamed) / 1e9,
            fraction_of_fastest_read=min(fastest, streamed) / step,
            float32_speedup=slow / quick,
            fused_speedup=apart / together,
            threads_speedup=alone / shared,
        )


def step_once(engine: Engine, train: State) -> None:
    """A whole greedy step: model, sweep, solve, rank, pick. On a copy, as every step's model is a new one."""
    board = engine.board(replace(train), quantile=2.0)
    engine.group(int(board.order(50)[0]))[0].values()


def synthetic(
    folder: Path, *, candidates: int, keys: int, rows: int, seed: int = 0, shard: int | None = None
) -> tuple[Corpus, SearchRequest, dict[str, np.ndarray]]:
    """A corpus of one-feature candidates, at most `shard` of them in a file, and an exact request with two own features
    and a target, also as a table."""
    rng = np.random.default_rng(seed)
    domain = KeyDomain.of("bench", [f"k{i}" for i in range(keys)])
    key = RequestKey.product([("k", domain)])
    corpus = Corpus.create(folder / "corpus")
    effect = None
    for start in range(0, candidates, shard or candidates):
        part = _candidates(rng, start, min(shard or candidates, candidates - start), keys)
        corpus.add_rows(view_id([domain.keys_digest]), part)
        effect = part.values[0].copy() if effect is None else effect
    assert effect is not None
    places = rng.integers(0, keys, rows)
    own = rng.normal(size=(rows, 2))
    y = 0.5 * own[:, 0] + 0.2 * own[:, 1] + 0.3 * effect[places] + rng.normal(size=rows)
    moments = exact_moments(("x1", "x2", "y"), np.column_stack([own, y]), places, keys + 1)
    return corpus, SearchRequest(moments, None, "y", key), {"k": places, "x1": own[:, 0], "x2": own[:, 1], "y": y}


def _candidates(rng: np.random.Generator, start: int, count: int, keys: int) -> ShardRows:
    values = rng.standard_normal((count, keys + 1), np.float32)
    values[:, -1] = 0
    names = np.array([f"{i:064x}" for i in range(start, start + count)], dtype=object)
    text = {"digest": names, "dataset": names, "feature": np.full(count, "z", object), "unit": np.full(count, "", object)}
    numbers = {name: np.ones(count) for name in ("spread", "reliability", "scale", "rows")}
    return ShardRows(text, numbers | {name: np.zeros(count) for name in ("mean", "offset")}, values)


def _alternate(*works: Callable[[], None], repeats: int = 25) -> list[float]:
    """The shortest of several turns of each, in turns, so that a busy moment hits all alike."""
    best = [float("inf")] * len(works)
    for work in works:
        work()
    for _ in range(repeats):
        for number, work in enumerate(works):
            started = time.perf_counter()
            work()
            best[number] = min(best[number], time.perf_counter() - started)
    return best


def _apart(values: np.ndarray, train: State, keys: int) -> None:
    """The step without the compiled scores: moments of all candidates, then numpy on all of them."""
    base = replace(train).base(np.arange(keys + 1), keys + 1)
    found = score(*sweep(values, base.linear, base.square), base, quantile=2.0)
    np.argpartition(-order_by(found.gain, found.lower), min(50, len(values) - 1))


def _on_one_core(work: Callable[[], None]) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    cores.cache_clear()
    try:
        work()
    finally:
        os.sched_setaffinity(0, allowed)
        cores.cache_clear()


def _sweep(values: np.ndarray, linear: np.ndarray, square: np.ndarray) -> None:
    sweep(values, linear, square)


def _read(values: np.ndarray, add_up: Callable[[np.ndarray], Any]) -> None:
    """Every value read once, on all cores, and nothing done but adding them up."""
    parts = np.array_split(values.reshape(-1), cores())
    on_threads(lambda number: add_up(parts[number]), range(len(parts)))


@cache
def _compiled_sum() -> Callable[[np.ndarray], Any]:
    """A sum that keeps more reads under way than numpy's; numpy's own where numba is not installed."""
    try:
        import numba
    except ImportError:
        return np.sum

    @numba.njit(fastmath=True, nogil=True)
    def add_up(values: np.ndarray) -> Any:
        total = values.dtype.type(0)
        for place in range(len(values)):
            total += values[place]
        return total

    return add_up


def _loop(table: dict[str, np.ndarray], values: np.ndarray, sample: int) -> float:
    """Seconds per candidate of pandas merge and scikit-learn fit."""
    import pandas as pd
    from sklearn.linear_model import LinearRegression

    own, features = pd.DataFrame(table), ["x1", "x2", "z"]
    started = time.perf_counter()
    for number in range(sample):
        other = pd.DataFrame({"k": np.arange(values.shape[1]), "z": values[number]})
        joined = own.merge(other, on="k", how="left")
        model = LinearRegression().fit(joined[features], joined["y"])
        model.score(joined[features], joined["y"])
    return (time.perf_counter() - started) / sample
