"""The report: one HTML file of a result."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from saibot.errors import InvalidInput
from saibot.report.format import day
from saibot.report.html import report_html, whole_words, write_report
from saibot.report.result import view_result

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
    assert "url(" not in text and "@import" not in text and "http" not in text.replace("http-equiv", "")
    assert page.tags.count("svg") == 2 * 2, "each as wide as a page and as wide as a phone"
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
    assert ">held-out rows</text>" not in text and ">held-out rows</text>" in report_html(result_document())


def test_every_colour_of_a_drawing_has_a_rule_in_the_stylesheet(result_document: Make) -> None:
    text = report_html(result_document())
    drawn = set(re.findall(r'<(?:path|text|line|rect|g)[^>]* (?:fill|stroke)="(#[0-9a-f]{6})"', text))
    ruled = set(re.findall(r'\[(?:fill|stroke)="(#[0-9a-f]{6})"\]', text))
    assert drawn and drawn <= ruled


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


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no result of a search"):
        report_html({"format": "something"})


def test_a_report_says_the_day_it_was_made_and_how_sure_its_intervals_are(result_document: Make, tmp_path: Path) -> None:
    write_report(result_document(interval_confidence=0.8), tmp_path / "found.html")
    text = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert day(datetime.now(UTC)) in text
    assert "80 % interval" in text and "90 % interval" not in text


def test_a_report_is_written_as_html_or_not_at_all(result_document: Make, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"a report is an \.html file"):
        write_report(result_document(), tmp_path / "found.pdf")
    assert not list(tmp_path.iterdir())


def test_no_line_to_copy_ends_within_an_option() -> None:
    told = whole_words("saibot plan --card CARD.toml\nsaibot <b> " + "x-" * 30)
    assert "saibot plan <span>--card</span> CARD.toml\nsaibot &lt;b&gt; x-x-" in told
    assert re.sub("</?span>", "", told) == html.escape("saibot plan --card CARD.toml\nsaibot <b> " + "x-" * 30)


def test_each_chart_of_a_report_is_there_for_a_phone_too_and_a_phone_sees_that_one(result_document: Make) -> None:
    text = report_html(result_document())
    sizes = re.findall(r'<svg data-width="(broad|slim)"[^>]*?viewBox="0 0 (\d+)', text)
    assert [kind for kind, _ in sizes] == ["broad", "slim"] * (len(sizes) // 2) and sizes
    assert all((int(width) < 360) == (kind == "slim") for kind, width in sizes)
    style = text.partition("</style>")[0]
    assert "max-width: 40rem" in style and '[data-width="broad"]' in style and "min-width: 34rem" not in style
