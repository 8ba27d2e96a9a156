"""What is shown on a terminal: tables of anything, and results."""

from __future__ import annotations

import pytest

from saibot.report.terminal import BAR, LEAST_BAR, bar_letters, error_bar, print_table, show_result
from saibot.wire import Result


@pytest.mark.parametrize("name", ["a[/]b", "[bold]loud[/bold]", "[link=x]y", "back\\slash", ":smile:"])
def test_a_table_shows_names_as_they_are(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    print_table(f"title {name}", [f"head {name}"], [[name]])
    told = capsys.readouterr().out
    assert told.count(name) == 3


def test_a_table_prints_nothing_that_commands_the_terminal(capsys):
    print_table("a\x1b[2Jtitle", ["he\x07ad"], [["\x1b]0;pwned\x07cell \u202eright"], ["two\nlines"]])
    told = capsys.readouterr().out
    assert not set(told) & set("\x1b\x07\u202e") and "cell right" in told and "two" in told


def test_columns_that_must_stay_whole_are_never_broken(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    print_table("title", ["id", "name"], [["ds_0123456789abcdef", "a rather long name that has to give way"]], whole=(0,))
    assert "ds_0123456789abcdef" in capsys.readouterr().out


def test_a_table_without_headings_has_no_empty_line_for_them(capsys):
    print_table("facts", ["", ""], [["rows", "900"]])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.strip()] == [["facts"], ["rows", "900"]]


def test_a_title_is_as_wide_as_the_screen_whatever_its_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_table("a title that is longer than the few letters below it", ["n"], [["1"]])
    assert capsys.readouterr().out.splitlines()[0].rstrip() == "a title that is longer than the few letters below it"


def test_an_error_bar_stays_on_its_line():
    assert error_bar(0.0, 0.5, 1.0, 1.0) == "├" + "─" * (BAR // 2 - 1) + "●" + "─" * (BAR - BAR // 2 - 2) + "┤"
    assert len(error_bar(-0.1, 0.0, 2.0, 1.0)) == BAR
    assert len(error_bar(-0.1, 0.0, 2.0, 1.0, 9)) == 9


def test_error_bars_take_the_room_that_is_left_or_none():
    columns, rows = ["candidate", "gain"], [["dl-2013.dep_delay", "+0.012"]]  # 17 + 3 and 6 + 3 letters, edges 2
    assert [bar_letters(columns, rows, width) for width in (80, 45, 31 + LEAST_BAR, 30 + LEAST_BAR)] == [
        BAR,
        14,
        LEAST_BAR,
        0,
    ]


# ------------------------------------------------------------------------------------------------ results


def shown(document, capsys, *, candidates=10):
    show_result(Result.read(document, "it"), sketches=7, shown=candidates)
    return capsys.readouterr().out


def test_a_result_is_shown_with_its_ranking_its_steps_and_why_it_stopped(result_document, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    told = shown(result_document(candidates=20, steps=2), capsys)
    for expected in (
        "ua-flights-2013: 40,000 training rows, 18,000 held out; private request",
        "840 joins and 0 unions to choose from, of 7 sketches",
        "gain in R², the surest first",
        "agency-9-2013.precip",
        "agency-5-2013 (rows)",
        "2  + agency-1-2013.precip",
        "stopped: no gain is clear of its error.",
        "not taken: 820 because its gain is not clear of its error (a.b, c.d)",
    ):
        assert expected in told
    assert "agency-10-2013" not in told and "├" not in told


def test_a_wide_screen_has_error_bars(result_document, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    told = shown(result_document(candidates=20, steps=2), capsys)
    assert told.count("●") == 10 and "0 to 0.14" in told


def test_a_held_out_number_that_is_all_noise_is_shown_as_its_interval(result_document, capsys):
    document = result_document(candidates=3, steps=1)
    for model in (document["base"], document["steps"][0]):
        model |= {"test_r2": 0.987, "test_interval": [-1.0, 1.0]}
    told = shown(document, capsys)
    assert told.count("unclear (−1.00 to 1.00)") == 2 and "0.987" not in told


def test_a_search_that_found_nothing_shows_no_empty_table(result_document, capsys):
    told = shown(result_document(candidates=0, steps=0, held_out=False), capsys)
    assert "candidates by themselves" not in told and "own features" in told


def test_names_and_notes_of_strangers_do_not_command_the_terminal(result_document, capsys):
    document = result_document(candidates=3, steps=1, notes=["note\x1b[2J\nof two lines"], stopped="\x07soon")
    document["ranked"][0]["dataset"] = "a\x1b]0;pwned\x07b"
    document["steps"][0]["note"] = "on\x1b[31me"
    told = shown(document, capsys)
    assert not set(told) & set("\x1b\x07") and "note [2J of two lines" in told


def test_where_noise_leaves_the_potential_untold_its_cell_is_empty_and_says_so(result_document, capsys):
    document = result_document()
    first = document["ranked"][0] | {"potential": None, "potential_interval": None, "kind": "join", "gain": 0.4321}
    told = shown(document | {"rank": "potential", "ranked": [first, *document["ranked"][1:]]}, capsys)
    assert "too noisy to say" in told and "0.432" not in told


def test_a_narrow_screen_leaves_out_columns_and_breaks_no_name(result_document, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    document = result_document()
    name = "a-ministry-of-agriculture"
    document["ranked"] = [entry | {"dataset": name} for entry in document["ranked"]]
    told = shown(document, capsys)
    assert all(f"{name}.{entry['feature']}" in told for entry in document["ranked"] if entry["feature"])


def test_an_order_that_looks_wrong_is_explained(result_document, capsys):
    document = result_document()
    first, second, *_ = document["ranked"]
    told = [
        shown(document | {"rank": "usable", "ranked": [first | {"gain": a}, second | {"gain": b}]}, capsys)
        for a, b in ((0.3, 0.2), (0.2, 0.3))
    ]
    assert ["can stand further down" in one for one in told] == [False, True]
