"""A platform's database from before providers had a standing goes on with nothing lost, on SQLite and on Postgres."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Boolean, MetaData, Numeric, select

from saibot.platform.storage.database import Database
from saibot.platform.storage.migrate import LATEST, migrate, revision
from saibot.platform.storage.tables import metadata

HELD = 600  # more than one batch of the migration


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    on_postgres = request.param == "postgres"
    address = request.getfixturevalue("postgres")() if on_postgres else f"sqlite:///{tmp_path / 'x.db'}"
    opened = Database(address)
    yield opened
    opened.close()


def rows_of(database: Database, name: str, columns: list[str]) -> list[tuple[Any, ...]]:
    with database.read() as connection:
        table = _reflected(connection)[name]
        return [
            tuple(row) for row in connection.execute(select(*(table.c[one] for one in columns)).order_by(*table.primary_key))
        ]


def test_what_was_there_before_providers_had_a_standing_is_kept(database: Database) -> None:
    migrate(database, to="0006")
    with database.write() as connection:
        tables = _reflected(connection)
        made = [
            {"number": n, "id": f"d{n}", "provider": f"p{n % 3}", "state": "live", "version": 1, "digest": f"{n:064x}"}
            | {"name": f"n{n}", "document": json.dumps({"id": f"d{n}"}), "visibility": "public"}
            for n in range(1, HELD + 1)
        ]
        connection.execute(tables["datasets"].insert(), [_filled(tables["datasets"], row) for row in made])
        released = [
            {
                "dataset": row["number"],
                "version": 1,
                "digest": row["digest"],
                "account": row["provider"],
                "published": "2026",
            }
            for row in made
        ]
        connection.execute(tables["versions"].insert(), [_filled(tables["versions"], row) for row in released])
        columns = {name: [c.name for c in tables[name].c if c.name != "document"] for name in ("datasets", "versions")}
    before = {name: rows_of(database, name, columns[name]) for name in columns}
    assert migrate(database) == "0006" and revision(database) == LATEST
    assert {name: rows_of(database, name, columns[name]) for name in columns} == before
    assert len(before["datasets"]) == len(before["versions"]) == HELD
    assert rows_of(database, "providers", ["account", "since", "verified"]) == [(f"p{n}", "2026", None) for n in range(3)]
    told = [json.loads(document) for (document,) in rows_of(database, "datasets", ["document"])]
    added = {"verified": False, "signer": None, "copy_of": None, "flags": [], "tags": []}
    assert told == [{"id": f"d{n}"} | added for n in range(1, HELD + 1)]
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def _reflected(connection: Any) -> Any:
    found = MetaData()
    found.reflect(connection)
    return found.tables


def _filled(table: Any, row: dict[str, Any]) -> dict[str, Any]:
    """With something in every column that has to have a value."""

    def some(column: Any) -> Any:
        if isinstance(column.type, Boolean):
            return True
        return 0 if isinstance(column.type, Numeric) or column.type.python_type in (int, float) else ""

    return {c.name: some(c) for c in table.c if not c.nullable} | row
