"""The ledger's file: SQLite, readable by its owner only, flushed at every commit, closed to changes of what is written.

Who may spend what is decided in `saibot.privacy.ledger`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from saibot.errors import SaibotError
from saibot.privacy.account import LedgerEntry, Share
from saibot.privacy.budget import Budget
from saibot.privacy.events import event_from_json
from saibot.privacy.neighbours import Neighbours

VERSION = 4
_SCHEMA = """
CREATE TABLE secret (id INTEGER PRIMARY KEY CHECK (id = 1), hash_key BLOB NOT NULL);
CREATE TABLE account (
    name TEXT PRIMARY KEY, neighbours TEXT NOT NULL, unit TEXT, cap_epsilon TEXT NOT NULL, cap_delta TEXT NOT NULL,
    created TEXT NOT NULL, cap_keys TEXT NOT NULL DEFAULT '0');
CREATE TABLE charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL REFERENCES account(name), dataset TEXT NOT NULL,
    edition INTEGER NOT NULL, split TEXT, part TEXT, source BLOB NOT NULL, release BLOB NOT NULL, asked TEXT NOT NULL,
    events TEXT NOT NULL, created TEXT NOT NULL, once_for TEXT);
CREATE TABLE receipt (
    charge INTEGER PRIMARY KEY REFERENCES charge(id), digest TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE split (
    id TEXT PRIMARY KEY, unit TEXT, train TEXT NOT NULL, test TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE split_written (
    split TEXT PRIMARY KEY REFERENCES split(id), train_source BLOB NOT NULL, test_source BLOB NOT NULL);
CREATE TABLE sample (
    id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT, split TEXT, version INTEGER NOT NULL, kind TEXT NOT NULL,
    name TEXT NOT NULL, hashes BLOB NOT NULL, reach INTEGER NOT NULL, created TEXT NOT NULL);
CREATE INDEX charge_by_account ON charge(account);
CREATE INDEX charge_by_dataset ON charge(dataset);
"""
_KEYS = {
    "secret": "id",
    "account": "name",
    "charge": "id",
    "receipt": "charge",
    "split": "id",
    "split_written": "split",
    "sample": "id",
}
_APPEND_ONLY = "".join(
    f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
    f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;\n"
    for table in _KEYS
    for verb in ("update", "delete")
) + "".join(  # INSERT OR REPLACE deletes without firing a delete trigger
    f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
    f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {key} = NEW.{key}) "
    f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;\n"
    for table, key in _KEYS.items()
)
# Version 1 had one cap for each name. Parts of a request (NAME-train, NAME-test) had caps of their own, though nothing shows
# that they were disjoint: they come to the account of NAME, and add. Its unit was not kept: such an account is by row, which
# any release may enter. The old tables stay as they were.
_OLD = ("secret", "dataset", "charge", "receipt")
_FROM_1 = (
    "".join(f"DROP TRIGGER IF EXISTS {table}_no_{verb};" for table in _OLD for verb in ("update", "delete", "replace"))
    + "DROP INDEX IF EXISTS charge_by_dataset;"
    + "".join(f"ALTER TABLE {table} RENAME TO {table}_1;" for table in _OLD)
    + _SCHEMA
    + """
CREATE TEMP TABLE moved AS SELECT name, neighbours, cap_epsilon, cap_delta, created, CASE
    WHEN name LIKE '%_-train' THEN substr(name, 1, length(name) - 6)
    WHEN name LIKE '%_-test' THEN substr(name, 1, length(name) - 5) ELSE name END AS account FROM dataset_1;
UPDATE moved SET account = name WHERE neighbours <> (SELECT m.neighbours FROM moved m
    WHERE m.account = moved.account ORDER BY m.name <> m.account, m.created, m.name LIMIT 1);
INSERT INTO secret SELECT * FROM secret_1;
INSERT INTO account SELECT account, neighbours, NULL, cap_epsilon, cap_delta, created, '0' FROM (
    SELECT *, row_number() OVER (PARTITION BY account ORDER BY name <> account, created, name) AS place FROM moved)
    WHERE place = 1;
INSERT INTO charge
    SELECT c.id, m.account, c.dataset, c.edition, NULL, NULL, c.source, c.release, c.asked, c.events, c.created,
        NULL
    FROM charge_1 c JOIN moved m ON m.name = c.dataset ORDER BY c.id;
INSERT INTO receipt SELECT * FROM receipt_1;
DROP TABLE moved;
"""
    + _APPEND_ONLY
)
# Version 2 had no part of delta set aside for finding keys, and its accounts have none: their releases were priced without.
_FROM_2 = "ALTER TABLE account ADD COLUMN cap_keys TEXT NOT NULL DEFAULT '0';"
# Version 3 had no releases that are charged once and never again.
_FROM_3 = "ALTER TABLE charge ADD COLUMN once_for TEXT;"
_UPDATES = {0: _SCHEMA + _APPEND_ONLY, 1: _FROM_1, 2: _FROM_2 + _FROM_3, 3: _FROM_3}


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
            if _version(db) < VERSION:
                self._bring_up_to_date(db)
            if _version(db) != VERSION:
                db.close()
                raise SaibotError(f"the ledger at {self.path} was written by a newer saibot.", hint="Upgrade saibot.")
        except (OSError, sqlite3.Error) as problem:
            raise self._unusable(problem) from None
        return db

    def _bring_up_to_date(self, db: sqlite3.Connection) -> None:
        """In one transaction, whoever comes first; others wait and find it done."""
        db.execute("PRAGMA foreign_keys = OFF")  # tables are renamed
        db.execute("PRAGMA legacy_alter_table = ON")  # and what refers to them by name is made anew
        db.execute("BEGIN IMMEDIATE")
        try:
            version = _version(db)
            if version < VERSION:
                for statement in _statements(_UPDATES[version]):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("PRAGMA legacy_alter_table = OFF")
        db.execute("PRAGMA foreign_keys = ON")

    def _unusable(self, problem: Exception) -> SaibotError:
        return SaibotError(
            f"the ledger at {self.path} cannot be used ({problem}).", hint="Check the folder, or set SAIBOT_HOME."
        )


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """One by one: `executescript` would commit before each of them."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def terms_of(db: sqlite3.Connection, account: str) -> tuple[Neighbours, str | None, Budget, Decimal] | None:
    """Relation, unit and cap of an account, and what is set aside of its delta for keys: fixed by its first charge."""
    query = "SELECT neighbours, unit, cap_epsilon, cap_delta, cap_keys FROM account WHERE name = ?"
    row = db.execute(query, (account,)).fetchone()
    return None if row is None else (Neighbours(row[0]), row[1], Budget(row[2], row[3]), Decimal(row[4]))


def entries_of(db: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> list[LedgerEntry]:
    """The charges (`c`) that a condition admits, each with its receipt (`r`) if there is one, in their order."""
    query = (
        "SELECT c.id, c.dataset, c.edition, c.split, c.part, c.asked, c.events, c.created, r.digest "
        f"FROM charge c LEFT JOIN receipt r ON r.charge = c.id {where} ORDER BY c.id"
    )
    entries = []
    for number, dataset, edition, split, part, asked, events, created, digest in db.execute(query, values):
        budget = json.loads(asked)
        priced = tuple(event_from_json(event) for event in json.loads(events))
        share = None if split is None else Share(split, part)
        limit = Budget(budget["epsilon"], budget["delta"])
        entries.append(LedgerEntry(number, dataset, edition, limit, priced, created, digest, share))
    return entries
