"""The shards that searches sweep, kept in step with what is published.

The database says what should be in them: the latest version of every dataset that is live. Publishing only marks a version
as not packed yet; packing happens in batches, in the background and again before each search. Shards can be rebuilt from the
stored sketches at any time, so whatever is wrong with them at a start is thrown away.

Of several servers one packs at a time, and the others fetch what it made (`shared_shards`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select, update

from saibot.errors import InvalidInput
from saibot.platform.errors import Busy
from saibot.platform.jobs.heavy import heavy
from saibot.platform.kept_corpus import KeptCorpus
from saibot.platform.lessons import Lessons
from saibot.platform.logs import Log
from saibot.platform.packing import Packing
from saibot.platform.shared_shards import ShardsLost, SharedShards
from saibot.platform.storage.database import Database
from saibot.platform.storage.files import FileStore
from saibot.platform.storage.reserve import is_full
from saibot.platform.storage.tables import datasets, terms, versions
from saibot.search.corpus import Corpus, PreparedValues
from saibot.search.index import CorpusIndex
from saibot.sketch import PublicKey

BATCH = 256
SMALL = 3000  # sketches: up to here packing is done in this process,
LIGHT = 4 << 20  # where neither what is new nor the shards have more bytes
TOO_MUCH = "packing it takes more memory or time than the platform has"
SHARE = 0.25  # of the time, at most, that packing in the background takes
SECONDS = 1800.0


class Shards:
    """Add what was published, remove what was withdrawn. One process writes at a time; searches in other processes read."""

    def __init__(
        self,
        database: Database,
        files: FileStore,
        folder: Path,
        log: Log,
        *,
        may_write: Callable[[], bool] = lambda: True,
        shared: bool = False,
        before: Callable[[], object] = lambda: None,
        left_out: Callable[[str, str], object] = lambda digest, reason: None,
        memory: int | None = None,
    ) -> None:
        """`shared` with other servers; `before` is called before what those have changed is fetched, and `left_out` with the
        digest of a sketch that cannot be packed, and why. `memory` bounds what learning from sketches may take.
        """
        self._database, self._log = database, log
        self.folder = folder
        self._kept = KeptCorpus(folder, files)
        self._may_write = may_write
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._packing: Packing | None = None
        self._unmade = False  # they were dropped, and could not be made anew
        self.left_out = left_out
        self.lessons = Lessons(
            database,
            folder,
            is_light=lambda most: self._is_light((), most=most),
            install=self._install,
            sweep=self._sweep,
            cancelled=self._stopped.is_set,
            memory=memory,
        )
        self._size = 0
        self._known_now: set[str] = set()  # digests of domains that were registered and open levels of what is packed
        self.refused: dict[str, str] = {}  # digests of sketches that no search can use, and why; since this server started
        self._before = before
        self._shared = SharedShards(database, files, folder, place=self._kept.place) if shared else None
        with self._turn():
            self._reconcile(self._open())
            if self._shared is not None:
                self._shared.sweep()
                if not self._shared.revision:
                    self._shared.publish()

    # -------------------------------------------------------------------------------------------- verbs

    def wake(self) -> None:
        """There is something to pack; it happens soon."""
        self._wake.set()

    def catch_up(self) -> int:
        """Everything that was published before this call is in the shards when it returns; how many were packed."""
        packed = 0
        self.keep_in_step()
        self._repack()
        while self._shared is None or self._unpacked():
            with self._turn():
                step = self._pack_some()
            packed += step
            if step < BATCH:
                break
        return packed

    @property
    def revision(self) -> int:
        """Of the shards that are searched here, where several servers share them."""
        return 0 if self._shared is None else self._shared.revision

    def keep_in_step(self) -> bool:
        """Fetch the shards that another server made, where it did; whether there were others than before."""
        if self._shared is None or not self._shared.is_behind():
            return False
        self._before()
        with self._lock:
            try:
                changed = self._shared.pull()
            except ShardsLost:
                return False  # whoever changes them next makes them anew
            self._size = len(Corpus(self.folder))
        return changed

    @contextmanager
    def _turn(self, patience: float | None = None) -> Iterator[None]:
        """Nobody else changes the shards, here or on another server, and these are the latest. Raises Busy where others
        would be at it for more seconds than one has `patience`."""
        with self._alone(patience):
            self._be_latest()
            yield

    @contextmanager
    def _alone(self, patience: float | None) -> Iterator[None]:
        with ExitStack() as held:
            if not self._lock.acquire(timeout=-1 if patience is None else patience):
                raise Busy
            held.callback(self._lock.release)
            if self._shared is not None:
                held.enter_context(self._shared.turn(patience))
            yield

    def _be_latest(self) -> None:
        if self._shared is not None:
            self._before()
            try:
                self._shared.pull()
            except ShardsLost:
                self._log.warning("the shards of the other servers are lost, and made anew")
                self._make_anew()
            if CorpusIndex.is_in(self.folder):
                self._size = len(Corpus(self.folder))
        if self._unmade:  # the disk was full
            self._make_anew()

    def packed(self, digests: Collection[str]) -> set[str]:
        """Those of them that are in the shards here."""
        return set(CorpusIndex(self.folder).entries(digests)) if CorpusIndex.is_in(self.folder) else set()

    def remove(self, digests: Collection[str], *, patience: float | None = None) -> None:
        """Their values are in no file when this returns. Raises Busy where it had to wait longer than one has patience."""
        if not digests:
            return
        with self._alone(patience):
            try:
                self._be_latest()
                self._apply(remove=digests)
            except Exception as problem:
                if not is_full(problem):
                    raise
                # To take a sketch out of a shard is to write the others anew. All shards can be made anew later.
                self._log.warning("the disk is full: shards are dropped, and made anew when there is room")
                try:
                    self._make_anew()
                    if self._shared is not None:
                        self._shared.publish()  # nobody searches, or fetches, what was in the others
                except Exception as again:
                    if not is_full(again):
                        raise
            if self._shared is not None:
                self._shared.sweep()  # a server that was killed may have left files of theirs behind

    def repack(self, domain: str) -> None:
        """A domain of this digest became known: sketches whose key levels it opens are packed again soon, now with them."""
        self._known_now.add(domain)
        self.wake()

    def _repack(self) -> None:
        while self._known_now:
            with self._lock:  # nobody goes on with a sketch that is out of the shards and not yet known to be
                for domain in tuple(self._known_now):
                    self._unpack(domain)
                    self._known_now.discard(domain)

    def _unpack(self, domain: str) -> None:
        with self._database.read() as connection:
            query = select(datasets.c.number, datasets.c.digest).join(terms, terms.c.dataset == datasets.c.number)
            rows = connection.execute(query.where(terms.c.term == f"k:{domain}")).all()
        if not rows:
            return
        self.remove({row.digest for row in rows})
        with self._database.write() as connection:
            for row in rows:
                connection.execute(update(versions).where(versions.c.dataset == row.number).values(packed=False))

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="saibot-shards", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.lessons.close()

    def __len__(self) -> int:
        return self._size

    # -------------------------------------------------------------------------------------------- packing

    def _run(self) -> None:
        while not self._stopped.is_set():
            woken = self._wake.wait(self.lessons.pause)
            if self.lessons.is_time(paused=not woken):
                self._try("learning what tables share", self.lessons.learn_if_due)
                continue
            self._wake.clear()
            if self._stopped.is_set():
                return
            started = time.monotonic()
            self._try("packing", self.catch_up)  # where it fails, the next publication or search tries again
            self.lessons.note_packing(started)
            self._stopped.wait((time.monotonic() - started) * (1 / SHARE - 1))

    def _try(self, what: str, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as problem:
            self._log.failure(f"{what} failed", problem)

    def _unpacked(self) -> bool:
        """Whether something that is published is in no shard yet."""
        query = select(versions.c.digest).join(datasets, datasets.c.number == versions.c.dataset)
        with self._database.read() as connection:
            wanted = query.where(versions.c.packed.is_(False), datasets.c.state == "live")
            return connection.execute(wanted.limit(1)).first() is not None

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
            current = _live(connection, touched)
        new = [row.digest for row in rows if row.version == row.latest and row.digest in current]
        new = list(dict.fromkeys(new))
        self._apply(remove=(touched - current.keys()) | self._stale({digest: current[digest] for digest in new}))
        for digest in new:
            self._kept.place(digest)
        self._apply(add=new, providers={digest: current[digest][0] for digest in new})
        with self._database.write() as connection:
            live = _live(connection, touched)
            for row in rows:
                if live.get(row.digest) != current.get(row.digest):
                    continue  # a copy became the original meanwhile, or somebody signed: it is packed again, otherwise
                done = update(versions).where(versions.c.dataset == row.dataset, versions.c.version == row.version)
                connection.execute(done.values(packed=True))
        # One that expired meanwhile was not packed yet when it was looked for to be taken out.
        self._apply(remove=set(new) - live.keys())
        return len(rows)

    def _stale(self, current: dict[str, tuple[str, str | None]]) -> set[str]:
        """Sketches that are packed as another provider's, or as signed by another key."""
        packed = CorpusIndex(self.folder).entries(current)
        signers = {digest: None if key is None else PublicKey.read(key).fingerprint for digest, (_, key) in current.items()}
        return {
            digest
            for digest, entry in packed.items()
            if (entry.provider, entry.signer) != (current[digest][0], signers[digest])
        }

    def _install(self, prepared: Sequence[PreparedValues]) -> None:
        """Values that were learned come in the place of those in use."""
        with self._turn():
            self._apply(install=prepared)

    def _sweep(self) -> None:
        with self._turn():
            self._kept.sweep(Corpus(self.folder))

    def _apply(
        self,
        *,
        add: Collection[str] = (),
        remove: Collection[str] = (),
        install: Sequence[PreparedValues] = (),
        providers: Mapping[str, str] | None = None,
    ) -> None:
        if not add and not remove and not install:
            return
        if not self._may_write():
            raise RuntimeError("another platform has taken the database: packing stops here")
        if self._is_light(add):
            self._packing = self._packing or Packing(self.folder)
            terms: dict[str, Any] = {"add": list(add), "remove": list(remove), "providers": providers or {}}
            answer: dict[str, Any] = self._packing.apply(**terms, install=install)
        else:
            self._packing = None
            values = [asdict(one) for one in install]
            change = {"add": list(add), "remove": list(remove), "install": values, "providers": dict(providers or {})}
            task = {"pack": {"folder": str(self.folder)} | change}
            outcome = heavy().run(task, seconds=SECONDS)
            if outcome.status != "done" and len(add) > 1:  # one of them may be what it cannot take
                self._apply(remove=remove, install=install)
                for digest in add:
                    self._apply(add=[digest], providers=providers)
                return
            if outcome.status != "done" and not add:
                raise RuntimeError("the process that packs did not finish")
            none = {"size": self._size, "refused": [(digest, TOO_MUCH) for digest in add]}
            answer = outcome.answer if outcome.status == "done" else none
        self._size = answer["size"]
        if self._shared is not None:
            self._shared.publish()
        refused: dict[str, str] = dict(answer["refused"])
        for digest in {*add, *remove} - refused.keys():
            self.refused.pop(digest, None)
        self.refused |= refused
        for digest, reason in refused.items():
            self._log.warning("not packed", digest=digest, reason=reason)
            self.left_out(digest, reason)

    def _is_light(self, add: Collection[str], *, most: int = LIGHT) -> bool:
        """Whether packing can be done in this process, beside answering people."""
        return self._size <= SMALL and self._kept.bytes_of(add) <= most and self._kept.bytes_of_shards() <= most

    # -------------------------------------------------------------------------------------------- opening

    def _open(self) -> Corpus:
        """The corpus as its index says, without anything that the index does not name; else an empty one."""
        try:
            corpus = self._kept.opened()
        except (InvalidInput, FileNotFoundError):
            if self._shared is not None:
                self._shared.forget()
            return self._kept.start_over()
        self._kept.sweep(corpus)
        return corpus

    def _make_anew(self) -> None:
        """Empty shards, which are packed again. Where there is no room even for those, at the next turn."""
        self._packing, self._unmade = None, True
        if self._shared is not None:
            self._shared.forget()
        self._kept.start_over()
        self._reconcile(self._open())
        self._unmade = False

    def _reconcile(self, corpus: Corpus) -> None:
        """What should be in and is not, is packed again; what should not be in, goes."""
        have = set(corpus.digests)
        self._size = len(have)
        with self._database.read() as connection:
            in_use = (datasets.c.state == "live") & datasets.c.copy_of.is_(None)
            rows = connection.execute(select(datasets.c.number, datasets.c.digest).where(in_use)).all()
        self._apply(remove=have - {row.digest for row in rows})
        missing = [row.number for row in rows if row.digest not in have]
        if missing:
            with self._database.write() as connection:
                for start in range(0, len(missing), 500):
                    some = versions.c.dataset.in_(missing[start : start + 500])
                    connection.execute(update(versions).where(some).values(packed=False))
        self._wake.set()


def _live(connection: Connection, digests: Collection[str]) -> dict[str, tuple[str, str | None]]:
    """Provider and signer of those that a dataset has as its latest version which people may use; of copies the original
    counts."""
    found = select(datasets.c.digest, datasets.c.state, datasets.c.copy_of, datasets.c.provider, versions.c.signer)
    found = found.join(versions, versions.c.dataset == datasets.c.number)
    found = found.where(versions.c.digest.in_(digests), datasets.c.digest == versions.c.digest)
    in_use = [row for row in connection.execute(found) if row.state == "live" and row.copy_of is None]
    return {row.digest: (row.provider, row.signer) for row in in_use}
