"""Charts of what a sketch tells, and of what one would be worth."""

from __future__ import annotations

import pytest

from saibot.report.charts import sized
from saibot.report.picture import Picture
from saibot.report.sketch_charts import correlations, reliability


def test_shares_are_written_as_everywhere_and_the_title_fits_a_phone() -> None:
    kept = {"weak": 0.1, "moderate": 0.4, "strong": 0.75}
    spec = reliability([{"epsilon": 1.0, "reliability": kept}], 1.0)
    encoding = spec["layer"][1]["encoding"]
    assert "format" not in encoding["y"]["axis"], "of its own, it would write 75% beside 75 %"
    assert "'\u00a0%'" in encoding["y"]["axis"]["labelExpr"]
    assert all(len(line) < 30 for line in encoding["x"]["axis"]["title"])


def test_cells_of_correlations_are_square_and_names_above_them_straight_where_there_is_room() -> None:
    cell = {"value": 0.5, "error": 0.1}
    for names, width in (
        (["temp", "wind_speed", "precip"], 1000),
        ([f"feature_{n}" for n in range(8)], 700),
        (["a"] * 2, 320),
    ):
        spec = correlations(names, [[cell] * len(names)] * len(names))
        size, beside = sized(spec, width), spec["usermeta"]["beside"]
        assert size["height"] == pytest.approx(size["width"] - beside) and size["width"] <= width
    phone = sized(correlations([f"feature_{n}" for n in range(8)], [[cell] * 8] * 8), 300)
    assert phone["width"] == 300 and phone["height"] < 300
    few = correlations(["temp", "wind_speed", "precip"], [[cell] * 3] * 3)
    drawn = Picture(few | sized(few, 1000)).svg()
    assert "rotate(-35)" not in drawn and ">wind_speed<" in drawn
    many = correlations([f"a-long-name-of-{n}" for n in range(8)], [[cell] * 8] * 8)
    assert "rotate(-35)" in Picture(many | sized(many, 700)).svg()
