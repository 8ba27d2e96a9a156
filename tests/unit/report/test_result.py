"""A result made ready to be shown: labels, steps, charts, and the file for spreadsheets."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from saibot.report.charts import MOST_ROWS
from saibot.report.html import report_html
from saibot.report.result import file_name, result_csv, view_result

Make = Callable[..., dict[str, Any]]


def test_steps_are_found_again_among_the_ranked_candidates(result_document: Make) -> None:
    view = view_result(result_document(candidates=10, steps=2))
    assert [entry.step for entry in view.entries[:3]] == [1, 2, None]
    assert [step.label for step in view.path][:2] == ["own features", "1. + agency-0-2013.temp"]


def test_two_providers_with_the_same_names_stay_two_rows_of_the_chart(result_document: Make) -> None:
    document = result_document(candidates=2, steps=0)
    document["ranked"][1] |= {"dataset": "agency-0-2013", "feature": "temp", "key": document["ranked"][0]["key"]}
    labels = [entry.label for entry in view_result(document).entries]
    assert labels == ["agency-0-2013.temp", "agency-0-2013.temp (2)"]


def test_features_that_were_taken_together_are_all_named(result_document: Make) -> None:
    document = result_document(candidates=2, steps=0)
    document["ranked"][0] |= {"feature": None, "features": ["temp", "precip"]}
    assert view_result(document).entries[0].label.startswith("agency-0-2013.temp, precip")


def test_the_csv_has_a_line_for_every_candidate_and_no_formulas(result_document: Make) -> None:
    document = result_document(candidates=12)
    document["ranked"][2]["feature"] = "=HYPERLINK(0)"
    lines = list(csv.DictReader(io.StringIO(result_csv(view_result(document)))))
    assert len(lines) == 12
    assert lines[2]["feature"] == "'=HYPERLINK(0)"
    assert float(lines[0]["gain"]) == document["ranked"][0]["gain"]
    assert lines[0]["step"] == "1" and lines[11]["step"] == ""


def test_file_names_hold_nothing_that_a_header_or_a_disk_could_trip_over(result_document: Make) -> None:
    document = result_document(target='a"b\r\nc/../ü')
    assert re.fullmatch(r"[A-Za-z0-9_-]+\.csv", file_name(view_result(document), ".csv"))


def test_the_chart_stays_readable_with_a_thousand_candidates(result_document: Make) -> None:
    view = view_result(result_document(candidates=1000))
    assert view.gains_chart is not None
    assert len(view.gains_chart["data"]["values"]) == MOST_ROWS
    assert len(view.entries) == 1000


@pytest.mark.parametrize("held_out, unclear", [(True, False), (True, True), (False, False)])
def test_the_large_numbers_of_a_page_are_those_of_the_first_and_the_last_row_of_its_steps(
    result_document: Make, held_out: bool, unclear: bool
) -> None:
    """In the column that the page says it measures by: held-out rows, or training rows where those say nothing."""
    document = result_document(steps=3, held_out=held_out)
    if unclear:
        document["steps"][-1] |= {"test_r2": 0.7, "test_interval": [-0.4, 1.0]}
    view = view_result(document)
    assert view.unclear == unclear
    page = report_html(document)
    large = re.findall(r'<div class="score(?: gained)?"><b>([^<]+)</b><span>R²', page)
    (steps,) = re.findall(r'aria-label="Table of steps".*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    rows = [re.findall(r'<td class="number">([^< ]+)', row) for row in steps.split("</tr>")[:-1]]
    column = 1 if held_out and not unclear else 0
    assert large == [rows[0][column], rows[-1][column]]
    assert ("Measured on held-out rows" in page) == (column == 1)
    drawn = view.path_chart
    assert drawn is not None
    kind = "held-out rows" if column == 1 else "training rows"
    filters = {layer["transform"][0]["filter"].partition(" && ")[0] for layer in drawn["layer"] if "transform" in layer}
    assert filters == {f"datum.rows == '{kind}'"}


def test_numbers_of_steps_stand_on_the_side_away_from_the_other_line_and_in_their_colour(result_document: Make) -> None:
    document = result_document(steps=2, held_out=True)
    drawn = view_result(document).path_chart
    assert drawn is not None and "title" not in drawn
    (colour,) = {
        layer["encoding"]["color"]["value"]
        for layer in drawn["layer"]
        if layer["mark"]["type"] == "text" and "stroke" not in layer["mark"]
    }
    assert colour == "@chart-second"
    rows = drawn["data"]["values"]
    training = {row["place"]: row["r2"] for row in rows if row["rows"] == "training rows"}
    for row in rows:
        assert row["left"] == (row["rows"] == "held-out rows" and row["r2"] < training[row["place"]])


def test_steps_that_gain_nothing_say_so(result_document: Make) -> None:
    document = result_document(steps=2, held_out=False)
    for model in (document["base"], *document["steps"]):
        model["train_r2"] = 0.5
    drawn = view_result(document).path_chart
    assert drawn is not None and drawn["title"]["text"] == "No further gain: R² stays at 0.500."
    low, high = drawn["encoding"]["x"]["scale"]["domain"]
    assert high - low >= 0.02, "and a thousandth is no leap"
