"""The index of a corpus: one SQLite file that names everything that counts. A file that it does not name does not exist.

Changes are transactions that add and remove rows: a crash leaves the index as it was before or as it is after, and a corpus
of a hundred thousand sketches takes one more as quickly as a small one does. Several processes may read and write at once.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from saibot.errors import InvalidInput
from saibot.safe_file import writing
from saibot.search.index_file import careful, declares, is_sound, strange_files
from saibot.sketch import Implausible

FILE = "corpus.sqlite"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:@+=-]{0,4000}")  # no separator, no leading dot
VERSION = 3  # of the whole corpus: index, shards and key lists. Version 1 had JSON files, 2 said nothing of providers
READABLE = (2, VERSION)
NOBODY = ""  # the provider of sketches that nobody has signed, in a folder
TOGETHER = 500  # sketches asked for at a time
_ADDED_BY_3 = """
ALTER TABLE sketch ADD COLUMN provider TEXT NOT NULL DEFAULT '';
ALTER TABLE sketch ADD COLUMN signer TEXT;
ALTER TABLE sketch ADD COLUMN payload TEXT;
ALTER TABLE sketch ADD COLUMN flags TEXT NOT NULL DEFAULT '[]';
CREATE INDEX sketch_by_payload ON sketch (payload);
CREATE TABLE provider (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
PRAGMA user_version = 3;
"""
_OF_VERSION_2 = """
CREATE TABLE corpus (id INTEGER PRIMARY KEY CHECK (id = 1), identity TEXT NOT NULL, changes INTEGER NOT NULL);
CREATE TABLE shard (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key_id TEXT NOT NULL);
CREATE TABLE learned (key_id TEXT PRIMARY KEY, version TEXT NOT NULL, sketches INTEGER NOT NULL, withdrawn INTEGER NOT NULL);
CREATE TABLE sketch (number INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL);
"""
_SCHEMA = _OF_VERSION_2 + _ADDED_BY_3
_DECLARED = {2: _OF_VERSION_2, VERSION: _SCHEMA}


@dataclass(frozen=True)
class Learned:
    """The factors that a key domain uses, how many sketches it had then, and whether one that taught is gone since."""

    version: str
    sketches: int
    withdrawn: bool = False


@dataclass(frozen=True)
class SketchEntry:
    """What an index says of a sketch: its dataset, whose it is, who signed it, its payload, and what is hard to believe."""

    dataset: str
    provider: str = NOBODY  # an account of a platform; in a folder the fingerprint of the key that signed
    signer: str | None = None  # that key's fingerprint
    payload: str | None = None  # of `saibot.sketch.payload_of`; unknown where an earlier saibot packed it
    flags: tuple[Implausible, ...] = ()


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
        self._sound = False  # not before it was read through

    @classmethod
    def create(cls, folder: Path) -> CorpusIndex:
        try:
            with writing(folder / FILE, public=True) as temporary, closing(sqlite3.connect(temporary)) as db:
                db.executescript(_SCHEMA)
                db.execute("INSERT INTO corpus VALUES (1, ?, 0)", (secrets.token_hex(8),))
                db.commit()
        except sqlite3.OperationalError as problem:
            raise InvalidInput(f"no index of the corpus {folder} can be made ({problem}).") from None
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
        with self._opened("BEGIN", whole=False) as db:
            return self._stamp(db)

    def names(self) -> dict[str, str]:
        """Digests of all sketches, in the order in which they came, and the names of their datasets."""
        with self._opened("BEGIN") as db:
            found = dict(db.execute("SELECT digest, dataset FROM sketch ORDER BY number"))
        self._check_plain(*found)
        return found

    def version(self) -> int:
        with self._opened("BEGIN", whole=False) as db:
            return _version(db)

    def entries(self, digests: Iterable[str]) -> dict[str, SketchEntry]:
        """What is known of these sketches, as far as they are there."""
        wanted, found = list(dict.fromkeys(digests)), {}
        with self._opened("BEGIN") as db:
            known = _version(db) == VERSION
            columns = "digest, dataset, provider, signer, payload, flags" if known else "digest, dataset"
            for start in range(0, len(wanted), TOGETHER):
                some = wanted[start : start + TOGETHER]
                places = ", ".join("?" * len(some))
                for digest, *rest in db.execute(f"SELECT {columns} FROM sketch WHERE digest IN ({places})", some):
                    found[str(digest)] = self._entry(*rest)
        return found

    def payloads(self) -> dict[str, str]:
        """The digest of a sketch for every payload that is there."""
        with self._opened("BEGIN") as db:
            known = _version(db) == VERSION
            query = "SELECT payload, digest FROM sketch WHERE payload IS NOT NULL ORDER BY number DESC"
            return dict(db.execute(query)) if known else {}

    def sketches_of(self) -> dict[str, set[str]]:
        """The digests of every provider's sketches."""
        found: dict[str, set[str]] = {}
        with self._opened("BEGIN") as db:
            query = "SELECT provider, digest FROM sketch" if _version(db) == VERSION else "SELECT '', digest FROM sketch"
            for provider, digest in db.execute(query):
                found.setdefault(str(provider), set()).add(str(digest))
        return found

    def providers(self) -> dict[str, int]:
        """The numbers that shards call providers by. 0 is nobody."""
        with self._opened("BEGIN") as db:
            rows = db.execute("SELECT name, number FROM provider") if _version(db) == VERSION else []
            return {NOBODY: 0} | {str(name): int(number) for name, number in rows}

    def numbered(self, names: Collection[str]) -> dict[str, int]:
        """The same, after these have got one, too."""
        known = self.providers()
        if new := sorted(set(names) - known.keys()):
            with self._opened("BEGIN IMMEDIATE") as db:
                _brought_up(db)
                db.executemany("INSERT OR IGNORE INTO provider (name) VALUES (?)", [(name,) for name in new])
                db.execute("COMMIT")
            known = self.providers()
        return known

    def change(
        self,
        *,
        shards: Collection[tuple[str, str]] = (),
        without_shards: Collection[str] = (),
        sketches: Mapping[str, SketchEntry] | None = None,
        without_names: Collection[str] = (),
        learned: Mapping[str, Learned] | None = None,
    ) -> Contents:
        """New shards (key domain and file) and sketches in, others out: all of it or nothing."""
        with self._opened("BEGIN IMMEDIATE") as db:
            _brought_up(db)
            for table, column, gone in (("shard", "name", without_shards), ("sketch", "digest", without_names)):
                for one in gone:
                    if db.execute(f"DELETE FROM {table} WHERE {column} = ?", (one,)).rowcount != 1:
                        raise self._overtaken()
            try:
                db.executemany("INSERT INTO shard (key_id, name) VALUES (?, ?)", shards)
                rows = [(digest, *_written(entry)) for digest, entry in (sketches or {}).items()]
                columns = "digest, dataset, provider, signer, payload, flags"
                db.executemany(f"INSERT INTO sketch ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)
            except sqlite3.IntegrityError:
                raise self._overtaken() from None
            facts = [(id, last.version, last.sketches, last.withdrawn) for id, last in (learned or {}).items()]
            db.executemany("INSERT OR REPLACE INTO learned VALUES (?, ?, ?, ?)", facts)
            db.execute("UPDATE corpus SET changes = changes + 1")
            db.execute("COMMIT")
        return self.contents()

    # ---------------------------------------------------------------------------------------------- inside

    @contextmanager
    def _opened(self, begin: str, *, whole: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction; what is not committed in it never happened. Whoever reads more than a row reads a `whole` file."""
        if not self._path.exists():
            raise self._missing()
        if (why := self._strange_files()) is not None:
            raise self._anew(why)
        try:
            with closing(sqlite3.connect(self._path, timeout=60, isolation_level=None)) as db:
                careful(db)
                db.execute("PRAGMA secure_delete = ON")  # withdrawn means overwritten
                db.execute(begin)
                if (version := _version(db)) not in READABLE:
                    raise self._anew(f"has format version {version}; this saibot reads version {VERSION}")
                if not declares(db, _DECLARED[version]):
                    raise self._anew("has an index that does more than an index does, or less")
                if whole and not self._sound:
                    if not is_sound(db):
                        raise self._anew("has a damaged index")
                    self._sound = True
                yield db
        except sqlite3.OperationalError as problem:
            raise InvalidInput(f"the index of the corpus {self._folder} cannot be used ({problem}).") from None
        except sqlite3.DatabaseError:
            raise self._anew("has a damaged index") from None

    def _strange_files(self) -> str | None:
        try:
            return strange_files(self._path)
        except OSError as problem:
            return f"has an index that cannot be read ({problem.strerror})"

    def _entry(
        self, dataset: object, provider: object = NOBODY, signer: object = None, payload: object = None, flags: object = "[]"
    ) -> SketchEntry:
        """A folder may come from anybody: what is no text is not believed."""
        try:
            said = tuple(Implausible(str(code), str(text)) for code, text in json.loads(str(flags)))
        except (ValueError, TypeError):
            raise self._anew("has a damaged index") from None
        texts = [None if one is None else str(one) for one in (signer, payload)]
        return SketchEntry(str(dataset), str(provider), texts[0], texts[1], said)

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


def _version(db: sqlite3.Connection) -> int:
    ((version,),) = db.execute("PRAGMA user_version")
    return int(version)


def _brought_up(db: sqlite3.Connection) -> None:
    """To this version, in the transaction that is under way: sketches that were there are nobody's."""
    if _version(db) < VERSION:
        for statement in _ADDED_BY_3.strip().split(";\n"):
            db.execute(statement)


def _written(entry: SketchEntry) -> tuple[str | None, ...]:
    flags = json.dumps([astuple(flag) for flag in entry.flags], ensure_ascii=False)
    return entry.dataset, entry.provider, entry.signer, entry.payload, flags
