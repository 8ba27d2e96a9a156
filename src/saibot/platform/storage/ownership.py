"""Whose storage this is: one process for a data folder, one platform for a database and a file store.

Two on one folder would sweep each other's uploads; and a platform with a new database would set somebody else's sketches
aside. Several servers may be one platform: on one Postgres, with one file store that all of them reach.
"""

from __future__ import annotations

import fcntl
import threading
import time
from contextlib import suppress
from typing import BinaryIO

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from saibot.errors import InvalidInput
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.files import FileStore, is_own
from saibot.platform.storage.migrate import revision
from saibot.safe_file import UNFINISHED

_LOCK = 7_209_482_717  # any number; all saibot processes of one Postgres agree on it
_NOTICED_SECONDS = 2.0  # in which Postgres has let go of what a server held that was killed a moment ago


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
    for part in ("", "cache", "corpus", "corpus/keys", "corpus/factors", "corpus/domains"):  # others are swept when read
        for path in (settings.data / part).glob(f"{UNFINISHED}*"):
            path.unlink(missing_ok=True)  # its writer was killed
    return handle


class DatabaseLease:
    """Nobody else uses the database while this is held, or those alone who share it. (SQLite's is the data folder's lock.)

    The lock is a connection's: Postgres lets go of it when the connection ends, and so does a restart of Postgres. Whoever
    is about to write shards asks `keep` first, which takes the lock again, or says that another platform has it by now.
    """

    def __init__(self, database: Database, *, shared: bool = False, lock: int = _LOCK) -> None:
        """`shared` with other servers of the same platform; `lock` where it is not the database that is held, but a name."""
        self._database, self._shared, self._lock_number = database, shared, lock
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        until = time.monotonic() + _NOTICED_SECONDS
        while not self.keep():
            if time.monotonic() > until:
                hint = "Stop it first, or name another --database. Several servers need one file store: --files s3://..."
                raise InvalidInput("another platform is using this database.", hint=hint)
            time.sleep(_NOTICED_SECONDS / 20)

    def keep(self) -> bool:
        """Whether the lease is held, now that it was taken again where it was lost. Raises where the database is away."""
        if self._database.is_sqlite:
            return True
        with self._lock:
            return self._still_held() or self._taken()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                with suppress(SQLAlchemyError):  # Postgres may be away: then nobody holds it
                    self._connection.execute(text("SELECT pg_advisory_unlock_all()"))
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
        take = "pg_try_advisory_lock_shared" if self._shared else "pg_try_advisory_lock"
        if connection.execute(text(f"SELECT {take}(:lock)"), {"lock": self._lock_number}).scalar_one():
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


def check_there_is_one(settings: Settings) -> None:
    """For whoever looks at a platform: a wrong folder does not become a new one."""
    there = settings.database is not None or (settings.data / "saibot.db").exists()
    if there:
        database = Database(settings.database_url)
        try:
            there = revision(database) is not None
        finally:
            database.close()
    if not there:
        raise InvalidInput(f"there is no platform in {settings.data}.", hint="Name its folder with --data, or its database.")
