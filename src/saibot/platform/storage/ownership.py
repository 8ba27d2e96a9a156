"""Whose storage this is: one platform, in one process, for a data folder, a database and a file store.

Two on one folder would sweep each other's uploads; two on one database would call each other's searches failed; and a
platform with a new database would set somebody else's sketches aside.
"""

from __future__ import annotations

import fcntl
import threading
from contextlib import suppress
from typing import BinaryIO

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from saibot.errors import InvalidInput
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.files import FileStore, is_own
from saibot.platform.storage.migrate import revision

_LOCK = 7_209_482_717  # any number; all saibot processes of one Postgres agree on it


def hold_folder(settings: Settings) -> BinaryIO:
    """Nobody else uses the data folder until this is closed or the process ends, however it ends."""
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)  # restricted sketches are nobody else's to read
    handle = (settings.data / "lock").open("ab")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise InvalidInput(
            f"another platform is using {settings.data}.", hint="Stop it first, or choose another --data folder."
        ) from None
    return handle


class DatabaseLease:
    """Nobody else uses the database while this is held. (SQLite's is in the data folder, and held with it.)

    The lock is a connection's: Postgres lets go of it when the connection ends, and so does a restart of Postgres. Whoever
    is about to write shards asks `keep` first, which takes the lock again, or says that another platform has it by now.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        if not self.keep():
            raise InvalidInput("another platform is using this database.", hint="Stop it first, or name another --database.")

    def keep(self) -> bool:
        """Whether the lease is held, now that it was taken again where it was lost. Raises where the database is away."""
        if self._database.is_sqlite:
            return True
        with self._lock:
            return self._still_held() or self._taken()

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _still_held(self) -> bool:
        if self._connection is None:
            return False
        try:
            query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted"
            return bool(self._connection.execute(text(query)).scalar_one())
        except SQLAlchemyError:
            self._let_go()
            return False

    def _taken(self) -> bool:
        connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._connection = connection
        # A machine that vanished says no goodbye: have Postgres ask after it, so that another can soon take its place.
        for setting in ("tcp_keepalives_idle = 20", "tcp_keepalives_interval = 10", "tcp_keepalives_count = 3"):
            connection.execute(text(f"SET {setting}"))
        if connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}).scalar_one():
            return True
        self._let_go()
        return False

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):  # it may have gone already
                connection.invalidate()  # closed, not given back: the next to use it would hold the lock
                connection.close()


def check_files_are_ours(database: Database, files: FileStore) -> None:
    """A new database knows no file. Where there are some already, it is the wrong one, or the files are another's."""
    if revision(database) is None and any(is_own(name) for name in files.names()):
        raise InvalidInput(
            "there are sketches in the file store, but the database is new.",
            hint="Name the database that they belong to, restore a backup, or choose an empty place for files.",
        )
