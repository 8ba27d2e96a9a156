"""Tables of a Spark session: the same statistics as from a file, odd cells included. Needs Spark (`make test-spark`)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from saibot.audit import comparing, sources
from saibot.audit.cases import tight_cases
from saibot.audit.sources import SourceKind
from saibot.errors import InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, prepare
from saibot.privatize.aggregate import aggregate
from saibot.privatize.cells import number_in
from saibot.privatize.engines import engine_of, open_engine
from saibot.privatize.engines.spark import Spark

pytestmark = pytest.mark.spark
ODD = ["5", " 5 ", "5.", ".5", "+5", "-5e-3", "1e999", "-1e999", "0x10", "5_000", "NaN", "inf", "-Infinity", "true", "FALSE",
       "", "x", "5f", "5d", "v5", "\t7\n", "\v8\f", "\u0665", "--5", "9" * 400]  # fmt: skip
_names = itertools.count(1)


@pytest.fixture(scope="module")
def spark(local_spark: Any) -> Any:
    connection = open_engine("spark").connection
    assert connection._session is local_spark
    local_spark.conf.set("spark.sql.shuffle.partitions", "2")
    return connection


def in_spark(spark: Any, rows: pa.Table) -> Any:
    name = f"rows{next(_names)}"
    spark._session.createDataFrame(rows).createOrReplaceTempView(name)
    return spark.table(name)


def test_a_table_of_ones_own_session_is_summed_by_this_engine(spark: Any) -> None:
    assert isinstance(engine_of(spark), Spark)


def test_every_odd_text_is_the_number_that_it_is_in_duckdb(spark: Any) -> None:
    cells = pa.table({"number": range(len(ODD)), "text": pa.array(ODD, pa.string())})

    def read(table: Any) -> list[tuple[int, str]]:
        found = engine_of(table._find_backend()).fetch(table.select(table.number, value=number_in(table.text))).to_pylist()
        return sorted((row["number"], repr(row["value"])) for row in found)

    assert read(in_spark(spark, cells)) == read(ibis.duckdb.connect().create_table("odd", cells))


def test_a_table_and_a_parquet_file_have_the_statistics_that_duckdb_gives(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = pa.table({
        "ward": rng.choice(["a", " b", "vf", "fv ", "x"], 500),
        "days": pa.array([None if day > 28 else str(day) for day in rng.integers(-3, 31, 500)], pa.string()),
        "cost": rng.normal(100, 40, 500),
        "kind": rng.choice(["in", "out", "fever"], 500),
        "person": [f"p{number // 3}" for number in range(500)],
    })  # fmt: skip
    parquet.write_table(rows, tmp_path / "rows.parquet")
    card = Card.parse(
        {
            "dataset": {"name": "t", "id": "person", "rows_per_individual": 2, "max_rows": 1000},
            "features": {
                "days": {"bounds": [0, 30]},
                "cost": {"bounds": [0, 200]},
                "kind": {"levels": ["in", "out", "fever"]},
            },
            "keys": {"ward": {"domain": {"values": ["a", "b", "vf", "fv"], "id": "wards"}}},
        }
    )

    def statistics(table: Any, backend: str) -> list[list[Any]]:
        request = ReleaseRequest(card, Budget("1", "1e-6"), Neighbours.REPLACE_ONE, key="ward", backend=backend)
        ready = prepare(table, request, Ledger(tmp_path / "home"))
        exact = aggregate(ready.rows, ready.grid, order=ready.request.order)
        return [array.tolist() for array in (*exact.levels, exact.whole)]

    expected = statistics(tmp_path / "rows.parquet", "duckdb")
    assert statistics(in_spark(spark, rows), "spark") == expected
    assert statistics(tmp_path / "rows.parquet", "spark") == expected


def test_neighbouring_tables_stay_within_the_claim_in_spark(spark: Any, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    def table(rows: Any, columns: Any, folder: Path) -> Any:
        return in_spark(spark, sources._arrow(rows, columns, folder))

    monkeypatch.setattr(comparing, "SOURCES", (SourceKind("spark table", table),))
    outcomes = list(comparing.sweep(seed=20260102, pairs=300 if full else 6, first=len(tight_cases())))
    assert [entry for outcome in outcomes for entry in outcome.broken] == []
    assert sum(outcome.compared for outcome in outcomes) >= 6


def test_a_text_file_is_refused_with_the_next_step(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no text") as refused:
        Spark(spark).read_text(tmp_path / "x.csv", ["a"], guessed_but=None)
    assert "duckdb" in str(refused.value.hint)
