"""The ledger: what has been spent on each dataset of this machine. Local, durable, append-only.

Charge first, release second. A charge is written in its own transaction before any noise is drawn; the receipt, with the
sketch's digest, follows once the sketch is safe on disk. A crash in between leaves a charge without a receipt: spent, and
said to be. Rows of the ledger can be added, never changed or removed; triggers in the database see to that.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

from saibot.errors import BudgetExceeded, LedgerConflict, SaibotError, SourceChanged
from saibot.privacy.budget import Budget, plain
from saibot.privacy.events import Event, PureEvent, Spent, event_from_json
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


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One charge, with the digest of what it bought, or None if the release never finished."""

    number: int
    dataset: str
    edition: int
    asked: Budget
    events: tuple[Event, ...]
    created: str
    digest: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "edition": self.edition,
            "asked": self.asked.to_json(),
            "events": [event.to_json() for event in self.events],
            "created": self.created,
            "digest": self.digest,
            "state": "released" if self.digest else "spent, nothing released",
        }


@dataclass(frozen=True, slots=True)
class Account:
    """A dataset's standing: its terms, its charges, and what they come to."""

    dataset: str
    neighbours: Neighbours
    cap: Budget
    entries: tuple[LedgerEntry, ...]

    @property
    def spent_epsilon(self) -> float:
        """Epsilon spent at the cap's delta."""
        return self._spent().epsilon_at(self.cap.delta)

    @property
    def left_epsilon(self) -> float:
        return max(float(self.cap.epsilon) - self.spent_epsilon, 0.0)

    def _spent(self) -> Spent:
        return Spent.of_releases([entry.events for entry in self.entries], self.cap)

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "neighbours": str(self.neighbours),
            "cap": self.cap.to_json(),
            "spent_epsilon": self.spent_epsilon,
            "left_epsilon": self.left_epsilon,
            "releases": [entry.to_json() for entry in self.entries],
        }


@dataclass(frozen=True, slots=True)
class Charge:
    """What a release asks of the ledger. `source` and `release` are bytes that identify the rows and the whole request."""

    dataset: str
    neighbours: Neighbours
    cap: Budget | None
    asked: Budget
    events: tuple[Event, ...]
    source: bytes
    release: bytes
    new_version: bool = False


class Ledger:
    """The ledger of one home folder. Safe to use from several processes at once."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._path = home / "ledger.sqlite"

    def fingerprint(self, content: Iterable[bytes]) -> bytes:
        """A hash that only this ledger can compute, so that its file tells nobody anything about the rows."""
        digest = hmac.new(self._hash_key(), digestmod=hashlib.sha256)
        for chunk in content:
            digest.update(chunk)
        return digest.digest()

    def find(self, charge: Charge) -> LedgerEntry | None:
        """The finished release that this very request bought before, if there is one: it costs nothing to hand out again."""
        with self._reading() as db:
            rows = _rows(
                db, "WHERE c.dataset = ? AND c.release = ? AND r.digest IS NOT NULL", (charge.dataset, charge.release)
            )
        return rows[-1] if rows else None

    def check(self, charge: Charge) -> None:
        """Whether a charge would be taken, without taking it."""
        with self._reading() as db:
            self._admit(db, charge)

    def charge(self, charge: Charge) -> LedgerEntry:
        """Take the charge, or refuse it and change nothing. On return it is on disk."""
        now = _now()
        with self._writing() as db:
            edition = self._admit(db, charge)
            if _terms(db, charge.dataset) is None:
                cap = charge.cap or charge.asked
                db.execute(
                    "INSERT INTO dataset VALUES (?, ?, ?, ?, ?)",
                    (charge.dataset, str(charge.neighbours), plain(cap.epsilon), plain(cap.delta), now),
                )
            events = json.dumps([event.to_json() for event in charge.events])
            asked = json.dumps(charge.asked.to_json())
            cursor = db.execute(
                "INSERT INTO charge (dataset, edition, source, release, asked, events, created) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (charge.dataset, edition, charge.source, charge.release, asked, events, now),
            )
            number = cursor.lastrowid
            assert number is not None
        return LedgerEntry(number, charge.dataset, edition, charge.asked, charge.events, now, None)

    def receipt(self, entry: LedgerEntry, digest: str) -> None:
        """Note what a charge bought. A charge has one receipt."""
        with self._writing() as db:
            db.execute("INSERT INTO receipt VALUES (?, ?, ?)", (entry.number, digest, _now()))

    def account(self, dataset: str) -> Account | None:
        with self._reading() as db:
            terms = _terms(db, dataset)
            if terms is None:
                return None
            return Account(dataset, *terms, tuple(_rows(db, "WHERE c.dataset = ?", (dataset,))))

    def accounts(self) -> list[Account]:
        with self._reading() as db:
            names = [name for (name,) in db.execute("SELECT name FROM dataset ORDER BY name")]
        return [account for name in names if (account := self.account(name)) is not None]

    # ---------------------------------------------------------------------------------------------- inside

    def _admit(self, db: sqlite3.Connection, charge: Charge) -> int:
        """The edition this charge belongs to; raises if the ledger has other terms, other rows or too little left."""
        terms = _terms(db, charge.dataset)
        cap, edition, earlier = charge.cap or charge.asked, 1, list[tuple[Event, ...]]()
        if terms is not None:
            neighbours, cap = terms
            if neighbours is not charge.neighbours:
                raise LedgerConflict(
                    f"{charge.dataset!r} is kept under {neighbours}; a release under {charge.neighbours} would not add up.",
                    hint="Use the same --neighbours, or another dataset name for other data.",
                )
            if charge.cap is not None and charge.cap != cap:
                raise LedgerConflict(
                    f"{charge.dataset!r} has the cap {cap}, fixed at its first release; the card says {charge.cap}.",
                    hint="Write the ledger's cap into the card.",
                )
            earlier = [entry.events for entry in _rows(db, "WHERE c.dataset = ?", (charge.dataset,))]
            source, edition = db.execute(
                "SELECT source, edition FROM charge WHERE dataset = ? ORDER BY id DESC LIMIT 1", (charge.dataset,)
            ).fetchone()
            if source != charge.source:
                if not charge.new_version:
                    raise SourceChanged(charge.dataset)
                edition += 1
        self._one_name(db, charge)
        if not Spent.of_releases([*earlier, charge.events], cap).within(cap):
            raise BudgetExceeded(
                dataset=charge.dataset,
                asked=str(charge.asked),
                left=_left(earlier, charge.events, cap),
                cap=str(cap),
            )
        return int(edition)

    def _one_name(self, db: sqlite3.Connection, charge: Charge) -> None:
        """The same rows under a second name would have a second cap."""
        elsewhere = db.execute(
            "SELECT dataset FROM charge WHERE source = ? AND dataset <> ? LIMIT 1", (charge.source, charge.dataset)
        ).fetchone()
        if elsewhere is not None:
            raise LedgerConflict(
                f"the rows given as {charge.dataset!r} are those of {elsewhere[0]!r}, which has a cap of its own.",
                hint=f"Release them as {elsewhere[0]!r}; for the two parts of a request, `saibot split` makes two tables.",
            )

    def _hash_key(self) -> bytes:
        with self._writing() as db:
            db.execute("INSERT INTO secret SELECT 1, ? WHERE NOT EXISTS (SELECT 1 FROM secret)", (secrets.token_bytes(32),))
            (key,) = db.execute("SELECT hash_key FROM secret").fetchone()
        return bytes(key)

    def _connect(self) -> sqlite3.Connection:
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            db = sqlite3.connect(self._path, timeout=60, isolation_level=None)
            os.chmod(self._path, 0o600)
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                db.executescript("BEGIN IMMEDIATE;" + _SCHEMA + _APPEND_ONLY + "PRAGMA user_version = 1; COMMIT;")
            elif version != 1:
                db.close()
                raise SaibotError(f"the ledger at {self._path} was written by a newer saibot.", hint="Upgrade saibot.")
        except (OSError, sqlite3.Error) as problem:
            raise self._unusable(problem) from None
        return db

    def _unusable(self, problem: Exception) -> SaibotError:
        return SaibotError(
            f"the ledger at {self._path} cannot be used ({problem}).", hint="Check the folder, or set SAIBOT_HOME."
        )

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        db = self._connect()
        try:
            yield db
        except sqlite3.Error as problem:
            raise self._unusable(problem) from None
        finally:
            db.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
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


def _terms(db: sqlite3.Connection, dataset: str) -> tuple[Neighbours, Budget] | None:
    row = db.execute("SELECT neighbours, cap_epsilon, cap_delta FROM dataset WHERE name = ?", (dataset,)).fetchone()
    return None if row is None else (Neighbours(row[0]), Budget(row[1], row[2]))


def _rows(db: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> list[LedgerEntry]:
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


def _left(earlier: Sequence[Sequence[Event]], asked: Sequence[Event], cap: Budget) -> str:
    """What is left for a release like the one that was asked for, in words."""
    spent = [event for events in earlier for event in events]
    if not Spent.of([*spent, *asked]).within(cap):
        left = max(float(cap.epsilon) - Spent.of_releases(earlier, cap).epsilon_at(cap.delta), 0.0)
        return f"ε={_round_down(left)} at δ={plain(cap.delta)}"
    # Too much only because Laplace and Gaussian noise are mixed: what this mixture leaves.
    if not all(isinstance(event, PureEvent) for event in asked):
        left = max(float(cap.epsilon) - Spent.of_gaussians(spent).epsilon_at(cap.delta), 0.0)
        return f"ε={_round_down(left)} at δ={plain(cap.delta)} beside Laplace noise"
    low, high = 0.0, float(cap.epsilon)
    for _ in range(60):
        middle = (low + high) / 2
        fits = Spent.of_releases([*earlier, (PureEvent(Decimal(f"{middle:.9f}")),)], cap).within(cap)
        low, high = (middle, high) if fits else (low, middle)
    return f"ε={_round_down(low)} at δ=0 beside Gaussian noise"


def _round_down(epsilon: float) -> str:
    """Four digits, rounded down; a float may be off by 1e-12, so that what 0.9 leaves of 1 shows as 0.1."""
    four = Decimal(f"{epsilon:.12f}").quantize(Decimal("0.0001"), rounding=ROUND_FLOOR, context=Context(prec=60))
    return plain(four)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
