"""The load test runs in small: everything it does is answered, and its figures are of what it did."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from research.benchmarks import platform, stock


def test_a_small_crowd_is_served_without_an_error(monkeypatch) -> None:
    monkeypatch.setattr(platform, "THINK", (0.01, 0.1))
    monkeypatch.setattr(platform, "REPEATED", 2)
    monkeypatch.setattr(stock, "DOMAINS", 2)
    monkeypatch.setattr(platform, "WEIGHTS", (26, 20, 10, 6, 8, 18, 5, 15, 10))
    with ThreadPoolExecutor(1) as alone:  # a browser test may have left an event loop in this thread
        work = alone.submit(platform.bench_platform, clients=4, seconds=4, stored=60, tell=lambda stage, part: None)
        found = work.result()
    assert found.errors == 0, found.statuses
    assert found.requests > 10 and found.published > 0
    assert set(found.p95_ms) >= {"list", "publish", "search"} and found.browsing_p95_ms > 0
    assert found.memory_mb > 0 and len(found.alone_p95_ms) > 10
