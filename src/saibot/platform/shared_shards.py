"""One set of shards for several servers: whoever packs puts the new files into the file store, the others fetch them.

A row of the database names the shards in use: the file of the index, and those that it names. Whoever is about to change
them takes a turn that one server has at a time, fetches what is in use, changes it, and puts the result in its place. The
row is changed only if it still is what was fetched: where the turn was lost meanwhile, with the connection to the database,
nothing happened.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import insert, select, update

from saibot.platform.storage.database import Database
from saibot.platform.storage.files import FileStore
from saibot.platform.storage.tables import shared_shards
from saibot.safe_file import write_safely, writing
from saibot.search.index import FILE as INDEX
from saibot.search.index import CorpusIndex
from saibot.sketch import SUFFIX

STORED = "corpus/"  # before the names of the files, in the file store
TRIES = 5
_PARTS = ("shards", "keys", "factors")
_MINE = "shared.json"  # in the folder: the manifest that its files are those of


class ShardsLost(Exception):
    """The database names files that the file store does not have: the shards have to be made anew."""


class TurnLost(RuntimeError):
    """Another server has changed the shards meanwhile; what was done here counts for nothing."""


@dataclass(frozen=True)
class Manifest:
    revision: int  # one more with every change
    index: str
    files: tuple[str, ...]  # names below the folder


class SharedShards:
    """The shards of a folder, kept in step with those of the other servers. `place` puts a sketch into the folder."""

    def __init__(self, database: Database, files: FileStore, folder: Path, *, place: Callable[[str], None]) -> None:
        self._database, self._files, self._folder, self._place = database, files, folder, place
        for part in (*_PARTS, "sketches"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self._mine = self._remembered()

    @property
    def revision(self) -> int:
        """Of what is in the folder."""
        return 0 if self._mine is None else self._mine.revision

    @contextmanager
    def turn(self, patience: float | None = None) -> Iterator[None]:
        """No other server changes the shards until the block ends."""
        with self._database.holding("shards", patience=patience):
            yield

    def is_behind(self) -> bool:
        """Whether other shards are in use than those in the folder."""
        with self._database.read() as connection:
            found = connection.execute(select(shared_shards.c.revision, shared_shards.c.index)).first()
        mine = None if self._mine is None else (self._mine.revision, self._mine.index)
        return (None if found is None else tuple(found)) != mine

    def pull(self) -> bool:
        """Fetch the shards in use; whether they are others than before. Raises ShardsLost."""
        last: Manifest | None = None
        for _ in range(TRIES):
            wanted = self._in_use()
            if wanted is None or wanted == self._mine:
                return False
            if wanted == last:
                break
            try:
                self._fetch(wanted)
                return True
            except FileNotFoundError:
                last = wanted  # replaced meanwhile, or lost
        raise ShardsLost

    def publish(self) -> None:
        """What is in the folder is what all servers search from now on. In one's turn, after `pull`."""
        before = self._mine
        names = tuple(sorted(self._named()))
        revision = (self._in_use_revision() if before is None else before.revision) + 1
        now = Manifest(revision, f"{secrets.token_hex(16)}.sqlite", names)
        had = set() if before is None else set(before.files)
        try:
            for name in (*(one for one in names if one not in had), now.index):
                source = INDEX if name == now.index else name
                self._files.put(STORED + name, (self._folder / source).read_bytes())
            self._count(now)
        except BaseException:
            self.forget()
            with suppress(Exception):  # who cannot ask which shards are in use deletes none: `sweep` does
                ours = {name for name in names if name.startswith("shards/")} - had  # the others are called by their content
                self._drop({*ours, now.index} - self._names_in_use())
            raise
        self._remember(now)
        self._drop({*had, *(() if before is None else (before.index,))} - set(names))

    def forget(self) -> None:
        """What is in the folder is nobody's: the next `pull` fetches what counts."""
        self._mine = None
        (self._folder / _MINE).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete files in the store that a server left behind which was killed in its turn. In one's turn."""
        stored = {name.removeprefix(STORED) for name in self._files.names(STORED)}
        self._drop(stored - self._names_in_use())

    # -------------------------------------------------------------------------------------------- inside

    def _in_use(self) -> Manifest | None:
        with self._database.read() as connection:
            row = connection.execute(select(shared_shards)).mappings().first()
        return None if row is None else Manifest(row["revision"], row["index"], tuple(json.loads(row["files"])))

    def _names_in_use(self) -> set[str]:
        found = self._in_use()
        return set() if found is None else {*found.files, found.index}

    def _in_use_revision(self) -> int:
        found = self._in_use()
        return 0 if found is None else found.revision

    def _count(self, now: Manifest) -> None:
        values = {"revision": now.revision, "index": now.index, "files": json.dumps(now.files)}
        with self._database.write() as connection:
            query = update(shared_shards).where(shared_shards.c.revision == now.revision - 1).values(values)
            if connection.execute(query).rowcount == 1:
                return
            if now.revision != 1 or connection.execute(select(shared_shards.c.id)).first() is not None:
                raise TurnLost("another server has changed the shards")
            connection.execute(insert(shared_shards).values(id=1, **values))

    def _fetch(self, wanted: Manifest) -> None:
        """Files first, then the index in one step, then what is needed no longer goes."""
        for name in wanted.files:
            path = self._folder / name
            if not path.exists():
                write_safely(path, self._read(name), public=True)
        before = self._digests(self._folder / INDEX)
        with writing(self._folder / INDEX, public=True) as temporary:
            temporary.write_bytes(self._read(wanted.index))
            with closing(sqlite3.connect(temporary)) as index:  # no state of this folder is ever mistaken for this one
                index.execute("UPDATE corpus SET identity = ?", (wanted.index[:16],))
                index.commit()
            after = self._digests(temporary)
            for digest in after - before:
                self._place(digest)
        stale = self._present() if self._mine is None else set(self._mine.files)
        for name in stale - set(wanted.files):
            (self._folder / name).unlink(missing_ok=True)
        for digest in before - after:
            (self._folder / "sketches" / f"{digest}{SUFFIX}").unlink(missing_ok=True)
        self._remember(wanted)

    def _read(self, name: str) -> bytes:
        with self._files.open(STORED + name) as file:
            return file.read()

    def _named(self) -> set[str]:
        """Files of the folder that count: the shards that the index names, all lists of keys and factors."""
        shards = {f"shards/{name}" for names in CorpusIndex(self._folder).contents().shards.values() for name in names}
        return shards | {name for name in self._present() if not name.startswith("shards/")}

    def _present(self) -> set[str]:
        return {
            f"{part}/{path.name}"
            for part in _PARTS
            for path in (self._folder / part).glob("*")
            if not path.name.startswith(".")
        }

    @staticmethod
    def _digests(index: Path) -> set[str]:
        if not index.exists():
            return set()
        with closing(sqlite3.connect(index)) as opened:
            return {digest for (digest,) in opened.execute("SELECT digest FROM sketch")}

    def _drop(self, names: set[str]) -> None:
        for name in names:
            self._files.delete(STORED + name)

    def _remembered(self) -> Manifest | None:
        try:
            facts = json.loads((self._folder / _MINE).read_bytes())
            return Manifest(facts["revision"], facts["index"], tuple(facts["files"]))
        except (OSError, ValueError, KeyError):
            return None

    def _remember(self, manifest: Manifest) -> None:
        write_safely(self._folder / _MINE, json.dumps(asdict(manifest)).encode())
        self._mine = manifest
