"""The search benchmark measures what it says, and writes its figure."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from research.benchmarks import memory
from research.benchmarks.scaling import ScalingPoint, bench_scaling, growth, write_report
from research.benchmarks.search import bench_search
from saibot.errors import InvalidInput


def test_one_run_gives_both_sides_and_their_ratio():
    found = bench_search(candidates=3000, keys=200, rows=2000, sample=5, tell=lambda stage, part: None)
    assert math.isclose(found.speedup, found.loop_us_per_candidate / found.engine_us_per_candidate)
    assert found.speedup > 100  # three orders of magnitude at full size; a tenth of that would be a broken engine
    assert 0 < found.bandwidth_fraction < 2
    assert found.fastest_read_gb_per_s >= found.stream_gb_per_s


def test_growth_reads_the_exponent_of_a_power_law():
    points = [ScalingPoint(n, 1, 1, 3.0 * n) for n in (10, 100, 1000)]
    assert abs(growth(points, "candidates") - 1) < 1e-9


def test_the_report_has_a_figure_and_its_numbers(tmp_path: Path):
    found = bench_scaling(shrink=50, rounds=2, tell=lambda stage, part: None)
    path = write_report(found, tmp_path)
    assert path.stat().st_size > 10_000
    assert (tmp_path / "search-scaling.json").exists()
    # At these small sizes overhead hides the slope, but rows must not matter: their sums are all the engine reads.
    assert growth(found["rows"], "rows") < 0.5


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="anonymous memory is counted by Linux only")
def test_a_step_needs_no_memory_of_its_own_for_a_larger_corpus(monkeypatch):
    """Values are mapped: what the process keeps for itself stays far below the corpus, so its size is the disk's."""
    monkeypatch.setattr(memory, "SHARD_BYTES", 10_000_000)
    for size in (30_000_000, 120_000_000):
        found = memory.bench_memory(corpus_bytes=size, keys=5000, tell=lambda stage, part: None)
        assert found.corpus_gb * 1e9 >= size and found.best_is_the_planted_one
        assert found.own_memory_mb < 15


def test_a_corpus_that_the_disk_cannot_hold_is_refused_before_it_is_written():
    with pytest.raises(InvalidInput, match="does not fit into"):
        memory.bench_memory(corpus_bytes=10**18, tell=lambda stage, part: None)
