"""How commands speak."""

from __future__ import annotations

import pytest

from saibot.cli.options import key_sizes
from saibot.cli.show import plural, print_table, progress
from saibot.errors import InvalidInput


@pytest.mark.parametrize("name", ["a[/]b", "[bold]loud[/bold]", "[link=x]y", "back\\slash", ":smile:"])
def test_a_table_shows_names_as_they_are(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    print_table(f"title {name}", [f"head {name}"], [[name]])
    told = capsys.readouterr().out
    assert told.count(name) == 3


def test_numbers_of_things_are_told_as_people_tell_them():
    assert [plural(count, "join") for count in (0, 1, 1200)] == ["0 joins", "1 join", "1,200 joins"]
    assert plural(1, "sketch", "sketches") == "1 sketch" and plural(2, "sketch", "sketches") == "2 sketches"


def test_key_sizes_are_whole_numbers():
    assert key_sizes("1500,32,5") == (1500, 32, 5) and key_sizes(None) == ()
    for bad in ("many", "10,,3", "0", "-4,2"):
        with pytest.raises(InvalidInput, match="whole numbers"):
            key_sizes(bad)


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


def test_progress_says_nothing_where_nobody_is_looking(capsys):
    with progress() as tell:
        tell("reading", 0.5)
    assert capsys.readouterr() == ("", "")
