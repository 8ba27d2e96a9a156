"""Train and test: every individual in one part, at random, cells unchanged."""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from saibot.errors import InvalidInput, InvalidTable, SaibotError
from saibot.privacy.ledger import Ledger
from saibot.privatize.split import SplitFiles
from saibot.privatize.split import split_table as split_and_note

HALF = Decimal("0.5")
HEADER = ["id", "zip", "note", "x"]


def split_table(table: Path, **options: Any) -> SplitFiles:
    """Divided as `saibot split` does it, with a ledger of the test's own."""
    return split_and_note(table, Ledger(Path(os.environ["SAIBOT_HOME"])), **options)


def rows(n: int = 200) -> list[list[str]]:
    notes = ["plain", 'with "quotes"', "with, comma", "Zürich", "", " spaced "]
    return [[f"{i // 3:04d}", f"{i % 7:05d}", notes[i % 6], f"{i}.50"] for i in range(n)]


def write(path: Path, table: list[list[str]], *, delimiter: str = ",") -> Path:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows([HEADER, *table])
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path, *, delimiter: str = ",") -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *table = csv.reader(file, delimiter=delimiter)
    assert header == HEADER
    return table


@pytest.mark.parametrize("name, delimiter", [("t.csv", ","), ("t.tsv", "\t"), ("t.csv.gz", ","), ("t.tsv.gz", "\t")])
def test_both_parts_together_are_the_table_and_no_row_is_in_both(tmp_path: Path, name: str, delimiter: str) -> None:
    table = write(tmp_path / name, rows(), delimiter=delimiter)
    files = split_table(table, test=HALF)
    plain = name.removesuffix(".gz")
    stem, ending = plain.split(".")
    assert files.train == tmp_path / f"{stem}.train.{ending}" and files.test == tmp_path / f"{stem}.test.{ending}"
    train, test = read(files.train, delimiter=delimiter), read(files.test, delimiter=delimiter)
    assert train and test
    assert sorted(train + test) == sorted(rows())  # cells unchanged: leading zeros, quotes, spaces, trailing zeros


def test_rows_keep_their_order_within_a_part(tmp_path: Path) -> None:
    files = split_table(write(tmp_path / "t.csv", rows()), test=HALF)
    for part in (read(files.train), read(files.test)):
        assert part == [row for row in rows() if row in part]


def test_all_rows_of_an_individual_go_together(tmp_path: Path) -> None:
    files = split_table(write(tmp_path / "t.csv", rows(600)), test=HALF, id_column="id")
    train, test = ({row[0] for row in read(part)} for part in (files.train, files.test))
    assert train and test and not train & test and len(train | test) == 200


def test_without_an_id_rows_of_an_individual_are_torn_apart(tmp_path: Path) -> None:
    """What the test above would see if ids were not looked at."""
    files = split_table(write(tmp_path / "t.csv", rows(600)), test=HALF)
    train, test = ({row[0] for row in read(part)} for part in (files.train, files.test))
    assert train & test


def test_ids_are_told_apart_as_they_are_written(tmp_path: Path) -> None:
    """01 and 1 are two individuals: over many of them, some pair ends up in different parts."""
    table = [[text, "0", "", "1"] for i in range(64) for text in (f"{i}", f"0{i}")]
    files = split_table(write(tmp_path / "t.csv", table), test=HALF, id_column="id")
    test = {row[0] for row in read(files.test)}
    assert any((f"{i}" in test) != (f"0{i}" in test) for i in range(64))


def test_an_id_that_is_written_with_and_without_a_point_is_one_individual(tmp_path: Path) -> None:
    table = [[f"{i}{point}", "1", "", "1"] for i in range(60) for point in ("", ".0")]
    found = split_table(write(tmp_path / "t.csv", table), test=HALF, id_column="id")
    train, test = ({row[0].removesuffix(".0") for row in read(path)} for path in (found.train, found.test))
    assert train and test and not train & test


def test_parquet_stays_parquet_with_its_types(tmp_path: Path) -> None:
    table = pa.table(
        {"id": pa.array([1, 2, 3, 4] * 50), "x": pa.array([0.1, None, 2.5, -0.0] * 50), "d": pa.array([None] * 200)}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    files = split_table(tmp_path / "t.parquet", test=HALF, id_column="id", out=tmp_path / "parts")
    train, test = parquet.read_table(files.train), parquet.read_table(files.test)
    assert files.train.parent == tmp_path / "parts" and train.schema.types == table.schema.types
    assert train.num_rows + test.num_rows == 200
    assert not set(train.column("id").to_pylist()) & set(test.column("id").to_pylist())


@pytest.mark.parametrize("fraction", ["0.25", "0.5", "0.9", "0.01"])
def test_the_fraction_is_what_was_asked_for(tmp_path: Path, fraction: str) -> None:
    n, p = 20_000, float(fraction)
    files = split_table(write(tmp_path / "t.csv", [[str(i), "0", "", "1"] for i in range(n)]), test=Decimal(fraction))
    assert abs(len(read(files.test)) - n * p) < 6.2 * math.sqrt(n * p * (1 - p))  # once in a billion


def test_the_split_is_another_one_every_time(tmp_path: Path) -> None:
    """By the operating system's randomness: neither order nor content of the rows decides."""
    parts = set()
    for number in range(5):
        files = split_table(write(tmp_path / "t.csv", rows()), test=HALF, out=tmp_path / str(number))
        parts.add(files.test.read_bytes())
    assert len(parts) == 5


def test_neighbours_in_the_file_are_split_independently(tmp_path: Path) -> None:
    files = split_table(write(tmp_path / "t.csv", [[str(i), "0", "", "1"] for i in range(10_000)]), test=HALF)
    in_test = {int(row[0]) for row in read(files.test)}
    together = sum((i in in_test) == (i + 1 in in_test) for i in range(0, 10_000, 2))
    assert abs(together - 2500) < 6.2 * math.sqrt(5000 / 4)


def test_a_small_table_may_leave_a_part_empty_but_keeps_its_columns(tmp_path: Path) -> None:
    for number in range(20):
        files = split_table(write(tmp_path / "t.csv", rows(1)), test=HALF, out=tmp_path / str(number))
        assert len(read(files.train)) + len(read(files.test)) == 1


def test_the_table_itself_is_left_alone(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", rows())
    before = table.read_bytes()
    split_table(table, test=HALF)
    assert table.read_bytes() == before


@pytest.mark.parametrize("fraction", ["0", "1", "-0.1", "25"])
def test_a_fraction_that_is_none_is_refused(tmp_path: Path, fraction: str) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        split_table(write(tmp_path / "t.csv", rows()), test=Decimal(fraction))
    assert list(tmp_path.iterdir()) == [tmp_path / "t.csv"]


def test_what_cannot_be_split_is_refused_without_a_cell(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", [["SECRET-4711", "1", "a", "2"]])
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,SECRET-4711\n", encoding="utf-8")
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    (tmp_path / "bad.parquet").write_bytes(b"SECRET-4711")
    wrong = [tmp_path / n for n in ("ragged.csv", "empty.csv", "t.xlsx", "bad.parquet", "gone.csv")]
    for path in wrong:
        with pytest.raises(InvalidTable) as caught:
            split_table(path, test=HALF)
        assert "4711" not in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(SaibotError, match=r"no column 'who'.*first line") as caught:
        split_table(table, test=HALF, id_column="who")
    assert "4711" not in str(caught.value)
    assert not list(tmp_path.glob("*.train.*"))


def test_ids_in_a_dictionary_may_be_missing(tmp_path: Path) -> None:
    """All rows without an id go together, as one individual: nobody can say that they are not."""
    ids = pa.array(["a", None, "b", None, "a"] * 20).dictionary_encode()
    parquet.write_table(pa.table({"id": ids, "x": range(100)}), tmp_path / "t.parquet")
    files = split_table(tmp_path / "t.parquet", test=HALF, id_column="id")
    train, test = (set(parquet.read_table(path).column("id").to_pylist()) for path in (files.train, files.test))
    assert train | test == {"a", "b", None} and not train & test


def test_a_column_that_tells_no_individuals_apart_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"id": [[1], [2]]}), tmp_path / "lists.parquet")
    with pytest.raises(InvalidTable, match=r"'id' holds .*, which tells no individuals apart"):
        split_table(tmp_path / "lists.parquet", test=HALF, id_column="id")
    (tmp_path / "twice.csv").write_text("id,x,id\n1,2,3\n", encoding="utf-8")
    with pytest.raises(InvalidTable, match="several columns 'id'"):
        split_table(tmp_path / "twice.csv", test=HALF, id_column="id")


def test_a_split_by_key_keeps_keys_together_and_claims_nothing_in_the_ledger(tmp_path: Path) -> None:
    """Replacing a row can move it to another key, and so across: the parts' budgets must add up."""
    table = write(tmp_path / "t.csv", rows())
    files = split_table(table, test=HALF, key="zip")
    parts = [{row["zip"] for row in csv.DictReader(path.open(encoding="utf-8"))} for path in (files.train, files.test)]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 7
    ledger = Ledger(Path(os.environ["SAIBOT_HOME"]))
    assert files.id is None and ledger.share_of(place=str(files.train.resolve()), part="train") is None
    with pytest.raises(InvalidInput, match="by individual or by key"):
        split_table(table, test=HALF, key="zip", id_column="id")


def test_a_split_by_key_over_an_earlier_one_leaves_no_part_of_it(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", rows())
    ledger = Ledger(Path(os.environ["SAIBOT_HOME"]))
    parts = split_table(table, test=HALF, id_column="id")
    assert ledger.share_of(place=str(parts.train.resolve()), part="train") is not None
    split_table(table, test=HALF, key="zip")
    for path, part in ((parts.train, "train"), (parts.test, "test")):
        assert ledger.share_of(place=str(path.resolve()), part=part) is None
