"""The benchmark of shared factors measures what it says."""

from __future__ import annotations

import pytest

from research.benchmarks.factors import bench_factors, bench_growth, write_growth


@pytest.mark.parametrize("groups", [0, 5])
def test_the_causes_that_were_made_up_are_found_within_little_memory(groups):
    found = bench_factors(tables=120, keys=100, groups=groups)
    assert found.rank == 3 and found.levels == (2 if groups else 1)
    assert min(found.readings_seconds, found.learn_seconds, found.apply_seconds, found.request_seconds) > 0
    assert found.peak_mb < found.tables_mb + 200


def test_growth_is_measured_and_drawn(tmp_path):
    found = bench_growth(shrink=25, tell=lambda stage, part: None)
    assert [size for size, _ in found["sketches"]] == [500, 1000, 2000, 4000] and all(s > 0 for _, s in found["keys"])
    assert write_growth(found, tmp_path).stat().st_size > 5000
