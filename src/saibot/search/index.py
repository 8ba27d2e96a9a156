"""The index of a corpus: one SQLite file that names everything that counts. A file that it does not name does not exist.

Changes are transactions that add and remove rows: a crash leaves the index as it was before or as it is after, and a corpus
of a hundred thousand sketches takes one more as quickly as a small one does. Several processes may read and write at once.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from saibot.errors import InvalidInput
from saibot.safe_file import writing

FILE = "corpus.sqlite"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:@+=-]{0,4000}")  # no separator, no leading dot
VERSION = 2  # of the whole corpus: index, shards and key lists. Version 1 had JSON files
_SCHEMA = f"""
CREATE TABLE corpus (id INTEGER PRIMARY KEY CHECK (id = 1), identity TEXT NOT NULL, changes INTEGER NOT NULL);
CREATE TABLE shard (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key_id TEXT NOT NULL);
CREATE TABLE learned (key_id TEXT PRIMARY KEY, version TEXT NOT NULL, sketches INTEGER NOT NULL, withdrawn INTEGER NOT NULL);
CREATE TABLE sketch (number INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL);
PRAGMA user_version = {VERSION};
"""


@dataclass(frozen=True)
class Learned:
    """The factors that a key domain uses, how many sketches it had then, and whether one that taught is gone since."""

    version: str
    sketches: int
    withdrawn: bool = False


@dataclass(frozen=True)
class Contents:
    """What an index says at one moment: the shard files of every key domain, and how many sketches there are."""

    stamp: tuple[str, int]  # another one after every change
    shards: dict[str, list[str]]  # also by `key domain@group`: the values of a group of providers
    size: int
    learned: dict[str, Learned]


class CorpusIndex:
    """`folder/corpus.sqlite`. A connection lasts for one question or one change, so threads and forks need no care."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE

    @classmethod
    def create(cls, folder: Path) -> CorpusIndex:
        with writing(folder / FILE, public=True) as temporary, closing(sqlite3.connect(temporary)) as db:
            db.executescript(_SCHEMA)
            db.execute("INSERT INTO corpus VALUES (1, ?, 0)", (secrets.token_hex(8),))
            db.commit()
        return cls(folder)

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether there is an index here, of whichever version."""
        return (folder / FILE).exists() or (folder / "index.json").exists()

    def contents(self) -> Contents:
        with self._opened("BEGIN") as db:
            shards: dict[str, list[str]] = {}
            for key_id, name in db.execute("SELECT key_id, name FROM shard ORDER BY number"):
                shards.setdefault(key_id, []).append(name)
            ((size,),) = db.execute("SELECT count(*) FROM sketch")
            rows = db.execute("SELECT key_id, version, sketches, withdrawn FROM learned")
            learned = {id: Learned(version, sketches, bool(withdrawn)) for id, version, sketches, withdrawn in rows}
            contents = Contents(self._stamp(db), shards, size, learned)
        files = [name for names in shards.values() for name in names]
        self._check_plain(*files, *shards, *(one.version for one in learned.values()))
        return contents

    def stamp(self) -> tuple[str, int]:
        with self._opened("BEGIN") as db:
            return self._stamp(db)

    def names(self) -> dict[str, str]:
        """Digests of all sketches, in the order in which they came, and the names of their datasets."""
        with self._opened("BEGIN") as db:
            found = dict(db.execute("SELECT digest, dataset FROM sketch ORDER BY number"))
        self._check_plain(*found)
        return found

    def change(
        self,
        *,
        shards: Collection[tuple[str, str]] = (),
        without_shards: Collection[str] = (),
        names: Mapping[str, str] | None = None,
        without_names: Collection[str] = (),
        learned: Mapping[str, Learned] | None = None,
    ) -> Contents:
        """New shards (key domain and file) and sketches in, others out: all of it or nothing."""
        with self._opened("BEGIN IMMEDIATE") as db:
            for table, column, gone in (("shard", "name", without_shards), ("sketch", "digest", without_names)):
                for one in gone:
                    if db.execute(f"DELETE FROM {table} WHERE {column} = ?", (one,)).rowcount != 1:
                        raise self._overtaken()
            try:
                db.executemany("INSERT INTO shard (key_id, name) VALUES (?, ?)", shards)
                db.executemany("INSERT INTO sketch (digest, dataset) VALUES (?, ?)", (names or {}).items())
            except sqlite3.IntegrityError:
                raise self._overtaken() from None
            facts = [(id, last.version, last.sketches, last.withdrawn) for id, last in (learned or {}).items()]
            db.executemany("INSERT OR REPLACE INTO learned VALUES (?, ?, ?, ?)", facts)
            db.execute("UPDATE corpus SET changes = changes + 1")
            db.execute("COMMIT")
        return self.contents()

    # ---------------------------------------------------------------------------------------------- inside

    @contextmanager
    def _opened(self, begin: str) -> Iterator[sqlite3.Connection]:
        """A transaction; what is not committed in it never happened."""
        if not self._path.exists():
            raise self._missing()
        try:
            with closing(sqlite3.connect(self._path, timeout=60, isolation_level=None)) as db:
                db.execute("PRAGMA trusted_schema = OFF")
                db.execute("PRAGMA secure_delete = ON")  # withdrawn means overwritten
                ((version,),) = db.execute("PRAGMA user_version")
                if version != VERSION:
                    raise self._anew(f"has format version {version}; this saibot reads version {VERSION}")
                db.execute(begin)
                if db.execute("SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone():
                    raise self._anew("has an index that does more than an index does")
                yield db
        except sqlite3.OperationalError as problem:
            raise InvalidInput(f"the index of the corpus {self._folder} cannot be used ({problem}).") from None
        except sqlite3.DatabaseError:
            raise self._anew("has a damaged index") from None

    def _check_plain(self, *names: object) -> None:
        """Names become names of files: a folder from elsewhere must not lead out of itself."""
        if not all(isinstance(name, str) and _PLAIN.fullmatch(name) for name in names):
            raise self._anew("names files that are not its own")

    def _stamp(self, db: sqlite3.Connection) -> tuple[str, int]:
        ((identity, changes),) = db.execute("SELECT identity, changes FROM corpus")
        return identity, changes

    def _missing(self) -> InvalidInput:
        if (self._folder / "index.json").exists():
            return self._anew("was packed by an earlier saibot")
        return InvalidInput(f"{self._folder} is no corpus.", hint="`saibot pack FOLDER SKETCH...` makes one.")

    def _anew(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"the corpus {self._folder} {why}.",
            hint=f"Pack its sketches into a new folder: `saibot pack NEW {self._folder / 'sketches'}`.",
        )

    def _overtaken(self) -> InvalidInput:
        return InvalidInput(f"another process changed the corpus {self._folder} meanwhile.", hint="Do it again.")
