"""The result as it is shown, downloaded and printed."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from saibot.cli.report import check_report, write_report
from saibot.errors import InvalidInput
from saibot.platform.pages.charts import MOST_ROWS
from saibot.platform.pages.report import report_html
from saibot.platform.pages.result import file_name, result_csv, view_result

Make = Callable[..., dict[str, Any]]


class Seen(HTMLParser):
    """What a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset", "data")]


def test_the_report_runs_nothing_and_fetches_nothing(result_document: Make) -> None:
    page = Seen()
    text = report_html(result_document(), created="2026-03-05")
    page.feed(text)
    assert "script" not in page.tags and "link" not in page.tags and "form" not in page.tags
    assert page.addresses == []
    assert "url(" not in text and "@import" not in text
    assert page.tags.count("svg") == 2
    assert "5 March 2026" in text


def test_names_from_strangers_cannot_leave_their_place_in_the_report(result_document: Make) -> None:
    document = result_document(candidates=3, steps=1)
    document["ranked"][0]["dataset"] = "<img src=x onerror=alert(1)>"
    document["ranked"][1]["note"] = "</style><script>alert(1)</script>"
    page = Seen()
    page.feed(report_html(document))
    assert "img" not in page.tags and "script" not in page.tags


def test_a_held_out_number_that_is_all_noise_is_called_unclear_and_not_drawn(result_document: Make) -> None:
    document = result_document(candidates=3, steps=1)
    for model in (document["base"], document["steps"][0]):
        model |= {"test_r2": 0.987, "test_interval": [-1.0, 1.0]}
    text = report_html(document)
    assert text.count("unclear") == 2 and "0.987" not in text
    assert "held-out rows</li>" not in text and "held-out rows</li>" in report_html(result_document())


def test_every_colour_of_a_drawing_has_a_rule_in_the_stylesheet(result_document: Make) -> None:
    text = report_html(result_document())
    drawn = set(re.findall(r'<(?:path|text|line|rect|g)[^>]* (?:fill|stroke)="(#[0-9a-f]{6})"', text))
    ruled = set(re.findall(r'\[(?:fill|stroke)="(#[0-9a-f]{6})"\]', text))
    assert drawn and drawn <= ruled


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


def test_results_of_an_earlier_version_are_shown_without_the_newer_columns(result_document: Make) -> None:
    document = result_document(candidates=3, steps=1)
    for entry in (*document["ranked"], *document["steps"]):
        for name in ("potential", "potential_interval", "coefficient_interval", "coverage", "privacy_share", "features"):
            del entry[name]
    assert "Potential" not in report_html(document).split("How to read this")[0]


def test_a_search_that_found_nothing_says_so(result_document: Make) -> None:
    document = result_document(candidates=0, steps=0, held_out=False)
    view = view_result(document)
    assert view.gains_chart is None and view.path_chart is None
    assert "No published dataset" in view.headline
    assert "There was no candidate" in report_html(document)


def test_the_chart_stays_readable_with_a_thousand_candidates(result_document: Make) -> None:
    view = view_result(result_document(candidates=1000))
    assert view.gains_chart is not None
    assert len(view.gains_chart["data"]["values"]) == MOST_ROWS
    assert len(view.entries) == 1000


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


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no result of a search"):
        report_html({"format": "something"})


def test_the_command_writes_the_very_same_report(result_document: Make, tmp_path: Path) -> None:
    document = result_document()
    write_report(document, tmp_path / "found.html")
    day = datetime.now(UTC).date().isoformat()
    assert (tmp_path / "found.html").read_text(encoding="utf-8") == report_html(document, created=day)
    with pytest.raises(InvalidInput, match=r"--report writes \.html"):
        check_report(tmp_path / "found.pdf")
