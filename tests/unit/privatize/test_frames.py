"""Columns of frames come to an engine in normal types, each cell by itself."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from saibot.privacy.ledger import Ledger
from saibot.privatize.frames import normal_column
from saibot.privatize.split import split_table

CELLS = [b"a", b"\xff\xfe", None, b"", "é".encode()]


def unchecked_texts(cells: list[bytes | None]) -> pa.Array:
    """Bytes that say they are text; Arrow takes their word for it."""
    held = pa.array(cells, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(held), held.buffers(), held.null_count)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_a_text_that_is_no_utf8_is_missing_and_the_others_stay(kind: pa.DataType) -> None:
    texts = unchecked_texts(CELLS)
    assert normal_column(texts.cast(kind)).to_pylist() == ["a", None, None, "", "é"]
    assert normal_column(pa.chunked_array([texts, texts[:1]])).to_pylist() == ["a", None, None, "", "é", "a"]


def test_the_levels_of_a_dictionary_are_looked_at_too() -> None:
    assert normal_column(unchecked_texts(CELLS).dictionary_encode()).to_pylist() == ["a", None, None, "", "é"]


@pytest.mark.parametrize("kind", [pa.binary(4), pa.binary(), pa.large_binary()])
def test_a_table_with_a_column_of_bytes_can_be_divided(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"c": pa.array([b"abcd", b"efgh"], kind), "x": [1.0, 2.0]})
    parquet.write_table(table, tmp_path / "t.parquet")
    parts = split_table(tmp_path / "t.parquet", Ledger(tmp_path / "home"), test=Decimal("0.5"))
    together = pa.concat_tables([parquet.read_table(part) for part in (parts.train, parts.test)])
    assert sorted(together.column("c").to_pylist()) == [b"abcd", b"efgh"]
    assert normal_column(table.column("c")).type in (pa.binary(), pa.large_binary())
