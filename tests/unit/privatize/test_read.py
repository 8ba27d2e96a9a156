"""Tables come as files, frames and queries; the same rows give the same statistics, whatever holds them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from saibot.errors import InvalidTable
from saibot.privatize import Prepared
from saibot.privatize.aggregate import ExactStatistics
from saibot.privatize.read import BackendName, open_table

Exact = Callable[..., ExactStatistics]
CARD: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {"x": {"bounds": [0, 10]}, "o": {"levels": ["E", "7"]}},
    "keys": {
        "k": {"domain": {"values": ["01", "1", "é"], "id": "k"}},
        "d": {"domain": {"dates": ["2013-01-01", "2013-01-03"]}},
    },
}
FRAME = pd.DataFrame(
    [
        ("01", 1.5, "E", "2013-01-01"),
        ("1", 2.25, "7", "2013-01-02"),
        ("01", 9.0, "X", "2013-01-03"),
        ("zz", None, None, "2014-01-01"),
        (" e\u0301 ", 12.0, "E", None),
    ],
    columns=["k", "x", "o", "d"],
)
ONE = 1 << 15  # steps of the grid for so few rows


def cells(*rows: tuple[float, int, int]) -> list[int]:
    """Count, sums and squares, by hand, of rows (x scaled to [-1, 1], o=E, o=7)."""
    steps = [[int(np.floor(x * ONE + 0.5)), e * ONE, seven * ONE] for x, e, seven in rows]
    sums = [sum(row[i] for row in steps) for i in range(3)]
    squares = [sum(row[i] * row[j] for row in steps) for i in range(3) for j in range(i, 3)]
    return [len(rows), *sums, *squares]


# 1.5, 2.25, 9, missing (the midpoint) and 12 (clipped to 10) in [0, 10]
A, B, C, D, E = (-0.7, 1, 0), (-0.55, 0, 1), (0.8, 0, 0), (0.0, 0, 0), (1.0, 1, 0)
EXPECTED = {
    "k": [cells(A, C), cells(B), cells(E), cells(D)],  # 01, 1, é, other
    "d": [cells(A), cells(B), cells(C), cells(D, E)],  # three days, other
}

Make = Callable[[Path], Any]


def arrow() -> pa.Table:
    return pa.Table.from_pandas(FRAME, preserve_index=False)


def csv(ending: str, separator: str) -> Make:
    def make(folder: Path) -> Path:
        text = FRAME.to_csv(index=False, sep=separator).encode()
        path = folder / f"rows{ending}"
        path.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
        return path

    return make


def in_file(ending: str, write: Callable[[Path], object], *, as_text: bool = False) -> Make:
    def make(folder: Path) -> Any:
        write(folder / f"rows{ending}")
        return str(folder / f"rows{ending}") if as_text else folder / f"rows{ending}"

    return make


def write_ipc(path: Path) -> None:
    with pa.ipc.new_file(str(path), arrow().schema) as writer:
        writer.write_table(arrow())


def ibis_table(folder: Path) -> ibis.Table:
    return ibis.duckdb.connect().create_table("rows", arrow())


SOURCES: dict[str, Make] = {
    "CSV": csv(".csv", ","),
    "CSV, upper case": csv(".CSV", ","),
    "CSV, gzip": csv(".csv.gz", ","),
    "TSV": csv(".tsv", "\t"),
    "TSV, gzip": csv(".tsv.gz", "\t"),
    "CSV path as text": in_file(".csv", lambda p: FRAME.to_csv(p, index=False), as_text=True),
    "Parquet": in_file(".parquet", lambda p: parquet.write_table(arrow(), p)),
    "Arrow file": in_file(".arrow", write_ipc),
    "Feather": in_file(".feather", write_ipc),
    "Arrow table": lambda _: arrow(),
    "Arrow, dictionaries": lambda _: pa.table(
        {n: arrow().column(n).combine_chunks().dictionary_encode() for n in "ko"} | {n: arrow().column(n) for n in "xd"}
    ),
    "Arrow, large text": lambda _: arrow().set_column(0, "k", arrow().column("k").cast(pa.large_string())),
    "pandas": lambda _: FRAME,
    "pandas, categories": lambda _: FRAME.astype({"k": "category", "o": "category"}),
    "pandas, timestamps": lambda _: FRAME.assign(d=pd.to_datetime(FRAME.d) + pd.Timedelta("5h")),
    "pandas, another index": lambda _: FRAME.set_index(pd.Index([9, 9, 9, 3, 1])),
    "polars": lambda _: pl.from_arrow(arrow()),
    "polars, dates": lambda _: pl.from_arrow(arrow()).with_columns(pl.col("d").str.to_date()),
    "polars, categories": lambda _: pl.from_arrow(arrow()).with_columns(pl.col("k", "o").cast(pl.Categorical)),
    "polars, lazy": lambda _: pl.from_arrow(arrow()).lazy(),
    "ibis": ibis_table,
    "ibis, computed": lambda folder: ibis_table(folder).mutate(x=ibis._.x * 2).mutate(x=ibis._.x / 2),
}


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_same_rows_give_the_same_statistics_from_every_source(
    source: Make, backend: str, exact: Exact, tmp_path: Path
) -> None:
    table = source(tmp_path)
    for key, cells in EXPECTED.items():
        found = exact(table, CARD, key=key, backend=backend)
        assert found.levels[0].tolist() == cells and found.whole.tolist() == np.sum(cells, axis=0).tolist()


def test_leading_zeros_are_kept_where_they_mean_something(exact: Exact, tmp_path: Path) -> None:
    """A key 01 is not the number 1. Where the column is a number everywhere, neither engine may guess so."""
    (tmp_path / "rows.csv").write_text("k,x\n01,1\n01,2\n1,3\n", encoding="utf-8")
    card = CARD | {"features": {"x": {"bounds": [0, 10]}}}
    for backend in ("duckdb", "polars"):
        assert exact(tmp_path / "rows.csv", card, key="k", backend=backend).levels[0][:, 0].tolist() == [2, 1, 0, 0]


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_quotes_byte_order_marks_and_line_endings_are_understood(
    ending: str, backend: str, exact: Exact, tmp_path: Path
) -> None:
    text = ending.join(["k,x,o", '"01",1,"E"', '"a,b",2,7', '"say ""é""",3,E', ""])
    (tmp_path / "rows.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert exact(tmp_path / "rows.csv", CARD, key="k", backend=backend).levels[0][:, 0].tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("time", [" 05:00:00", "T05:00:00", "T05:00:00Z"])
def test_a_time_of_day_in_a_csv_does_not_hide_the_date(time: str, backend: str, exact: Exact, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"d,x,o\n2013-01-01{time},1,E\n2013-01-03{time},2,7\n", encoding="utf-8")
    assert exact(tmp_path / "rows.csv", CARD, key="d", backend=backend).levels[0][:, 0].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("cells, text", [([1.0, 2.0, None], "1"), ([1, 2, 3], "1"), ([True, False, None], "true")])
def test_numbers_and_truths_as_keys_have_one_spelling(cells: list[Any], text: str, exact: Exact) -> None:
    card = CARD | {"features": {"x": {"bounds": [0, 10]}}, "keys": {"k": {"domain": {"values": [text], "id": "k"}}}}
    frame = pl.DataFrame({"k": cells, "x": [1.0, 2.0, 3.0]})
    for backend in ("duckdb", "polars"):
        assert exact(frame, card, key="k", backend=backend).levels[0][:, 0].tolist() == [1, 2]


@pytest.mark.parametrize("last", ["2.5", "SECRET-4711", "", "2013-01-01", "true", '"quoted, cell"'])
@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_no_cell_of_a_text_file_changes_how_another_is_read(exact: Exact, tmp_path: Path, backend: str, last: str) -> None:
    (tmp_path / "plain.csv").write_text("x,o\n" + "1,E\n" * 30_000, encoding="utf-8")
    (tmp_path / "odd.csv").write_text("x,o\n" + "1,E\n" * 29_999 + f"{last},E\n", encoding="utf-8")
    plain, odd = (exact(tmp_path / name, CARD, backend=backend) for name in ("plain.csv", "odd.csv"))
    one = plain.grid.one
    assert plain.rows == odd.rows
    assert np.abs(odd.whole - plain.whole).max() <= 2 * one * one  # one row's worth


# ------------------------------------------------------------------------------------------------ one row among others

TEXT_IS_MISSING: dict[str, Any] = {"x": {"bounds": [0, 10], "text": "missing", "missing": 2}}
QUOTED = {"k": {"domain": {"values": ["a", "b", "'a'", "'b'"], "id": "k"}}}
ONE_AMONG_MANY: dict[str, tuple[dict[str, Any], str | None, str, list[str], str]] = {
    # what the card says differently, the key, the header line, the rows, and what one of them becomes
    "a word among truths": ({"features": TEXT_IS_MISSING}, None, "x", ["true"] * 1000, "abc"),
    "a number among words": ({"features": TEXT_IS_MISSING}, None, "x", ["abc"] * 1000, "7"),
    "a word among numbers": ({"features": TEXT_IS_MISSING}, None, "x", ["7"] * 1000, "abc"),
    "a word among dates": ({"features": TEXT_IS_MISSING}, None, "x", ["2013-01-01"] * 1000, "abc"),
    "a spelled out number among numbers": ({"features": TEXT_IS_MISSING}, None, "x", ["007"] * 50, "1e400"),
    "a key in double quotes": ({"keys": QUOTED}, "k", "k,x,o", ["'a',1,E"] * 50, '"b",1,E'),
    "a key in single quotes": ({"keys": QUOTED}, "k", "k,x,o", ['"a",1,E'] * 50, "'b',1,E"),
    "a quote inside a key": ({"keys": QUOTED}, "k", "k,x,o", ["a,1,E"] * 50, '"b""",1,E'),
    "a backslash before a quote": ({"keys": QUOTED}, "k", "k,x,o", ['"a",1,E'] * 50, '"b\\",1,E'),
    "a number among words as key": ({}, "k", "k,x,o", ["01,1,E"] * 50, "é,1,E"),
    "a day that only one order allows": ({}, "d", "d,x,o", ["01/02/2013,1,E"] * 50, "12/31/2013,1,E"),
    "a day in words": ({}, "d", "d,x,o", ["2013-01-02,1,E"] * 50, "yesterday,1,E"),
    "a time of day": ({}, "d", "d,x,o", ["2013-01-02,1,E"] * 50, "2013-01-03 05:00:00,1,E"),
    "a level that is no number": ({}, "d", "d,x,o", ["2013-01-02,1,7"] * 50, "2013-01-02,1,E"),
    "an empty first cell": ({}, "k", "k,x,o", ["01,1,E"] * 50, ",1,E"),
    "a comment sign": ({}, "k", "k,x,o", ["01,1,E"] * 50, "#01,1,E"),
    "semicolons": ({}, "k", "k,x,o", ["01,1,E"] * 50, "a;b;c;d,1,E;7"),
}


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("place", [0, -1], ids=["first row", "last row"])
@pytest.mark.parametrize("changes, key, header, rows, other", ONE_AMONG_MANY.values(), ids=ONE_AMONG_MANY)
def test_one_row_does_not_change_how_the_others_are_read(
    changes: dict[str, Any],
    key: str | None,
    header: str,
    rows: list[str],
    other: str,
    place: int,
    backend: str,
    exact: Exact,
    tmp_path: Path,
) -> None:
    """Neighbouring files differ by the one row's own contribution, which is what a file of that row alone holds."""

    def statistics(lines: list[str]) -> tuple[np.ndarray, ...]:
        path = tmp_path / "rows.csv"
        path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
        found = exact(path, CARD | changes, key=key, backend=backend)
        return (found.whole, *found.levels)

    changed = rows.copy()
    changed[place] = other
    parts = (statistics(lines) for lines in (rows, changed, [rows[place]], [other]))
    for before, after, old, new in zip(*parts, strict=True):
        assert np.array_equal(after - before, new - old)
        assert np.array_equal(before, len(rows) * old)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_days_that_are_not_iso_are_no_days(backend: str, exact: Exact, tmp_path: Path) -> None:
    """01/02 is a day in January or in February, which a guess over all rows would decide."""
    (tmp_path / "rows.csv").write_text("d,x,o\n01/02/2013,1,E\n02/01/2013,1,E\n2013-01-02,1,E\n", encoding="utf-8")
    assert exact(tmp_path / "rows.csv", CARD, key="d", backend=backend).levels[0][:, 0].tolist() == [0, 1, 0, 2]


# ------------------------------------------------------------------------------------------------ which rows these are


def test_the_same_rows_have_the_same_fingerprint_and_others_another(ready: Callable[..., Prepared], tmp_path: Path) -> None:
    many = pd.DataFrame({"x": np.random.default_rng(0).normal(5, 2, 300_000), "o": "E"})
    other = many.copy()
    other.loc[299_999, "x"] += 1e-9
    first = ready(many, CARD).source
    assert first == ready(many, CARD).source == ready(many.copy(), CARD).source
    assert first != ready(other, CARD).source
    assert first != ready(pd.concat([many, many[:1]]), CARD).source


def test_rows_in_another_order_are_the_same_rows(ready: Callable[..., Prepared]) -> None:
    """A view gives its rows in any order, and with anything at all in memory where a cell is missing."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(50_000) < 0.2, np.nan, rng.normal(5, 2, 50_000))
    frame = pl.DataFrame({"x": x, "o": rng.choice(["E", "7", None], 50_000), "i": np.arange(50_000)}).fill_nan(None)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    assert ready(frame, CARD).source == ready(shuffled, CARD).source
    engine = ibis.duckdb.connect()
    engine.create_table("rows", frame.to_arrow())
    view = engine.sql("SELECT o, i % 9999 AS g, max(x) AS x FROM rows GROUP BY ALL")
    first = engine.to_pyarrow(view)
    if all(engine.to_pyarrow(view).equals(first) for _ in range(5)):
        pytest.skip("this engine happens to keep the order of groups")
    assert len({ready(view, CARD).source for _ in range(5)}) == 1


def test_a_file_is_known_by_its_bytes(ready: Callable[..., Prepared], tmp_path: Path) -> None:
    path = csv(".csv", ",")(tmp_path)
    before = ready(path, CARD).source
    assert before == ready(str(path), CARD).source
    path.write_bytes(path.read_bytes().replace(b"1.5", b"1.6"))
    assert ready(path, CARD).source != before


def test_the_fingerprint_is_of_no_use_without_the_ledgers_secret(ready: Callable[..., Prepared], tmp_path: Path) -> None:
    """A plain hash of a small table could be found by trying tables."""
    import hashlib

    from saibot.privacy import Budget, Neighbours
    from saibot.privacy.ledger import Ledger
    from saibot.privatize import Card, ReleaseRequest, prepare

    path = csv(".csv", ",")(tmp_path)
    request = ReleaseRequest(Card.parse(CARD), Budget("1", "1e-6"), Neighbours.REPLACE_ONE)
    here, elsewhere = ready(path, CARD).source, prepare(path, request, Ledger(tmp_path / "other")).source
    assert here != elsewhere and hashlib.sha256(path.read_bytes()).digest() not in (here, elsewhere)


# ------------------------------------------------------------------------------------------------ what cannot be read


def wrong_file(name: str, content: bytes) -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def cut(make: Make) -> Make:
    def shorter(folder: Path) -> Path:
        path: Path = make(folder)
        path.write_bytes(path.read_bytes()[:-15])
        return path

    return shorter


UNREADABLE: dict[str, Make] = {
    "nothing there": lambda folder: folder / "gone.csv",
    "a folder": lambda folder: folder,
    "an unknown ending": wrong_file("rows.xlsx", b"PK SECRET-4711"),
    "an empty CSV": wrong_file("rows.csv", b""),
    "a ragged CSV": wrong_file("rows.csv", b"x,o\n1,E\n1,E,SECRET-4711\n1\n"),
    "a CSV that is no text": wrong_file("rows.csv", b"x,o\n1,\xff\xfe4711\n"),
    "a CSV that is Parquet": in_file(".csv", lambda p: parquet.write_table(arrow(), p)),
    "a Parquet that is CSV": wrong_file("rows.parquet", b"x,o\n4711,E\n"),
    "a cut off Parquet": cut(SOURCES["Parquet"]),
    "a cut off gzip": cut(SOURCES["CSV, gzip"]),
    "a cut off Arrow file": cut(SOURCES["Arrow file"]),
    "a number": lambda _: 4711,
    "a list": lambda _: ["SECRET-4711"],
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("source", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_refused_in_one_line_without_a_cell(
    source: Make, backend: str, exact: Exact, tmp_path: Path
) -> None:
    with pytest.raises(InvalidTable) as caught:
        exact(source(tmp_path), CARD, backend=backend)
    message = str(caught.value)
    assert "\n" not in message and "4711" not in message and len(message) < 400


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("content", [b"x,o\n", b"x,o", b"\xef\xbb\xbfx,o\r\n"])
def test_a_csv_with_nothing_but_a_header_line_has_no_rows(
    content: bytes, backend: str, exact: Exact, tmp_path: Path
) -> None:
    """Its columns have no type either, but that is not what is wrong with it."""
    with pytest.raises(InvalidTable, match="the table has no rows"):
        exact(wrong_file("rows.csv", content)(tmp_path), CARD, backend=backend)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.csv.gz", "rows.parquet", "rows.arrow"])
def test_a_file_with_nothing_in_it_is_said_to_be_empty(tmp_path: Path, backend: BackendName, name: str) -> None:
    for content in (b"", b"\n \r\n\n") if ".csv" in name or ".tsv" in name else (b"",):
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        with pytest.raises(InvalidTable, match="is empty"):
            open_table(tmp_path / name, backend=backend)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_csv_without_a_header_line_is_refused_without_the_cells_of_its_first_row(
    key: str | None, backend: str, exact: Exact, tmp_path: Path
) -> None:
    source = wrong_file("rows.csv", b"SECRET-4711,4711.5,E4711\n01,2.5,E\n01,2.5,E\n")(tmp_path)
    with pytest.raises(InvalidTable, match="has no column 'x'") as caught:
        exact(source, CARD, key=key, backend=backend)
    assert "4711" not in str(caught.value) and "4711" not in repr(caught.value)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_two_columns_of_one_name_are_refused_by_their_places(backend: str, exact: Exact, tmp_path: Path) -> None:
    source = wrong_file("rows.csv", b"x,SECRET-4711,o,SECRET-4711\n1,2,E,3\n")(tmp_path)
    with pytest.raises(InvalidTable, match="columns 2 and 4 of the table have the same name") as caught:
        exact(source, CARD, backend=backend)
    assert "4711" not in str(caught.value)


def test_opening_a_table_looks_at_no_row() -> None:
    """A query that would fail on its rows opens; it fails, without its cells, when it is run."""
    table = ibis.memtable({"x": ["SECRET-4711"]})
    source = open_table(ibis.duckdb.connect().create_table("t", table.to_pyarrow()).mutate(x=ibis._.x.cast("float64")))
    with pytest.raises(InvalidTable) as caught:
        source.fetch(source.table)
    assert "4711" not in str(caught.value) and caught.value.__suppress_context__
    with pytest.raises(InvalidTable) as caught:
        list(source.content())
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("before", ["", "\n", "\r\n\r\n", "\ufeff"])
def test_empty_lines_before_the_names_do_not_turn_names_into_a_row(
    tmp_path: Path, before: str, backend: BackendName
) -> None:
    end = "\r\n" if "\r" in before else "\n"
    (tmp_path / "t.csv").write_text(f"{before}x, o{end}1,E{end}2,F{end}", encoding="utf-8", newline="")
    source = open_table(tmp_path / "t.csv", backend=backend)
    assert source.fetch(source.table).to_pylist() == [{"x": "1", "o": "E"}, {"x": "2", "o": "F"}]


QUOTES = {
    'x,o\n1,"E"\n"2","F ""x"""\n': True,
    'x,o\n1,"two\nlines"\n2,"a,b"\n': True,
    'x,o\r\n"1","E"\r\n"2","F"': True,
    '\ufeff"x","o"\n1,E\n2,F\n': True,
    'x,o\n1,"""E"""\n2,""\n': True,
    'x,o\n1,5" pipe\n2,F\n': False,
    'x,o\n1,5"\n2,6"\n': False,
    'x,o\n1,"E" F\n2,G\n': False,
}


@pytest.mark.parametrize("content", QUOTES)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("block", [1, 3, 1 << 22])
def test_a_quote_within_a_plain_cell_is_refused_since_another_cell_could_make_it_swallow_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, name: str, block: int
) -> None:
    monkeypatch.setattr("saibot.privatize.text_file._BLOCK", block)
    raw = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    if QUOTES[content]:
        source = open_table(tmp_path / name)
        assert source.fetch(source.table).num_rows == 2
    else:
        with pytest.raises(InvalidTable, match="quote inside a cell") as caught:
            open_table(tmp_path / name)
        assert "pipe" not in caught.value.message


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv"])
def test_lines_that_end_in_carriage_returns_alone_are_not_an_empty_table(tmp_path, ending):
    path, text = tmp_path / f"old{ending}", b"k\rA\rB\r"
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    with pytest.raises(InvalidTable, match="carriage returns alone"):
        open_table(path)
    path.write_bytes(gzip.compress(b"k\r\nA\r\n") if ending.endswith("gz") else b"k\r\nA\r\n")
    assert open_table(path)
