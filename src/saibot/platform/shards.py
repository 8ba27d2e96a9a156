"""The shards that searches sweep, kept in step with what is published.

The database says what should be in them: the latest version of every dataset that is live. Publishing only marks a version
as not packed yet; packing happens in batches, in the background and again before each search. Shards can be rebuilt from the
stored sketches at any time, so whatever is wrong with them at a start is thrown away.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

from sqlalchemy import select, update

from saibot.errors import InvalidDomain, InvalidInput, InvalidSketch
from saibot.platform.domains import Domains
from saibot.platform.logs import Log
from saibot.platform.publishing import file_name
from saibot.platform.storage.database import Database
from saibot.platform.storage.files import FileStore, write_durably
from saibot.platform.storage.tables import datasets, terms, versions
from saibot.search.asking import known_domains
from saibot.search.corpus import Corpus
from saibot.sketch import SUFFIX, KeyDomain, Sketch, read_sketch

BATCH = 256
MERGED_AT = 8  # shards of about one size
LARGEST = 64 << 20  # bytes of a shard that is still merged with others: a withdrawal rewrites at most this


class Shards:
    """Add what was published, remove what was withdrawn. One process writes; searches in other processes read."""

    def __init__(self, database: Database, files: FileStore, domains: Domains, folder: Path, log: Log) -> None:
        self._database, self._files, self._domains, self._log = database, files, domains, log
        self.folder = folder
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._corpus = self._open()
        self._reconcile()

    # -------------------------------------------------------------------------------------------- verbs

    def wake(self) -> None:
        """There is something to pack; it happens soon."""
        self._wake.set()

    def catch_up(self) -> int:
        """Everything that was published before this call is in the shards when it returns; how many were packed."""
        packed = 0
        while True:
            with self._lock:
                step = self._pack_some()
            packed += step
            if step < BATCH:
                return packed

    def remove(self, digests: set[str]) -> None:
        """Their values are in no file when this returns."""
        with self._lock:
            for digest in digests:
                self._corpus.remove(digest)

    def repack(self, domain: KeyDomain) -> None:
        """A domain became known: sketches whose key levels it opens are packed again, now with them."""
        with self._database.read() as connection:
            query = select(datasets.c.number, datasets.c.digest).join(terms, terms.c.dataset == datasets.c.number)
            rows = connection.execute(query.where(terms.c.term == f"k:{domain.digest}")).all()
        if not rows:
            return
        self.remove({row.digest for row in rows})
        with self._database.write() as connection:
            for row in rows:
                connection.execute(update(versions).where(versions.c.dataset == row.number).values(packed=False))
        self.wake()

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="saibot-shards", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def __len__(self) -> int:
        return len(self._corpus)

    # -------------------------------------------------------------------------------------------- packing

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait()
            self._wake.clear()
            if self._stopped:
                return
            try:
                self.catch_up()
            except Exception as problem:  # the next publication or search tries again
                self._log.failure("packing failed", problem)

    def _pack_some(self) -> int:
        with self._database.read() as connection:
            query = (
                select(versions.c.dataset, versions.c.version, versions.c.digest, datasets.c.version.label("latest"))
                .join(datasets, datasets.c.number == versions.c.dataset)
                .where(versions.c.packed.is_(False), datasets.c.state == "live")
                .order_by(versions.c.dataset, versions.c.version)
                .limit(BATCH)
            )
            rows = connection.execute(query).all()
            if not rows:
                return 0
            numbers = {row.dataset for row in rows}
            every = select(versions.c.digest).where(versions.c.dataset.in_(numbers))
            touched = {row.digest for row in connection.execute(every)}
            still = select(datasets.c.digest).where(datasets.c.digest.in_(touched), datasets.c.state == "live")
            current = {row.digest for row in connection.execute(still)}
        sketches = [
            sketch
            for row in rows
            if row.version == row.latest and row.digest in current and (sketch := self._fetch(row.digest)) is not None
        ]
        for refused in self._corpus.add(sketches, self._levels(sketches)):
            self._log.warning("not packed", digest=refused.digest, dataset=refused.dataset, reason=refused.reason)
        self.remove(touched - current)  # versions that a later one replaces
        self._merge()
        with self._database.write() as connection:
            for row in rows:
                done = update(versions).where(versions.c.dataset == row.dataset, versions.c.version == row.version)
                connection.execute(done.values(packed=True))
        return len(rows)

    def _fetch(self, digest: str) -> Sketch | None:
        """The sketch, its file put where the corpus keeps sketches: a link, or a copy of a remote one."""
        path = self.folder / "sketches" / f"{digest}{SUFFIX}"
        if not path.exists():
            place = self._files.place(file_name(digest))
            try:
                if place is not None:
                    with suppress(FileExistsError):
                        _link(place, path)
                else:
                    with self._files.open(file_name(digest)) as file:
                        write_durably(path, file.read())
            except FileNotFoundError:
                return None  # withdrawn meanwhile
        try:
            return read_sketch(path)
        except InvalidSketch:
            self._log.warning("a stored sketch is damaged", digest=digest)
            path.unlink(missing_ok=True)
            return None

    def _levels(self, sketches: list[Sketch]) -> dict[str, KeyDomain]:
        """The domains of sketches with coarser key levels, where they are known."""
        find = known_domains(self._domains.registry)
        found = {}
        for sketch in sketches:
            key = sketch.header.key
            if key is not None and key.levels:
                domain = find(key.parts[0])
                with suppress(InvalidDomain):
                    if domain is not None and domain.with_levels(key.levels):
                        found[key.parts[0].digest] = domain
        return found

    def _merge(self) -> None:
        """Few large shards instead of many small ones; each value is rewritten once for every eightfold growth."""
        for id, names in list(self._corpus.key_ids.items()):
            tiers: dict[int, list[str]] = {}
            for name in names:
                size = (self.folder / "shards" / name).stat().st_size
                if size < LARGEST:
                    tiers.setdefault(size.bit_length() // 3, []).append(name)
            for alike in tiers.values():
                if len(alike) >= MERGED_AT:
                    self._corpus.merge(id, alike)

    # -------------------------------------------------------------------------------------------- opening

    def _open(self) -> Corpus:
        """The corpus as its index says, without anything that the index does not name."""
        try:
            corpus = Corpus(self.folder)
            named = {name for names in corpus.key_ids.values() for name in names}
            missing = [name for name in named if not (self.folder / "shards" / name).is_file()]
            if missing:
                raise InvalidInput("a shard is missing.")
        except InvalidInput:
            for name in ("index.json", "shards", "sketches"):
                path = self.folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            return Corpus.create(self.folder)
        known = {f"{digest}{SUFFIX}" for digest in corpus.digests}
        for path in (*self.folder.glob("shards/*"), *self.folder.glob("sketches/*"), *self.folder.glob(".index.json.*")):
            if path.name not in named and path.name not in known:
                path.unlink()
        return corpus

    def _reconcile(self) -> None:
        """What should be in and is not, is packed again; what should not be in, goes."""
        have = set(self._corpus.digests)
        with self._database.read() as connection:
            rows = connection.execute(select(datasets.c.number, datasets.c.digest).where(datasets.c.state == "live")).all()
        self.remove(have - {row.digest for row in rows})
        missing = [row.number for row in rows if row.digest not in have]
        if missing:
            with self._database.write() as connection:
                for start in range(0, len(missing), 500):
                    some = versions.c.dataset.in_(missing[start : start + 500])
                    connection.execute(update(versions).where(some).values(packed=False))
        self._wake.set()


def _link(place: Path, path: Path) -> None:
    try:
        os.link(place, path)
    except FileExistsError:
        raise
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without links
        write_durably(path, place.read_bytes())
