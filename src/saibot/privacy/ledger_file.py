"""The ledger's file: a SQLite database to which rows can be added, never changed or removed.

Triggers in the database see to that, whoever opens it. A transaction is on disk when it ends. Nothing here knows what a
charge may be; that is `saibot.privacy.ledger`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saibot.errors import SaibotError
from saibot.privacy.account import LedgerEntry
from saibot.privacy.budget import Budget
from saibot.privacy.events import event_from_json
from saibot.privacy.neighbours import Neighbours

_SCHEMA = """
CREATE TABLE IF NOT EXISTS secret (id INTEGER PRIMARY KEY CHECK (id = 1), hash_key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS dataset (
    name TEXT PRIMARY KEY, neighbours TEXT NOT NULL, cap_epsilon TEXT NOT NULL, cap_delta TEXT NOT NULL,
    created TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL REFERENCES dataset(name), edition INTEGER NOT NULL,
    source BLOB NOT NULL, release BLOB NOT NULL, asked TEXT NOT NULL, events TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS receipt (
    charge INTEGER PRIMARY KEY REFERENCES charge(id), digest TEXT NOT NULL, created TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS charge_by_dataset ON charge(dataset);
"""
_APPEND_ONLY = "".join(
    f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
    f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;\n"
    for table in ("dataset", "charge", "receipt", "secret")
    for verb in ("update", "delete")
) + "".join(  # INSERT OR REPLACE deletes without firing a delete trigger
    f"CREATE TRIGGER IF NOT EXISTS {table}_no_replace BEFORE INSERT ON {table} "
    f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {key} = NEW.{key}) "
    f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;\n"
    for table, key in (("dataset", "name"), ("charge", "id"), ("receipt", "charge"), ("secret", "id"))
)


class LedgerFile:
    """`reading()` and `writing()` give a connection; what goes wrong with the file is told as an error of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        db = self._connect()
        try:
            yield db
        except sqlite3.Error as problem:
            raise self._unusable(problem) from None
        finally:
            db.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its start, so that nobody spends between check and charge."""
        db = self._connect()
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except BaseException as problem:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if isinstance(problem, sqlite3.OperationalError):  # read-only folder, full disk, locked for a minute
                raise self._unusable(problem) from None
            raise
        finally:
            db.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            os.chmod(self.path, 0o600)
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                db.executescript("BEGIN IMMEDIATE;" + _SCHEMA + _APPEND_ONLY + "PRAGMA user_version = 1; COMMIT;")
            elif version != 1:
                db.close()
                raise SaibotError(f"the ledger at {self.path} was written by a newer saibot.", hint="Upgrade saibot.")
        except (OSError, sqlite3.Error) as problem:
            raise self._unusable(problem) from None
        return db

    def _unusable(self, problem: Exception) -> SaibotError:
        return SaibotError(
            f"the ledger at {self.path} cannot be used ({problem}).", hint="Check the folder, or set SAIBOT_HOME."
        )


def terms_of(db: sqlite3.Connection, dataset: str) -> tuple[Neighbours, Budget] | None:
    """Relation and cap of a dataset, fixed by its first charge."""
    row = db.execute("SELECT neighbours, cap_epsilon, cap_delta FROM dataset WHERE name = ?", (dataset,)).fetchone()
    return None if row is None else (Neighbours(row[0]), Budget(row[1], row[2]))


def entries_of(db: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> list[LedgerEntry]:
    """The charges (`c`) that a condition admits, each with its receipt (`r`) if there is one, in their order."""
    query = (
        "SELECT c.id, c.dataset, c.edition, c.asked, c.events, c.created, r.digest "
        f"FROM charge c LEFT JOIN receipt r ON r.charge = c.id {where} ORDER BY c.id"
    )
    entries = []
    for number, dataset, edition, asked, events, created, digest in db.execute(query, values):
        budget = json.loads(asked)
        priced = tuple(event_from_json(event) for event in json.loads(events))
        entries.append(
            LedgerEntry(number, dataset, edition, Budget(budget["epsilon"], budget["delta"]), priced, created, digest)
        )
    return entries
