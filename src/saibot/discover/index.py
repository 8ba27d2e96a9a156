"""The index of key domains on disk: which set of keys stands where, and a MinHash sample of each.

Every parent level of a domain is a set of its own, because it may be the base of another domain. Equal sets are kept once,
with all the places they stand at. One SQLite file, one transaction a change, readers follow the changes of other processes.
All of it can be made again from the registry (`sync`), so a lost or damaged file is no loss.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

import numpy as np

from saibot.discover.domain_file import keys_at, names_of
from saibot.discover.domains import DomainRegistry
from saibot.discover.minhash import Containment, KeySample, bounds, key_hashes
from saibot.discover.postings import MAX_SETS, Postings
from saibot.errors import InvalidInput
from saibot.sketch.domain import KeyDomain

VERSION = 1
DOUBT = 1e-3  # that any bound of an answer fails, over all sets of the index together
_PREFIXES = 32  # how many lengths of a shortened question there are: bounds hold for whichever was asked
_SCHEMA = """
CREATE TABLE IF NOT EXISTS key_set (
    number INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL, rung INTEGER NOT NULL, hashes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS domain (
    id TEXT NOT NULL, version INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (id, version)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS place (
    id TEXT NOT NULL, version INTEGER NOT NULL, level INTEGER NOT NULL, name TEXT NOT NULL,
    number INTEGER NOT NULL REFERENCES key_set(number), PRIMARY KEY (id, version, level)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS place_by_set ON place(number);
"""


@dataclass(frozen=True, order=True)
class Place:
    """Where a set of keys stands: level 0 of a domain, or one of its parents by number and name."""

    domain: str
    version: int
    level: int
    name: str = ""

    def __str__(self) -> str:
        level = f", level {self.name}" if self.level else ""
        return f"{self.domain} v{self.version}{level}"


@dataclass(frozen=True, eq=False)
class Answer:
    """What the samples say about a question, for all sets at once. Arrays run over `numbers`, the sets' numbers."""

    query_size: int
    numbers: np.ndarray
    sizes: np.ndarray
    hits: np.ndarray
    samples: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def containment(self, i: int) -> Containment:
        return Containment.of(int(self.hits[i]), int(self.samples[i]), float(self.lower[i]), float(self.upper[i]))

    def of_number(self, number: int) -> Containment | None:
        i = int(np.searchsorted(self.numbers, number))
        return self.containment(i) if i < len(self.numbers) and self.numbers[i] == number else None


class DomainIndex:
    """`DomainIndex(file)`: insert, delete, sync, ask. Safe under threads and processes."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self._lock = RLock()
        try:
            self._db = _open(file)
        except sqlite3.DatabaseError as problem:
            raise InvalidInput(
                f"the domain index {file.name} cannot be opened: {problem}.",
                hint="If it is damaged, delete it: it is made again from the registry.",
            ) from None
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        """How many domains there are."""
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM domain").fetchone()[0])

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # -------------------------------------------------------------------------------------------- changes

    def insert(self, *domains: KeyDomain) -> None:
        """Add domains, in one transaction. One that is there already stays; other content replaces it."""
        prepared = [(domain, [_prepare(domain, i) for i in range(1 + len(domain.parents))]) for domain in domains]
        with self._transaction() as db:
            for domain, levels in prepared:
                known = db.execute("SELECT digest FROM domain WHERE id = ? AND version = ?", (domain.id, domain.version))
                digest = next((row[0] for row in known), None)
                if digest == domain.digest:
                    continue
                if digest is not None:
                    _delete(db, domain.id, domain.version)
                db.execute("INSERT INTO domain VALUES (?, ?, ?)", (domain.id, domain.version, domain.digest))
                for level, (name, content, sample) in enumerate(levels):
                    number = _number(db, content, sample)
                    db.execute("INSERT INTO place VALUES (?, ?, ?, ?, ?)", (domain.id, domain.version, level, name, number))

    def delete(self, id: str, version: int) -> bool:
        """Remove a domain; whether it was there. Sets that stand nowhere else go with it."""
        with self._transaction() as db:
            return _delete(db, id, version)

    def sync(self, registry: DomainRegistry) -> tuple[int, int]:
        """Make the index follow the registry: how many domains were inserted, and how many deleted."""
        wanted = {(card.id, card.version): card.digest for card in registry.entries()}
        with self._lock:
            present = {(id, version): digest for id, version, digest in self._db.execute("SELECT * FROM domain")}
        missing = [place for place, digest in wanted.items() if present.get(place) != digest]
        gone = [place for place in present if place not in wanted]
        for start in range(0, len(missing), 1000):  # a bounded number of domains in memory at once
            self.insert(*(registry.get(*place) for place in missing[start : start + 1000]))
        for id, version in gone:
            self.delete(id, version)
        return len(missing), len(gone)

    # -------------------------------------------------------------------------------------------- questions

    def ask(self, keys: Iterable[str], *, doubt: float = DOUBT) -> Answer:
        """How much of these keys lies in each set of the index. All bounds hold together, but with probability `doubt`."""
        query = KeySample.query(keys)
        with self._lock:
            self._follow()
            found, asked = self._postings.hits(query.hashes, self._slots)
            numbers, slots, sizes, rungs, _ = self._table.T
        hits = found[slots]
        # A set's sample can be asked for the keys below its own limit only.
        limits = np.array([2**64 - 1, *(1 << (64 - rung) for rung in range(1, 64))], np.uint64)
        reach = np.minimum(np.searchsorted(query.hashes, limits), asked)
        reach[0] = asked
        samples = reach[rungs]
        each = doubt / (_PREFIXES * max(len(numbers), 1))
        lower, upper = bounds(hits, samples, sizes, query.size, doubt=each)
        return Answer(query.size, numbers, sizes, hits, samples, lower, upper)

    def places(self, numbers: Sequence[int]) -> dict[int, tuple[Place, ...]]:
        """Where these sets stand; a set that has gone meanwhile is left out."""
        found: dict[int, list[Place]] = {}
        with self._lock:
            for number in numbers:
                rows = self._db.execute("SELECT id, version, level, name FROM place WHERE number = ?", (int(number),))
                for row in rows:
                    found.setdefault(int(number), []).append(Place(*row))
        return {number: tuple(sorted(places)) for number, places in found.items()}

    def number_of(self, domain: str, version: int, name: str = "") -> int | None:
        """The set that stands at a place: the keys of a domain, or of its level of that name."""
        with self._lock:
            row = self._db.execute(
                "SELECT number FROM place WHERE id = ? AND version = ? AND name = ?", (domain, version, name)
            ).fetchone()
        return None if row is None else int(row[0])

    # -------------------------------------------------------------------------------------------- inside

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._seen = -1

    def _forget(self) -> None:
        """Empty memory: the next question reads everything."""
        self._postings = Postings()
        self._slots = 0  # given out so far
        self._table = np.empty((0, 5), np.int64)  # of each set: number, slot, size, rung, sample's size; by number
        self._seen = -1

    def _follow(self) -> None:
        """Bring memory up to what is on disk: sets have ever growing numbers, so only the new ones are read."""
        version = int(self._db.execute("PRAGMA data_version").fetchone()[0])
        if version == self._seen:
            return
        self._db.execute("BEGIN")
        try:
            (count,) = self._db.execute("SELECT count(*) FROM key_set").fetchone()
            if self._slots + count > MAX_SETS:
                self._forget()
            fresh = self._read_fresh()
            if len(self._table) + len(fresh) != count:
                self._drop_gone()
        finally:
            self._db.execute("COMMIT")
        self._table = np.concatenate([self._table, np.array(fresh, np.int64).reshape(-1, 5)])
        self._seen = version

    def _read_fresh(self) -> list[tuple[int, int, int, int, int]]:
        newest = int(self._table[-1, 0]) if len(self._table) else 0
        rows = self._db.execute("SELECT number, size, rung, hashes FROM key_set WHERE number > ? ORDER BY number", (newest,))
        fresh = []
        for number, size, rung, packed in rows:
            hashes = np.frombuffer(packed, "<u8").astype(np.uint64, copy=False)
            self._postings.add(self._slots, hashes)
            fresh.append((number, self._slots, size, rung, len(hashes)))
            self._slots += 1
        return fresh

    def _drop_gone(self) -> None:
        present = np.fromiter((row[0] for row in self._db.execute("SELECT number FROM key_set")), np.int64)
        there = np.isin(self._table[:, 0], present, assume_unique=True)
        for _, slot, _, _, sample in self._table[~there].tolist():
            self._postings.drop(slot, sample)
        self._table = self._table[there]


def _open(file: Path) -> sqlite3.Connection:
    db = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
    for _ in range(600):
        try:
            db.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError:  # somebody else is making the file: SQLite does not wait for that by itself
            time.sleep(0.1)
    db.execute("PRAGMA synchronous=NORMAL")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):
        db.close()
        raise InvalidInput(
            f"the domain index {file.name} has version {version}; this saibot reads version {VERSION}.",
            hint="Delete it: it is made again from the registry.",
        )
    if version == 0:
        db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")
    return db


def _prepare(domain: KeyDomain, level: int) -> tuple[str, bytes, KeySample]:
    hashes = key_hashes(keys_at(domain, level))
    return names_of(domain)[level], sha256(hashes.astype("<u8").tobytes()).digest(), KeySample.of_hashes(hashes)


def _number(db: sqlite3.Connection, content: bytes, sample: KeySample) -> int:
    """The number of a set, which is new or known by its content."""
    row = db.execute("SELECT number FROM key_set WHERE digest = ?", (content,)).fetchone()
    if row is not None:
        return int(row[0])
    packed = sample.hashes.astype("<u8").tobytes()
    added = db.execute(
        "INSERT INTO key_set (digest, size, rung, hashes) VALUES (?, ?, ?, ?)", (content, sample.size, sample.rung, packed)
    )
    assert added.lastrowid is not None
    return added.lastrowid


def _delete(db: sqlite3.Connection, id: str, version: int) -> bool:
    numbers = [row[0] for row in db.execute("SELECT number FROM place WHERE id = ? AND version = ?", (id, version))]
    db.execute("DELETE FROM place WHERE id = ? AND version = ?", (id, version))
    gone = db.execute("DELETE FROM domain WHERE id = ? AND version = ?", (id, version)).rowcount
    for number in set(numbers):
        db.execute(
            "DELETE FROM key_set WHERE number = ? AND NOT EXISTS (SELECT 1 FROM place WHERE number = ?)", (number, number)
        )
    return gone > 0
