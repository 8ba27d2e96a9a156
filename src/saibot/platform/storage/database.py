"""The database: SQLite in WAL mode or Postgres, one way to read and one way to write.

SQLite has one writer at a time. Writing transactions take a lock of this process and begin IMMEDIATE, so that they wait
for each other here instead of failing in the middle; readers never wait. A commit is on disk when it returns.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from saibot.errors import InvalidInput
from saibot.extras import how_to_install
from saibot.platform.clock import seconds_now
from saibot.platform.errors import Busy
from saibot.platform.storage.named_locks import NamedLocks

WAIT_SECONDS = 30
_LOCK_NOT_AVAILABLE = "55P03"  # as Postgres numbers it
CONNECTIONS = 24  # kept open: more than the threads that answer requests, so that none waits for one


class Database:
    """`with database.read() as c` sees one moment; `with database.write() as c` is all or nothing."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        self._one_writer = threading.RLock() if self.is_sqlite else None
        self._held = NamedLocks() if self.is_sqlite else None

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """One moment over several statements, for backups."""
        engine = self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="REPEATABLE READ")
        with engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        if self._one_writer is None:
            with self.engine.begin() as connection:
                yield connection
            return
        writing = self.engine.execution_options(saibot_write=True)
        with self._one_writer, writing.begin() as connection:
            yield connection

    def alone(self, connection: Connection, *names: str) -> None:
        """Until the transaction ends, nobody else who asks for one of these names goes on, in any process.

        On SQLite a transaction that writes is alone already.
        """
        if not self.is_sqlite:
            for number in sorted({number_of(name) for name in names}):
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})

    @contextmanager
    def holding(self, *names: str, patience: float | None = None) -> Iterator[None]:
        """The same over several transactions. Raises at the end where the database let go of the names meanwhile, and Busy
        where others would not do so for more seconds than one has `patience`."""
        if self._held is not None:
            with self._held.holding(names, patience=patience):
                yield
            return
        with self.engine.begin() as connection:
            if patience is not None:
                limit = {"limit": f"{max(round(1000 * patience), 1)}ms"}
                connection.execute(text("SELECT set_config('lock_timeout', :limit, true)"), limit)
            try:
                self.alone(connection, *names)
            except DBAPIError as problem:
                if getattr(problem.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                    raise
                raise Busy from None
            yield
            connection.execute(text("SELECT 1"))

    @contextmanager
    def trying(self, name: str) -> Iterator[bool]:
        """Whether nobody else holds this name: it is held until the block ends, or the block should do nothing."""
        if self.is_sqlite:
            yield True
            return
        with self.engine.begin() as connection:
            query = text("SELECT pg_try_advisory_xact_lock(:number)")
            yield bool(connection.execute(query, {"number": number_of(name)}).scalar_one())

    def moment(self, connection: Connection) -> float:
        """Seconds since 1970, by the one clock that all who use this database share."""
        if self.is_sqlite:
            return seconds_now()
        return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())

    def close(self) -> None:
        self.engine.dispose()


def number_of(name: str) -> int:
    """A number that stands for the name in Postgres; all saibot processes agree on it."""
    return int.from_bytes(hashlib.sha256(f"saibot {name}".encode()).digest()[:8], "big", signed=True)


def _engine(url: str) -> Engine:
    try:
        address = make_url(url)
        kind = address.get_backend_name()
    except ArgumentError:
        raise InvalidInput("the database address cannot be read.", hint="Give postgresql://user@host/name.") from None
    if kind == "sqlite":
        if address.database:
            Path(address.database).parent.mkdir(parents=True, exist_ok=True)
        connect = {"timeout": WAIT_SECONDS, "check_same_thread": False}
        pool = {"pool_size": CONNECTIONS, "max_overflow": CONNECTIONS, "pool_use_lifo": True}  # few, whose pages are mapped
        engine = create_engine(address, connect_args=connect, **pool)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if kind != "postgresql":
        raise InvalidInput(f"{kind} databases are not supported.", hint="Give postgresql://user@host/name, or nothing.")
    try:
        return create_engine(address, pool_size=CONNECTIONS, max_overflow=CONNECTIONS, pool_pre_ping=True)
    except ImportError:
        raise InvalidInput("Postgres needs its driver.", hint=how_to_install("postgres")) from None


def _prepare_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",  # acknowledged means on disk
        "foreign_keys=ON",
        "secure_delete=ON",  # withdrawn means overwritten
        "cache_size=-4096",  # small, for every connection has one: pages are read from the mapped file
        "mmap_size=4294967296",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("saibot_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


__all__ = ["Database", "SQLAlchemyError"]
