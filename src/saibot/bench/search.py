"""How fast a search step is, beside the loop a user would write today and beside what the memory can stream."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saibot.estimate.moments import exact_moments
from saibot.search import Corpus, RequestKey, SearchOptions, SearchRequest
from saibot.search.engine import Engine
from saibot.search.greedy import first_states
from saibot.search.shard import ShardRows
from saibot.search.state import State
from saibot.search.views import view_id
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
    bandwidth_fraction: float
    stream_gb_per_s: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_search(
    *, candidates: int, keys: int, rows: int, sample: int = 30, tell: Callable[[str, float | None], None]
) -> SearchBench:
    """One greedy step over a memory-mapped corpus; the loop merges and fits a sample of the same candidates."""
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        tell("writing the corpus", None)
        corpus, request, table = synthetic(Path(folder), candidates=candidates, keys=keys, rows=rows)
        engine = Engine(corpus, request, SearchOptions(device="cpu"))
        train, _ = first_states(request)
        values = corpus.shards(next(iter(corpus.key_ids)))[0].values
        tell("sweeping", None)
        step, streamed = _alternate(lambda: step_once(engine, train), lambda: _stream(values))
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
        )


def step_once(engine: Engine, train: State) -> None:
    """A whole greedy step: sweep, solve, rank, pick."""
    board = engine.board(train, quantile=2.0)
    engine.candidate(int(board.order(50)[0])).values()


def synthetic(
    folder: Path, *, candidates: int, keys: int, rows: int, seed: int = 0
) -> tuple[Corpus, SearchRequest, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """A corpus of one-feature candidates and an exact request with one own feature and a target."""
    rng = np.random.default_rng(seed)
    domain = KeyDomain.of("bench", [f"k{i}" for i in range(keys)])
    key = RequestKey.product([("k", domain)])
    values = rng.normal(size=(candidates, keys + 1)).astype(np.float32)
    values[:, -1] = 0
    names = np.array([f"{i:064x}" for i in range(candidates)], dtype=object)
    ones = np.ones(candidates)
    numbers = {name: ones for name in ("spread", "reliability", "scale")} | {
        "mean": 0 * ones,
        "offset": 0 * ones,
        "rows": rows * ones,
    }
    text = {
        "digest": names,
        "dataset": names,
        "feature": np.full(candidates, "z", object),
        "unit": np.full(candidates, "", object),
    }
    corpus = Corpus.create(folder / "corpus")
    corpus.add_rows(view_id([domain.keys_digest]), ShardRows(text, numbers, values))
    places = rng.integers(0, keys, rows)
    x = rng.normal(size=rows)
    y = 0.5 * x + 0.3 * values[0, places] + rng.normal(size=rows)
    moments = exact_moments(("x", "y"), np.column_stack([x, y]), places, keys + 1)
    return corpus, SearchRequest(moments, None, "y", key), (places, x, y)


def _alternate(step: Callable[[], None], stream: Callable[[], float], repeats: int = 9) -> tuple[float, float]:
    """Best of several turns of each, in turns, so that a busy moment hits both alike."""
    step()
    best_step = best_stream = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        step()
        best_step = min(best_step, time.perf_counter() - started)
        best_stream = min(best_stream, stream())
    return best_step, best_stream


def _stream(values: np.ndarray) -> float:
    """Seconds to read every value once, on all cores, doing nothing but adding them up."""
    flat = values.reshape(-1)
    parts = np.array_split(flat, os.cpu_count() or 1)
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(np.sum, [part[:1] for part in parts]))
        started = time.perf_counter()
        list(pool.map(np.sum, parts))
        return time.perf_counter() - started


def _loop(table: tuple[np.ndarray, np.ndarray, np.ndarray], values: np.ndarray, sample: int) -> float:
    """Seconds per candidate of pandas merge and scikit-learn fit."""
    import pandas as pd
    from sklearn.linear_model import LinearRegression

    places, x, y = table
    own = pd.DataFrame({"k": places, "x": x, "y": y})
    started = time.perf_counter()
    for number in range(sample):
        other = pd.DataFrame({"k": np.arange(values.shape[1]), "z": values[number]})
        joined = own.merge(other, on="k", how="left")
        model = LinearRegression().fit(joined[["x", "z"]], joined["y"])
        model.score(joined[["x", "z"]], joined["y"])
    return (time.perf_counter() - started) / sample
