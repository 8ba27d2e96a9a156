"""How much privatising costs beside the plain GROUP BY that it stands on."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import PlanRequest, make_plan
from saibot.privatize.aggregate import Rows, aggregate
from saibot.privatize.card import Card
from saibot.privatize.noise import ExactNoise, NoiseSource, OpenDPNoise
from saibot.privatize.read import open_table
from saibot.privatize.release import choose_grid
from saibot.privatize.schema import resolve_features, resolve_key

FEATURES = 4


@dataclass(frozen=True)
class PrivatizeBench:
    """Seconds are of this run only; the ratios are what to compare."""

    rows: int
    keys: int
    plain_seconds: float
    box_seconds: float
    norm_clip_seconds: float
    box_ratio: float
    norm_clip_ratio: float
    peak_memory_mb: float
    noise_us_per_value: float  # of a large release
    opendp_us_per_value: float  # of a small one
    noise_speedup: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_privatize(*, rows: int, keys: int, repeats: int = 5, tell: Callable[[str, float | None], None]) -> PrivatizeBench:
    """Exact aggregation from Parquet, with public bounds and with a norm clip, against the bare integer GROUP BY."""
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        path = Path(folder) / "table.parquet"
        tell("writing the table", None)
        _write(path, rows, keys)
        card = _card(keys)
        best = {"plain": float("inf"), "box": float("inf"), "clip": float("inf")}
        runs: dict[str, Callable[[], None]] = {
            "plain": lambda: _plain(path),
            "box": lambda: _ours(path, card, rows, Decimal(FEATURES)),
            "clip": lambda: _ours(path, card, rows, Decimal(1)),
        }
        for turn in range(repeats):  # in turns, so that a busy moment hits all of them alike
            for name, run in runs.items():
                tell(f"aggregating ({name})", turn / repeats)
                started = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - started)
    tell("drawing noise", None)
    opendp, bulk = _noise_us(OpenDPNoise(), 60_000), _noise_us(ExactNoise(), 2_000_000)
    return PrivatizeBench(
        rows=rows,
        keys=keys,
        plain_seconds=best["plain"],
        box_seconds=best["box"],
        norm_clip_seconds=best["clip"],
        box_ratio=best["box"] / best["plain"],
        norm_clip_ratio=best["clip"] / best["plain"],
        peak_memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        noise_us_per_value=bulk,
        opendp_us_per_value=opendp,
        noise_speedup=opendp / bulk,
    )


def _noise_us(noise: NoiseSource, count: int) -> float:
    """Microseconds a value, of many."""
    values = np.zeros(count, np.int64)
    noise.gaussian(values[:30_000], 2.0**40, lambda _: None)
    started = time.perf_counter()
    noise.gaussian(values, 2.0**40, lambda _: None)
    return (time.perf_counter() - started) / count * 1e6


def _write(path: Path, rows: int, keys: int) -> None:
    columns = ", ".join(f"(random() * 200 - 50)::DOUBLE AS x{i}" for i in range(FEATURES))
    with duckdb.connect() as db:
        db.execute("SET memory_limit = '1GB'")
        db.execute(
            f"COPY (SELECT 'key' || (random() * {keys})::INT % {keys} AS k, {columns} FROM range({rows})) "
            f"TO '{path}' (FORMAT parquet)"
        )


def _card(keys: int) -> Card:
    features = {f"x{i}": {"bounds": [-50, 150]} for i in range(FEATURES)}
    domain = {"values": [f"key{i}" for i in range(keys)], "id": "bench"}
    return Card.parse({"dataset": {"name": "bench"}, "features": features, "keys": {"k": {"column": "k", "domain": domain}}})


def _plain(path: Path) -> None:
    """The same sums over columns merely cast to integers: what the aggregation alone costs."""
    names = [f"x{i}" for i in range(FEATURES)]
    casts = ", ".join(f"x{i}::BIGINT AS x{i}" for i in range(FEATURES))
    sums = [f"sum({a})" for a in names] + [f"sum({a} * {b})" for i, a in enumerate(names) for b in names[i:]]
    with duckdb.connect() as db:
        query = f"SELECT k, count(*), {', '.join(sums)} FROM (SELECT k, {casts} FROM read_parquet('{path}')) GROUP BY k"
        db.execute(query).fetchall()


def _ours(path: Path, card: Card, rows: int, bound_squared: Decimal) -> None:
    key = resolve_key(card, "k")
    assert key is not None
    plan = make_plan(
        PlanRequest(
            mechanism="joint",
            layout="semiring",
            features=FEATURES,
            bound_squared=bound_squared,
            order=2,
            budget=Budget("1", "1e-6"),
            neighbours=Neighbours.REPLACE_ONE,
            row_count_public=True,
            allocation="alg2",
        )
    )
    prepared = Rows(open_table(path), resolve_features(card, ()), (), key, None, 1)
    aggregate(prepared, choose_grid(plan, most_rows=rows), order=2)
