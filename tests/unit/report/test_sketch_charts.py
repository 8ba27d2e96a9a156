"""Charts of what a sketch tells, and of what one would be worth."""

from __future__ import annotations

from saibot.report.sketch_charts import reliability


def test_shares_are_written_as_everywhere_and_the_title_fits_a_phone() -> None:
    kept = {"weak": 0.1, "moderate": 0.4, "strong": 0.75}
    spec = reliability([{"epsilon": 1.0, "reliability": kept}], 1.0)
    encoding = spec["layer"][1]["encoding"]
    assert "format" not in encoding["y"]["axis"], "of its own, it would write 75% beside 75 %"
    assert "'\u00a0%'" in encoding["y"]["axis"]["labelExpr"]
    assert all(len(line) < 30 for line in encoding["x"]["axis"]["title"])
