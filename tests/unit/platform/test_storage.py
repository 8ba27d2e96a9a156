"""Migrations lead to the tables that the code works with; a database of a later version is left alone."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event, inspect, text

from saibot.errors import InvalidInput
from saibot.platform.storage.database import Database
from saibot.platform.storage.migrate import FOLDER, LATEST, DatabaseTooNew, migrate, revision
from saibot.platform.storage.tables import metadata
from saibot.wire import Dataset
from tests.support.processes import in_a_process

KEY = {"name": "day", "levels": ["month"], "parts": [
    {"name": "day", "domain": "days", "version": 1, "size": 5, "digest": "a" * 64, "keys_digest": "b" * 64}
]}  # fmt: skip
OLD = {  # a dataset as version 0001 wrote it
    "id": "d1", "provider": "clinic", "name": "visits", "title": "Visits, été", "description": "", "individual": "one row",
    "key": KEY, "features": [{"name": "x", "kind": "numeric", "unit": "", "lower": 0.0, "upper": 1.0}], "rows": 40,
    "budget": {"epsilon": "1", "delta": "1e-6"}, "mechanism": "joint", "layout": "lookup", "neighbours": "replace-one",
    "visibility": "public", "version": 1, "digest": "c" * 64, "bytes": 7, "published": "2026-01-01T00:00:00Z",
    "expires": None,
}  # fmt: skip
HELD = 1200  # more than one batch of the migration


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'x.db'}")


def test_migrations_lead_to_the_tables_of_the_code(database: Database) -> None:
    assert migrate(database) is None and migrate(database) == LATEST
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert sorted(path.name for path in (FOLDER / "versions").glob("0*.py"))[-1].startswith(LATEST)


@pytest.fixture
def of_0001(database: Database) -> Database:
    """A platform's database as version 0001 left it, with some of everything."""
    migrate(database, to="0001")
    with database.write() as connection:
        rows = [
            {
                "n": number,
                "id": f"d{number}",
                "name": f"visits-{number}",
                "doc": json.dumps(_old(number), ensure_ascii=False),
            }
            for number in range(1, HELD + 1)
        ]
        connection.execute(
            text(
                "INSERT INTO datasets VALUES (:n, :id, 'clinic', :name, 'day', 'public', 'live', 1, 'c', '2026', NULL, 40, "
                "1.0, :name, 'days', :doc)"
            ),
            rows,
        )
        connection.execute(text("INSERT INTO versions VALUES (:n, 1, 'c', 7, '2026', 'clinic', 1)"), rows)
        connection.execute(text("INSERT INTO terms VALUES ('w:visits', :n)"), rows)
        connection.execute(text("INSERT INTO tokens VALUES ('t1', 'clinic', 'provider', 'h', '2026', NULL, NULL, NULL)"))
        connection.execute(text("INSERT INTO trail VALUES (1, '2026', 'clinic', 'publish', 'd1', '{}')"))
    return database


def _old(number: int) -> dict[str, Any]:
    return OLD | {"id": f"d{number}", "name": f"visits-{number}", "key": KEY if number % 2 else None}


def contents(database: Database) -> dict[str, list[Any]]:
    with database.read() as connection:
        names = inspect(connection).get_table_names()
        return {name: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {name}"))] for name in names}


def test_a_platform_of_the_first_version_goes_on_with_nothing_lost(of_0001: Database) -> None:
    before = contents(of_0001)
    assert migrate(of_0001) == "0001" and revision(of_0001) == LATEST
    after = contents(of_0001)
    for name in before.keys() - {"datasets", "versions", "tokens", "trail", "alembic_version"}:
        assert after[name] == before[name]
    assert after["tokens"] == [(*row, None) for row in before["tokens"]], "an admin made them"
    assert after["trail"] == [(*row, None, 1) for row in before["trail"]], "what happened once is no sum"
    assert after["versions"] == [(*row, None, None, None, None, None) for row in before["versions"]]
    assert after["providers"] == [("clinic", "2026", None, None, None, None)], "since when it publishes is known"
    assert [row[:-5] for row in after["datasets"]] == [row[:-1] for row in before["datasets"]]
    kept = "what was private teaches as it did, has not ended, is nobody's copy, and no search is known to have taken it"
    assert all(row[-4:] == (1, None, None, 0) for row in after["datasets"]), kept
    for number, row in enumerate(after["datasets"], start=1):
        told = json.loads(row[-5])
        keys = [KEY] if number % 2 else []
        added = {"account": None, "spent": None, "open": False, "source": None, "confirmed": False}
        added |= {"verified": False, "signer": None, "copy_of": None, "flags": [], "tags": []}
        assert told == _old(number) | added | {"keys": keys}
        assert Dataset.model_validate(told).to_json() == told | {"feature_count": None}  # not counted then: all are listed
    with of_0001.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_what_was_said_of_tables_before_is_found_from_now_on(database: Database) -> None:
    migrate(database, to="0007")
    said = {"licence": "CC BY", "contact": "", "tags": ["Open Health", "visits"], "more": ""}
    with database.write() as connection:
        for number, name in ((1, "visits"), (2, "beds")):
            connection.execute(
                text(
                    "INSERT INTO datasets (number, id, provider, name, key_name, visibility, state, version, digest, "
                    "published, rows, epsilon, sort_name, domains, document) "
                    "VALUES (:n, :id, 'clinic', :name, '', 'public', 'live', 1, 'c', '2026', 1, 1.0, :name, '', :doc)"
                ),
                {"n": number, "id": f"d{number}", "name": name, "doc": json.dumps({"id": f"d{number}", "name": name})},
            )
            connection.execute(text("INSERT INTO terms VALUES ('w:visits', :n)"), {"n": number})
        row = {"said": json.dumps(said)}
        connection.execute(text("INSERT INTO about VALUES ('clinic', 'visits', :said, '2026')"), row)
        connection.execute(text("INSERT INTO about VALUES ('other', 'beds', :said, '2026')"), row)
        connection.execute(text("INSERT INTO trail VALUES (1, '2026', 'clinic', 'publish', 'd1', '{}')"))
        connection.execute(text("INSERT INTO tokens VALUES ('t1', 'clinic', 'provider', 'h', '2026', NULL, NULL, NULL)"))
    assert migrate(database) == "0007"
    after = contents(database)
    assert [json.loads(row[-5])["tags"] for row in after["datasets"]] == [["Open Health", "visits"], []]
    found = {term for term, number in after["terms"] if number == 1}
    assert found == {"w:visits", "w:open", "w:health", "w:cc", "w:by", "t:open health", "t:visits"}
    assert [term for term, number in after["terms"] if number == 2] == ["w:visits"]
    assert after["trail"][0][-2:] == (None, 1) and after["tokens"][0][-1] is None
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_searches_that_are_kept_begin_the_lifetime_number(database: Database) -> None:
    migrate(database, to="0008")
    with database.write() as connection:
        for number, copy_of in ((1, None), (2, 1), (3, None)):
            connection.execute(
                text(
                    "INSERT INTO datasets (number, id, provider, name, key_name, visibility, state, version, digest, "
                    "published, rows, epsilon, sort_name, domains, document, copy_of) "
                    "VALUES (:n, :id, 'clinic', :id, '', 'public', 'live', 2, 'c', '2026', 1, 1.0, :id, '', '{}', :of)"
                ),
                {"n": number, "id": f"d{number}", "of": copy_of},
            )
        for number, version, digest in ((1, 1, "old"), (1, 2, "new"), (2, 1, "new"), (3, 1, "other")):
            connection.execute(
                text(
                    "INSERT INTO versions (dataset, version, digest, bytes, published, account, packed) "
                    "VALUES (:n, :v, :digest, 7, '2026', 'clinic', TRUE)"
                ),
                {"n": number, "v": version, "digest": digest},
            )
        for search, digest in (("s1", "old"), ("s1", "new"), ("s2", "new"), ("s2", "other"), ("s3", "withdrawn")):
            connection.execute(text("INSERT INTO uses VALUES (:s, :d)"), {"s": search, "d": digest})
    assert migrate(database) == "0008"
    after = contents(database)
    assert sorted(after["taken"]) == [("s1", "d1"), ("s2", "d1"), ("s2", "d3")] and "uses" not in after
    assert [(row[1], row[-1]) for row in after["datasets"]] == [("d1", 2), ("d2", 0), ("d3", 1)]
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def _die_in_the_middle(address: str) -> None:
    """A process that is killed when the first batch of documents is written anew and nothing is committed."""
    database, seen = Database(address), []

    def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)
        if sum("UPDATE datasets" in one for one in seen) > 700:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(database.engine, "before_cursor_execute", count)
    migrate(database)


@pytest.mark.fault
def test_a_kill_half_way_leaves_the_first_version_whole(of_0001: Database) -> None:
    before, address = contents(of_0001), of_0001.engine.url.render_as_string(hide_password=False)
    of_0001.close()
    assert in_a_process(_die_in_the_middle, address) == -signal.SIGKILL
    again = Database(address)
    assert revision(again) == "0001" and contents(again) == before
    assert migrate(again) == "0001" and len(contents(again)["datasets"]) == HELD


def test_a_database_of_a_later_version_is_left_alone(database: Database) -> None:
    migrate(database)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseTooNew, match="9999"):
        migrate(database)
    assert revision(database) == "9999"


def test_sqlite_is_set_to_keep_what_it_acknowledges_and_to_wipe_what_goes(database: Database) -> None:
    with database.read() as connection:
        pragmas = {name: connection.execute(text(f"PRAGMA {name}")).scalar() for name in (
            "journal_mode", "synchronous", "secure_delete", "foreign_keys"
        )}  # fmt: skip
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", ""])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        Database(url)
