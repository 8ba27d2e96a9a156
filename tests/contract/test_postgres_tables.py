"""Tables that live in Postgres: summed there to the same statistics, whatever a cell holds, and released by the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from saibot.audit import comparing, sources
from saibot.audit.cases import tight_cases
from saibot.audit.sources import SourceKind
from saibot.cli.app import app
from saibot.errors import InvalidInput
from saibot.privatize.cells import day_in, feature_number, individual_in, number_in
from saibot.privatize.engines import engine_of, open_engine, postgres, table_in
from saibot.privatize.engines.postgres import Postgres
from saibot.privatize.read import open_table
from saibot.sketch import read_sketch

ODD = ["5", " 5 ", "5.", ".5", "+5", "-5e-3", "1e999", "-1e999", "1e-999", "0x10", "5_000", "NaN", "nan", "inf", "-Infinity",
       "true", "FALSE", "", "x", "5x", "5 5", "\t7\n", "1,5", "\u0665", "--5", "9" * 400, None]  # fmt: skip


@pytest.fixture(scope="module")
def address(postgres: Callable[[], str]) -> str:
    return postgres()


@pytest.fixture(scope="module")
def database(address: str) -> Any:
    return ibis.connect(address)


def test_every_odd_text_is_the_number_that_it_is_in_duckdb(database: Any) -> None:
    cells = pa.table({"number": range(len(ODD)), "text": pa.array(ODD, pa.string())})

    def read(table: Any) -> list[tuple[int, float | None]]:
        asked = table.select(table.number, value=number_in(table.text), log=feature_number(table.text, log=True))
        found = engine_of(table._find_backend()).fetch(asked).to_pylist()
        return sorted((row["number"], repr(row["value"]), repr(row["log"])) for row in found)

    theirs = read(database.create_table("odd", cells, overwrite=True))
    assert theirs == read(ibis.duckdb.connect().create_table("odd", cells))


def test_neighbouring_tables_stay_within_the_claim_in_postgres(
    database: Any, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    def table(rows: Any, columns: Any, folder: Path) -> Any:
        return database.create_table("audited", sources._arrow(rows, columns, folder), overwrite=True)

    monkeypatch.setattr(comparing, "SOURCES", (SourceKind("postgres table", table),))
    first = len(tight_cases())
    outcomes = list(comparing.sweep(seed=20260101, pairs=2000 if full else 60, first=first))
    assert [entry for outcome in outcomes for entry in outcome.broken] == []
    assert sum(outcome.compared for outcome in outcomes) >= 60


def test_an_instant_has_its_day_in_utc_whatever_the_servers_clock_is_set_to(database: Any) -> None:
    late = pa.array([datetime(2024, 1, 5, 23, 30, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    table = database.create_table("late", pa.table({"at": late}), overwrite=True)
    database.raw_sql("SET TIME ZONE 'Asia/Tokyo'").close()
    engine = engine_of(database)
    (found,) = engine.fetch(table.select(day=day_in(table["at"], engine))).to_pylist()
    assert found["day"] == date(2024, 1, 5)


def test_cells_that_only_postgres_has_are_missing_and_stop_nothing(database: Any) -> None:
    database.raw_sql("DROP TABLE IF EXISTS rare").close()
    database.raw_sql("CREATE TABLE rare (i int, n numeric(10,2), d date, t timestamp, w float8, z int[])").close()
    database.raw_sql(
        "INSERT INTO rare VALUES (1, 1.5, '2024-01-01', '2024-01-01', 7, '{1}'), "
        "(2, NULL, 'infinity', 'infinity', 1e20, NULL), (3, 'NaN', '12000-01-01', '-infinity', 'NaN', NULL)"
    ).close()
    source = open_table(database.table("rare"))
    assert source.table.columns == ("i", "n", "d", "t", "w")
    assert b"".join(source.content())
    asked = source.table.select("i", "d", "t", n=number_in(source.table.n), who=individual_in(source.table.w))
    found = sorted(source.fetch(asked).to_pylist(), key=lambda row: row["i"])
    assert [(row["n"], row["d"] is None, row["t"] is None) for row in found] == [
        (1.5, False, False),
        *[(None, True, True)] * 2,
    ]
    assert [row["who"] for row in found] == ["7", "1e+20", None]


def test_rows_are_fetched_a_few_at_a_time_and_come_in_large_batches(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": range(1000), "t": [f"row {number}" for number in range(1000)]})
    table = database.create_table("many", rows, overwrite=True)
    (whole,) = database.to_pyarrow_batches(table.order_by("n"))
    monkeypatch.setattr(postgres, "FETCHED", 50)
    monkeypatch.setattr(postgres, "TOGETHER", 6)
    found = list(engine_of(database).batches(table.order_by("n")))
    assert [batch.num_rows for batch in found] == [300, 300, 300, 100]
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([whole]))
    monkeypatch.undo()
    (same,) = engine_of(database).batches(table.order_by("n"))
    assert same.equals(whole), "what the ledger knows a table by stays the same"


CARD = """
[dataset]
name = "visits"
individual = "one visit"
[budget]
cap = { epsilon = "2", delta = "1e-6" }
[features.days]
bounds = [0, 30]
[keys.ward]
domain = { values = ["a", "b", "c"], id = "wards" }
"""


def test_the_command_releases_a_table_of_a_database(database: Any, address: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = pa.table({"ward": rng.choice(["a", "b", "c"], 300), "days": rng.integers(0, 30, 300)})
    database.create_table("visits", rows, overwrite=True)
    card, out = tmp_path / "visits.toml", tmp_path / "visits.saibot"
    card.write_text(CARD)
    asked = ["privatize", "visits", "--database", address, "--card", str(card), "--key", "ward", "--epsilon", "1"]
    asked += ["--neighbours", "replace-one"]
    done = CliRunner().invoke(app, [*asked, "--delta", "1e-6", "--yes", "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["charged"] and read_sketch(out).header.key is not None


def test_an_address_that_cannot_be_reached_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidInput) as refused:
        table_in("postgresql://me:secret@nowhere.invalid/rows", "visits")
    assert "secret" not in str(refused.value) and "nowhere" not in str(refused.value)


@pytest.mark.parametrize("database, backend", [("mysql://host/x", None), ("rows.csv", None), ("duckdb://", "postgres")])
def test_an_address_of_another_kind_is_refused(database: str, backend: str | None) -> None:
    with pytest.raises(InvalidInput, match="--database"):
        table_in(database, "rows", backend)


def test_postgres_without_a_database_and_before_16_is_refused_with_the_next_step() -> None:
    with pytest.raises(InvalidInput) as refused:
        open_engine("postgres")
    assert "--database" in str(refused.value.hint)

    class Old:
        version = "15.4"

    with pytest.raises(InvalidInput) as old:
        Postgres(Old())
    assert "Parquet" in str(old.value.hint)


def test_a_duckdb_file_is_a_database_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.duckdb"
    own = ibis.duckdb.connect(path)
    own.create_table("visits", pa.table({"days": [1, 2]}))
    own.disconnect()
    assert table_in(f"duckdb://{path}", "visits").count().execute() == 2
