"""Descriptions are strangers' text: formatted, and harmless."""

from __future__ import annotations

import pytest

from saibot.platform.pages.markdown import markdown_html, markdown_text


def test_text_lists_tables_and_links_are_formatted_below_the_headings_of_the_page() -> None:
    made = str(markdown_html("# Weather\n\nHourly, *measured*.\n\n- rain\n- wind\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
    for piece in ("<h3>Weather</h3>", "<em>measured</em>", "<li>rain</li>", "<td>1</td>"):
        assert piece in made
    link = str(markdown_html("[their site](https://example.org)"))
    assert 'href="https://example.org"' in link and 'rel="nofollow noopener noreferrer ugc"' in link


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[click](javascript:alert(1))",
        "[click](data:text/html,<script>alert(1)</script>)",
        "![seen](https://elsewhere.example/pixel.png)",
        '[a](https://x.example "\\" onmouseover=\\"alert(1)")',
        "<iframe src=//x>",
        "`<b>`</p><style>*{display:none}</style>",
    ],
)
def test_nothing_in_it_runs_or_loads(text: str) -> None:
    made = str(markdown_html(text)).lower()
    for bad in ("<script", "<img", "<iframe", "<style", 'href="javascript', 'href="data', 'onmouseover="'):
        assert bad not in made


def test_of_a_picture_its_words_are_left() -> None:
    assert (
        str(markdown_html("Seen: ![a <b>map</b>](https://x.example/a.png).")) == "<p>Seen: a &lt;b&gt;map&lt;/b&gt;.</p>\n"
    )
    assert markdown_text("![a map](https://x.example/a.png) of it") == "a map of it"


def test_headings_leave_out_no_level() -> None:
    made = str(markdown_html("### Deep\n\n# First\n\n#### Deeper\n\n# Second"))
    assert [piece[:2] for piece in made.split("<h")[1:]] == ["3>", "3>", "4>", "3>"]


def test_a_list_shows_the_words_alone() -> None:
    assert markdown_text("# Weather\n\nHourly, **measured** at [three](https://x.example) airports.") == (
        "Weather Hourly, measured at three airports."
    )
    assert markdown_text(None) == "" and str(markdown_html(None)) == ""
