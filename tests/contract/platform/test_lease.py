"""A restart of Postgres takes the lock away: it is taken again, or whoever has it by now is left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import text

from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.storage import ownership
from saibot.platform.storage.database import Database
from saibot.platform.storage.ownership import DatabaseLease


def cut(database: Database) -> None:
    """End the connections that hold a lock, as a restart of Postgres does: they are gone when this returns."""
    ours = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    locks = f"SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND {ours}"
    with database.write() as connection:
        ended = connection.execute(text(f"SELECT pg_terminate_backend(pid, 30000) FROM ({locks}) AS holders")).scalars()
        assert all(ended)


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


def test_a_server_that_starts_where_one_has_just_been_killed_waits_until_postgres_has_noticed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_NOTICED_SECONDS", 30.0)  # two of them can be short on a busy machine
    killed = DatabaseLease(database)
    notices = threading.Timer(0.5, cut, [database])
    notices.start()
    DatabaseLease(database).close()
    notices.join()
    assert killed.keep()
    killed.close()
