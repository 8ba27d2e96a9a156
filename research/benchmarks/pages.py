"""How fast the web pages answer with very many datasets, and how long a page with a large result takes to make."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from research.benchmarks.stock import fill
from saibot.client.in_process import running
from saibot.platform import Settings, create_app
from saibot.report.html import report_html
from saibot.report.result import view_result

REPEATED = 15
WAYS = {
    "first page": "/",
    "most rows first": "/?sort=rows",
    "strongest privacy first": "/?sort=epsilon",
    "by name": "/?sort=name",
    "common word": "/?q=north",
    "rare word": "/?q=000777",
    "key domain": "/?domain=places-3",
    "provider": "/?provider=agency-007",
    "feature and word": "/?feature=rain&q=old",
}


@dataclass(frozen=True)
class PagesBench:
    """Milliseconds of this machine."""

    stored: int
    first_ms: dict[str, float]  # the first time anybody asks: counts of the facets included
    median_ms: dict[str, float]
    candidates: int
    report_ms: float  # the whole offline report of a result with so many candidates, charts included

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_pages(*, stored: int = 100_000, candidates: int = 1000, tell: Callable[[str, float | None], None]) -> PagesBench:
    first, later = {}, {}
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        settings = Settings(data=Path(folder) / "data", log_level="error", read_burst=1_000_000)
        fill(settings, stored=stored, clients=1, tell=tell)
        with (
            running(create_app(settings)) as transport,
            httpx.Client(transport=transport, base_url="http://pages") as client,
        ):
            client.get("/sign-in").raise_for_status()  # templates are compiled once
            for name, path in WAYS.items():
                tell(f"opening pages: {name}", None)
                times = [_timed(client, path) for _ in range(1 + REPEATED)]
                first[name], later[name] = times[0], statistics.median(times[1:])
    tell("writing a large report", None)
    report_html(large_result(10))  # the drawing engine starts once
    started = time.perf_counter()
    report_html(view_result(large_result(candidates)).result)
    return PagesBench(stored, first, later, candidates, 1000 * (time.perf_counter() - started))


def large_result(candidates: int) -> dict[str, Any]:
    """A result document with so many candidates, the first three of them taken."""
    ranked = [
        {
            "kind": "join",
            "dataset": f"agency-{i:04d}",
            "digest": f"{i:064x}",
            "feature": "rain",
            "key": [{"part": "day", "level": None}],
            "gain": 0.2 / (i + 1),
            "interval": [0.2 / (i + 1) - 0.01, 0.2 / (i + 1) + 0.01],
            "coefficient": 1.0,
            "reliability": 0.5,
            "rows": 1000 + i,
            "note": "",
            "via": None,
        }
        for i in range(candidates)
    ]
    r2 = {"train_r2": 0.5, "test_r2": 0.5}
    return {
        "format": "saibot-result",
        "version": 1,
        "request": "bench",
        "target": "outcome",
        "private": True,
        "base": r2,
        "steps": [entry | r2 | {"column": f"{entry['dataset']}.rain"} for entry in ranked[:3]],
        "ranked": ranked,
        "dropped": [],
        "candidates": candidates,
        "stopped": "3 steps were taken, as asked",
        "rows": {"train": 1000, "test": 1000},
        "keys": [{"name": "day", "column": "day", "domains": [{"id": "day", "version": 1, "digest": ""}]}],
        "columns": [],
        "model": None,
        "notes": [],
    }


def _timed(client: httpx.Client, path: str) -> float:
    started = time.perf_counter()
    client.get(path).raise_for_status()
    return 1000 * (time.perf_counter() - started)
