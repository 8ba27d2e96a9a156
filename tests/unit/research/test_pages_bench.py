"""The pages' benchmark runs in small."""

from __future__ import annotations

import pytest

from research.benchmarks import pages, stock


def test_every_way_to_open_the_catalogue_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "REPEATED", 2)
    monkeypatch.setattr(stock, "DOMAINS", 2)
    found = pages.bench_pages(stored=40, candidates=20, tell=lambda stage, part: None)
    assert set(found.first_ms) == set(found.median_ms) == set(pages.WAYS)
    assert found.report_ms > 0 and min(found.median_ms.values()) > 0
