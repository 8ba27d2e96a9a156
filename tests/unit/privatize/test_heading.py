"""Whether a first line holds names: cells of a row that are taken for names become public with the card."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from saibot.errors import InvalidTable
from saibot.privatize.heading import read_names, why_no_names
from saibot.privatize.read import open_table

NUMBERS = ["7", "-7", "3.14", ".5", "1e-6", "1,234.50", "1 234", "12%", "0x1F", "2013", "+1"]
TIMES = [
    *("2013-01-30", "30.1.2013", "1/30/13", "2013-01-30T10:15:00Z", "2013-01-30 10:15", "20130130T101500Z"),
    *("10:30", "10:30:05.25", "10:30 pm", "30 January 2013", "Jan 30, 2013", "1st May", "Jan 2013", "3-Mar-2013"),
]
OTHERS = [
    ("", "empty"),
    ("  ", "empty"),
    *((text, "a truth value") for text in ("true", "False", "YES", "no")),
    *((text, "missing") for text in ("NA", "n/a", "NaN", "null", "None")),
    *((text, "without a letter") for text in ("$5", "-", "?", "(555) 123-456", "#4711", "€ 3.50")),
    *((text, "an address") for text in ("anna@clinic.org", "https://a.org/b", "550e8400-e29b-41d4-a716-446655440000")),
]
NAMES = [
    *(
        "x",
        "y",
        "t",
        "n",
        "x1",
        "Q1",
        "PC3",
        "age (years)",
        "income_2013",
        "2013_income",
        "1st_floor",
        "3pt_pct",
        "may",
        "date",
    ),
    *(
        "Marriage 12",
        "temp °C",
        "größe",
        "名前",
        "is_true",
        "no.",
        "e10",
        "name@work",
        "%_late",
        "nano",
        "nonesuch",
        "truth",
    ),
]


@pytest.mark.parametrize("cell", NUMBERS)
def test_a_number_is_no_name(cell: str) -> None:
    assert why_no_names(["ward", cell]) == "its 2nd cell is a number"


@pytest.mark.parametrize("cell", TIMES)
def test_a_date_or_a_time_is_no_name(cell: str) -> None:
    assert why_no_names([cell, "ward"]) == "its 1st cell is a date or a time"


@pytest.mark.parametrize("cell, kind", OTHERS)
def test_what_else_no_column_is_called(cell: str, kind: str) -> None:
    reason = why_no_names(["ward", "bed", cell])
    assert reason is not None and reason.startswith("its 3rd cell is") and kind in reason


@pytest.mark.parametrize("name", NAMES)
def test_what_columns_are_called_is_a_name(name: str) -> None:
    assert why_no_names([name, "ward"]) is None


@pytest.mark.parametrize("line", [["a", "b", "a"], ["Age", "b", "age"], ["x", "b", " x "]])
def test_two_columns_have_two_names(line: list[str]) -> None:
    assert why_no_names(line) == "its 1st and 3rd cell are the same"


SECRET = "4711.25"


@pytest.mark.parametrize(
    "content",
    [
        f"{SECRET},abc\n1,2\n",
        f'"{SECRET}",abc\n1,2\n',
        f"\ufeff{SECRET},abc\n",
        f"abc,{SECRET}",
        f'\ufeff"abc",{SECRET}\r\n',
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV"])
def test_a_file_without_a_heading_is_refused_and_not_quoted(tmp_path: Path, name: str, content: str) -> None:
    raw = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    with pytest.raises(InvalidTable, match="does not look like the names") as caught:
        read_names(tmp_path / name)
    assert "4711" not in str(caught.value) and "abc" not in str(caught.value)
    assert "first line with the names" in str(caught.value) and "--header-is-names" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "ward,age\n1,2\n",
        "\ufeffward,age\n1,2\n",
        '"ward","age"\r\n1,2\r\n',
        '\ufeff"ward", age\n1,2\n',
        '"the ""ward""","a,b"\n1,2\n',
        '"two\nlines",age\n1,2\n',
        "\nward,age\n1,2\n",
        "ward,age",
    ],
)
def test_names_are_those_that_the_table_will_be_read_by(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.csv").write_text(content, encoding="utf-8", newline="")
    assert read_names(tmp_path / "t.csv") == list(open_table(tmp_path / "t.csv").table.columns)


def test_a_tsv_has_its_own_separator(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a, b\tc\n1\t2\n")
    assert read_names(tmp_path / "t.tsv") == ["a, b", "c"]


def test_somebody_may_vouch_for_odd_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("2013,2014,true\n1,2,3\n")
    assert read_names(tmp_path / "t.csv", sure=True) == ["2013", "2014", "true"]


def test_columns_that_a_card_cannot_name_are_left_out_then(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",x,2013,X\n1,2,3,4\n")
    assert read_names(tmp_path / "t.csv", sure=True) == ["2013"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b'"open,4711\n', b"\xff\xfe4711,a\n", b"4711" * (1 << 19)])
def test_a_file_that_is_no_table_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InvalidTable) as caught:
        read_names(tmp_path / "t.csv")
    assert "4711" not in str(caught.value) and caught.value.hint


def test_nothing_below_the_first_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"ward,age\n" + b"1,2\n" * (1 << 18) + b'"\xff')
    assert read_names(tmp_path / "t.csv") == ["ward", "age"]
