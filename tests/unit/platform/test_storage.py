"""Migrations lead to the tables that the code works with; a database of a later version is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from saibot.errors import InvalidInput
from saibot.platform.storage.database import Database
from saibot.platform.storage.migrate import FOLDER, LATEST, DatabaseTooNew, migrate, revision
from saibot.platform.storage.tables import metadata


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'x.db'}")


def test_migrations_lead_to_the_tables_of_the_code(database: Database) -> None:
    assert migrate(database) is None and migrate(database) == LATEST
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert sorted(path.name for path in (FOLDER / "versions").glob("0*.py"))[-1].startswith(LATEST)


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
