"""Columns in memory, brought to types that engines read alike."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from saibot.privacy.ledger import Ledger
from saibot.privatize.frames import normal_column
from saibot.privatize.split import split_table


@pytest.mark.parametrize("kind", [pa.binary(4), pa.binary(), pa.large_binary()])
def test_a_table_with_a_column_of_bytes_can_be_divided(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"c": pa.array([b"abcd", b"efgh"], kind), "x": [1.0, 2.0]})
    parquet.write_table(table, tmp_path / "t.parquet")
    parts = split_table(tmp_path / "t.parquet", Ledger(tmp_path / "home"), test=Decimal("0.5"))
    together = pa.concat_tables([parquet.read_table(part) for part in (parts.train, parts.test)])
    assert sorted(together.column("c").to_pylist()) == [b"abcd", b"efgh"]
    assert normal_column(table.column("c")).type in (pa.binary(), pa.large_binary())
