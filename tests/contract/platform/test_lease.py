"""A restart of Postgres takes the lock away: it is taken again, or whoever has it by now is left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.ownership import DatabaseLease


def cut(database: Database) -> None:
    """End the connections that hold a lock, as a restart of Postgres does."""
    with database.write() as connection:
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"))


@pytest.fixture
def database(postgres: Callable[[], str]) -> Database:
    return Database(Settings(database=postgres()).database_url)


def test_a_lease_that_was_cut_is_taken_again(database: Database) -> None:
    lease = DatabaseLease(database)
    with pytest.raises(InvalidInput, match="another platform"):
        DatabaseLease(database)
    cut(database)
    assert lease.keep() and lease.keep()
    with pytest.raises(InvalidInput, match="another platform"):
        DatabaseLease(database)
    lease.close()
    DatabaseLease(database).close()


def test_a_lease_that_somebody_else_took_meanwhile_is_lost(database: Database) -> None:
    first = DatabaseLease(database)
    cut(database)
    second = DatabaseLease(database)
    assert not first.keep() and second.keep()
    second.close()
    assert first.keep()
    first.close()
