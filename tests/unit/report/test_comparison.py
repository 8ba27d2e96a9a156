"""Two results side by side: what differs, and by more than noise."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest

from saibot.report.compare_terminal import comparison_document, show_comparison
from saibot.report.comparison import SideBySide, asked_words, compare_views
from saibot.report.html import comparison_html
from saibot.report.notebook import compared_html
from saibot.report.picture import comparison_picture
from saibot.report.result import view_result
from tests.unit.report.test_exploring import COLUMN, MODEL
from tests.unit.report.test_html import Seen

Make = Callable[..., dict[str, Any]]


def compared(first: dict[str, Any], second: dict[str, Any], names: tuple[str, str] | None = ("A", "B")) -> SideBySide:
    return compare_views(view_result(first), view_result(second), names)


@pytest.fixture
def pair(result_document: Make) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same question, asked again: one gain has grown beyond doubt, a dataset has come, another has gone."""
    first, second = (result_document(candidates=4, steps=1, model=MODEL, columns=[COLUMN]) for _ in range(2))
    second["ranked"][1] |= {"gain": 0.5, "interval": [0.4, 0.6], "digest": "f" * 64}
    second["ranked"][3] |= {"dataset": "newcomer"}
    second["steps"][0] |= {"test_r2": 0.5}
    return first, second


def test_the_headline_names_the_better_one_and_facts_that_differ_come_first(pair: Any) -> None:
    found = compared(*pair)
    assert found.headline == "B explains arr_delay better: R² 0.500 against 0.360."
    differing = [row[0] for row in found.facts if row[1] != row[2]]
    assert differing == ["R² after the last step"] and found.facts[0][0] == differing[0] and found.caution == ""
    assert compared(pair[1], pair[0]).headline.startswith("A explains")
    assert "equally well" in compared(pair[0], pair[0]).headline


def test_candidates_meet_by_name_and_differ_where_their_intervals_do_not_meet(pair: Any) -> None:
    found = compared(*pair)
    by_label = {one.label: one for one in found.pairs}
    changed = by_label["agency-1-2013.precip by day"]
    assert changed.differs and changed.other_version and changed.difference == pytest.approx(0.5 - 0.102)
    same = by_label["agency-0-2013.temp by day.month"]
    assert not same.differs and not same.other_version and same.difference == 0
    assert by_label["newcomer.visib by day.month"].first is None
    assert by_label["agency-3-2013.visib by day.month"].second is None
    assert found.pairs[0] is changed, "the largest gain comes first"
    assert found.pairs_sentence == "Of 3 that both rank, 1 has gains whose intervals do not meet."
    rows = {row[0]: row for row in found.pair_rows}
    assert rows["agency-1-2013.precip by day (another version)"][3] == "+0.398 *"
    assert rows["agency-0-2013.temp by day.month"][4] == "A, step 1 and B, step 1"


def test_results_about_different_targets_are_not_compared_gain_by_gain(pair: Any) -> None:
    found = compared(pair[0], pair[1] | {"target": "dep_delay"})
    assert "different targets" in found.headline and found.differing == 0 and found.effects_chart is None
    assert {row[3] for row in found.pair_rows} == {"–"}


def test_what_keeps_two_numbers_from_being_comparable_is_said(pair: Any, result_document: Make) -> None:
    unheld = result_document(candidates=4, steps=1, held_out=False)
    assert "flatters" in compared(pair[0], unheld).caution
    assert "different numbers of rows" in compared(pair[0], pair[1] | {"rows": {"train": 5, "test": 6}}).caution
    alike = unheld | {"rows": unheld["rows"] | {"test": 77}}
    assert compared(unheld, alike).caution == "", "both are measured on the same training rows"


def test_a_search_is_told_from_others_by_features_budget_and_rows(pair: Any) -> None:
    told = asked_words(view_result(pair[0]))
    assert told.startswith("by ") and " · with " in told and told.endswith(f" · {pair[0]['rows']['train']:,} rows")


def test_charts_have_a_row_for_both_and_tell_them_apart_without_colour(pair: Any) -> None:
    found = compared(*pair)
    assert found.gains_chart is not None and found.effects_chart is not None
    rows = found.gains_chart["data"]["values"]
    assert len(rows) == 8 and {row["which"] for row in rows} == {"A", "B"}
    shapes = found.gains_chart["layer"][2]["encoding"]["shape"]["scale"]
    assert shapes == {"domain": ["A", "B"], "range": ["circle", "diamond"]}
    stages = found.steps_chart["data"]["values"]
    assert [(row["which"], row["step"], row["told"]) for row in stages] == [
        ("A", 0, "0.290"), ("A", 1, "0.360"), ("B", 0, "0.290"), ("B", 1, "0.500"),
    ]  # fmt: skip


def test_files_of_a_comparison_run_nothing_and_names_of_strangers_stay_names(pair: Any) -> None:
    first, second = pair
    second["ranked"][2]["dataset"] = "=SUM(B1)</script><img src=x>"
    found = compared(first, second, ("<b>one</b>", "two"))
    page = Seen()
    text = comparison_html(found, created="2026-03-05")
    page.feed(text)
    assert "img" not in page.tags and "script" not in page.tags and page.addresses == [] and page.tags.count("svg") == 2 * 3
    assert "<b>one</b>" not in text and "<b>one</b>" not in compared_html(found)
    lines = list(csv.reader(io.StringIO(found.csv())))
    assert len(lines) == 7 and any(line[0].startswith("'=SUM") for line in lines)
    assert comparison_picture(found).svg().startswith("<svg")
    assert found.file_name(".html") == "saibot-ua-flights-2013-beside-ua-flights-2013.html"


def test_two_of_one_name_are_told_apart(pair: Any) -> None:
    assert compared(*pair, None).names == ("ua-flights-2013 (first)", "ua-flights-2013 (second)")


def test_a_terminal_and_a_document_have_the_same(pair: Any, capsys: Any, result_document: Make) -> None:
    found = compared(*pair)
    show_comparison(found, shown=2)
    told = capsys.readouterr().out
    assert found.headline in told and "+0.398 *" in told and "newcomer" not in told and "They have a star" in told
    document = comparison_document(found)
    assert [one["what"] for one in document["differences"]] == ["R² after the last step"]
    assert document["candidates"][0]["intervals_meet"] is False and document["r2"][1]["after"] == 0.5
    empty = result_document(candidates=0, steps=0)
    show_comparison(compared(empty, empty), shown=5)
    assert "no candidate in common" in compared(empty, empty).pairs_sentence
    assert "Neither search had a candidate" in comparison_html(compared(empty, empty))
