"""The platform as one object: its verbs, wired to its storage. HTTP and pages are thin faces of this."""

from __future__ import annotations

import json
import math
import shutil
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import select

from saibot.platform.about import SaidOfTables
from saibot.platform.accounts import Accounts, Caller
from saibot.platform.audit_log import DOWNLOAD, Trail
from saibot.platform.catalog import Catalog
from saibot.platform.copies import Copies
from saibot.platform.disk_quota import DiskQuota
from saibot.platform.domains import RegisteredDomains
from saibot.platform.enquiries import EnquiryBook
from saibot.platform.errors import NotFound
from saibot.platform.gauges import add_gauges
from saibot.platform.grants import Grants
from saibot.platform.jobs.heavy import heavy
from saibot.platform.jobs.lacking import lacking
from saibot.platform.jobs.nursery import nursery
from saibot.platform.jobs.runner import Runner
from saibot.platform.key_domains import KeyDomains
from saibot.platform.key_values import KeyValues
from saibot.platform.limits import Limits
from saibot.platform.logs import Log
from saibot.platform.metrics import Metrics
from saibot.platform.opened_corpus import OpenedCorpus
from saibot.platform.providers import Providers
from saibot.platform.publishing import Publishing
from saibot.platform.relatives import Relatives
from saibot.platform.rounds import Rounds
from saibot.platform.search_files import SearchFiles
from saibot.platform.search_queue import SearchQueue
from saibot.platform.searches import Searches
from saibot.platform.servers import Servers
from saibot.platform.set_aside import SetAside, bring_in_order, list_set_aside, named_files, take_out
from saibot.platform.settings import Settings
from saibot.platform.shards import Shards
from saibot.platform.shown_datasets import ShownDatasets
from saibot.platform.shown_sketches import stored_header
from saibot.platform.storage.database import Database, SQLAlchemyError
from saibot.platform.storage.file_names import sketch_file_name
from saibot.platform.storage.files import open_files
from saibot.platform.storage.migrate import migrate
from saibot.platform.storage.ownership import DatabaseLease, check_files_are_ours, check_there_is_one, hold_folder
from saibot.platform.storage.reserve import Reserve, is_full
from saibot.platform.storage.tables import datasets
from saibot.platform.storage.unavailable import told_in_a_line
from saibot.platform.withdrawing import PATIENCE, Withdrawing
from saibot.wire import Dataset, Domain, ProviderStanding, Question, Result, Search
from saibot.wire.dataset import Visibility

TIDY_SECONDS = 60.0
PRUNE_SECONDS = 3600.0
FILLED_AT_START, FILLED_AT_A_TIME = 200, 2000  # payloads of what an earlier version stored
PULSE_SECONDS = 1.0
COUNTED_SECONDS = 5.0  # that what is counted for the trail may be late
WITHDRAWAL_SECONDS = 10.0  # that a withdrawal waits for other servers


class Platform:
    """Opening one brings its storage in order: migrations, withdrawals and uploads that were cut off, shards."""

    def __init__(self, settings: Settings, *, log: Log | None = None) -> None:
        self.settings = settings
        self.log = log or Log(settings.log_level)
        self._held = ExitStack()
        try:
            self._open(settings)
        except BaseException:
            self._held.close()  # whoever tries again must not find this one in the way
            raise

    def _open(self, settings: Settings) -> None:
        self._held.enter_context(hold_folder(settings))
        self._held.enter_context(nursery().in_use())
        self._held.enter_context(lacking.told(self._warn_of_workers))
        self._reserve = Reserve(settings.data)
        self._reserve.release_if_short()
        self.incoming = _emptied(settings.data / "incoming")  # large files while they are checked
        self.database = Database(settings.database_url)
        self._held.callback(self.database.close)
        shared = not self.database.is_sqlite and settings.files is not None
        self.lease = DatabaseLease(self.database, shared=shared)
        self._held.callback(self.lease.close)
        self.files = open_files(settings.files_address, shared=shared)
        check_files_are_ours(self.database, self.files)
        migrate(self.database)
        self.servers = Servers(self.database, self.files, settings.data, shared=shared)
        self._held.callback(self.servers.leave)
        self.trail = Trail(self.database)
        self.accounts = Accounts(self.database, self.trail)
        self.first_admin_token = self.accounts.first_start(settings.data)
        self.limits = Limits(settings)
        self.metrics = Metrics()
        with self.database.holding("start"):  # of several servers one after the other
            self.servers.join()
            self._bring_files_in_order()
        corpus = settings.data / "corpus"
        self.left_out: dict[str, str] = {}  # digests of sketches that cannot be packed, and why
        quota = DiskQuota(self.files)
        self.domains = RegisteredDomains(self.database, self.files, self.trail, settings, corpus / "domains", quota)
        self.domains.restore_copies()
        self.domains.sweep()
        self.catalog = Catalog(self.database)
        self.shown = ShownDatasets(self.catalog, self.files, self.domains, self.left_out)
        self.shards = Shards(
            self.database,
            self.files,
            corpus,
            self.log,
            may_write=self.lease.keep,
            shared=shared,
            before=self.domains.keep_in_step,
            left_out=self._leave_out,
            memory=settings.search_bytes,
        )
        opened = OpenedCorpus(corpus)
        self.relatives = Relatives(self.catalog, self.files, self.domains.registry, opened)
        self.key_domains = KeyDomains(self.catalog, self.domains, opened)
        self.key_values = KeyValues(self.files, opened)
        self.grants = Grants(self.database, self.trail, self.catalog)
        self.enquiries = EnquiryBook(self.database, self.trail, self.catalog, self.grants, settings)
        self.said = SaidOfTables(self.database, self.trail, self.catalog, partial(stored_header, self.files))
        self.copies = Copies(self.database, self.files)
        self.providers = Providers(self.database, self.trail, self.catalog, self.copies)
        self.publishing = Publishing(
            self.database,
            self.files,
            self.trail,
            self.catalog,
            settings,
            providers=self.providers,
            copies=self.copies,
            quota=quota,
            published=self._after_publishing,
            changed=self._after_changing,
        )
        self.withdrawing = Withdrawing(
            self.database,
            self.files,
            self.trail,
            self.catalog,
            self.copies,
            packed=self.shards.packed,
            remove=self._remove_everywhere,
        )
        search_files = SearchFiles(settings.data / "searches", self.files if shared else None)
        queue = SearchQueue(self.database, self.servers.id)
        self.searches = Searches(self.database, self.trail, settings, search_files, queue, self.metrics, alone=not shared)
        self.accounts.on_last_revoked = self.searches.stop_all_of
        self.runner = Runner(
            self.searches,
            self.shards,
            self.catalog,
            self.providers,
            self.log,
            workers=settings.workers,
            seconds=settings.search_seconds,
            memory=settings.search_bytes,
            engine=settings.engine,
            master=settings.spark_master,
        )
        self.withdrawing.tidy()
        self.copies.fill_in(FILLED_AT_START)
        self._reserve.put_by()
        add_gauges(
            self.metrics,
            self.database,
            settings.data,
            under_way=queue.under_way,
            alive=self.runner.alive,
            left_out=self.left_out,
        )
        self._pruned = -math.inf
        self._draining = threading.Event()
        self._rounds = Rounds(self.log)

    # -------------------------------------------------------------------------------------------- verbs

    def register_domain(self, caller: Caller, id: str, version: int, content: bytes | Path) -> tuple[Domain, bool]:
        facts, is_new = self.domains.register(caller, id, version, content)
        if is_new:
            self.shards.repack(facts.digest)
            self.start()
        return facts, is_new

    def accept(
        self, caller: Caller, content: bytes | Path, *, visibility: Visibility | None = None, expires: str | None = None
    ) -> tuple[Dataset, bool]:
        return self.publishing.accept(caller, content, visibility=visibility, expires=expires)

    def withdraw(self, caller: Caller, id: str, *, patience: float = PATIENCE) -> None:
        try:
            self.withdrawing.withdraw(caller, id, patience=patience)
        except Exception as problem:
            if not is_full(problem):
                raise
            self._reserve.release()  # to withdraw is to write first, and what is put by is for that
            try:
                self.withdrawing.withdraw(caller, id, patience=patience)
            except NotFound:
                self.withdrawing.tidy()  # it was begun before the disk was full
            self._reserve.put_by()
        self.said.sweep()
        self.shown.forget()

    def confirm(self, caller: Caller, id: str, digest: str) -> Dataset:
        return self.publishing.confirm(caller, id, digest)

    def verify(self, caller: Caller, name: str) -> ProviderStanding:
        """Say who a provider is. Of copies the verified provider's is the original from now on."""
        found = self.providers.verify(caller, name)
        self._after_changing()
        return found

    def take_verification(self, caller: Caller, name: str) -> ProviderStanding:
        found = self.providers.take_back(caller, name)
        self._after_changing()
        return found

    def result(self, caller: Caller, id: str) -> Result:
        """What a search found, with how those stand at present whose datasets it names."""
        found = Result.read(json.loads(self.searches.result(caller, id)), "of the search")
        standings = self.providers.standings(caller, found.named_providers)
        return found.but(providers=tuple(standings[name] for name in found.named_providers))

    def submit(self, caller: Caller, train: bytes | Path, test: bytes | Path | None, question: Question) -> Search:
        """Queue a search; `searches` shows, lists, cancels and gives its result."""
        found = self.searches.submit(caller, train, test, question)
        self.start()
        return found

    def show(self, caller: Caller, id: str) -> dict[str, Any]:
        """The dataset with its versions, its private profile, what people should know about it, and what it was used for."""
        return self.shown.show(caller, id) | {"uses": self.searches.uses_of(id).to_json()}

    def open_sketch(self, caller: Caller, digest: str, *, counted: bool = True) -> BinaryIO:
        """A published sketch's file; `counted` as a download."""
        self.catalog.digest(caller, digest)
        try:
            found = self.files.open(sketch_file_name(digest))
        except FileNotFoundError:
            raise NotFound("there is no sketch with this digest.", hint="It has just been withdrawn.") from None
        if counted:
            self.trail.count(caller.name, DOWNLOAD, "sketch")
        return found

    def list_set_aside(self, most: int | None = None) -> list[SetAside]:
        """Files that were found without a row in the database."""
        return list_set_aside(self.files, most)

    def restore_set_aside(self, digest: str, provider: str) -> Dataset | Domain:
        """Publish a sketch that was set aside for the account that it is of, and for nobody else: who may see it is lost.

        Or register a key domain again that was, for the account that had registered it.
        """
        one, content = take_out(self.files, digest)
        asking = Caller(provider, frozenset({"provider"}))
        found: Dataset | Domain
        if one.dataset is not None:
            found, _ = self.publishing.accept(asking, content, visibility="granted", restored=True)
        else:
            found, _ = self.domains.restore(asking, content)
            self.shards.repack(digest)
        self.files.delete(one.name)
        return found

    def _bring_files_in_order(self) -> None:
        """What the database names and what is in the file store, brought together and told where they differ.

        Where another server is there, nothing is moved: a file that nothing names may be one that it is about to name.
        """
        found = bring_in_order(self.files, named_files(self.database), move=not self.servers.others())
        self.missing_files = len(found.missing)
        self.metrics.gauge(
            "files_missing", "Files that the database names and that are nowhere.", lambda: self.missing_files
        )
        if found:
            hint = "`saibot aside` lists them; is this the right database?"
            told = {"set_aside": found.set_aside, "given_back": found.given_back, "missing": self.missing_files}
            self.log.warning("files and database differ", hint=hint, first_missing=list(found.missing[:5]), **told)

    def _leave_out(self, digest: str, reason: str) -> None:
        """A sketch that cannot be packed fails no search: it is in none, and its provider and the admins are told."""
        self.left_out[digest] = reason
        self.shown.forget(digest)
        with self.database.write() as connection:
            query = select(datasets.c.id, datasets.c.provider).where(datasets.c.digest == digest)
            for row in connection.execute(query).all():
                self.trail.note(connection, row.provider, "left out", row.id, {"digest": digest, "reason": reason})

    # -------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Begin what happens in the background: packing, searching, expiry."""
        if not self._rounds.begun:
            self.shards.start()
            self.runner.start()
            self._rounds.begin("keeper", TIDY_SECONDS, self.tidy)
            self._rounds.begin("writer", COUNTED_SECONDS, self.trail.flush)
            if not self.database.is_sqlite:  # others may be there, and what they do is heard of in the database
                self._rounds.begin("pulse", PULSE_SECONDS, self._beat)
                self._rounds.begin("follower", PULSE_SECONDS, self._follow)

    def drain(self) -> None:
        """This server is about to stop: it says so to whoever asks whether it is ready, and begins no further search."""
        self._draining.set()
        self.runner.take_no_more()

    def close(self) -> None:
        self._rounds.stop()
        self.runner.close()
        self._rounds.join()
        self.shards.close()
        for task in (self.accounts.note_uses, self.trail.flush):
            try:
                task()
            except SQLAlchemyError as problem:  # away or full: not worth failing to stop
                self.log.failure(f"{task.__name__} failed", problem)
        self._reserve.put_by()
        heavy().stop()
        self._held.close()

    @property
    def stopping(self) -> bool:
        return self._draining.is_set() or self._rounds.stopping

    def healthy(self) -> bool:
        """Whether the database answers."""
        with self.database.read() as connection:
            return bool(connection.execute(select(1)).scalar_one())

    def ready(self) -> dict[str, bool]:
        """Whether each part of the platform can do its work now: the database, room to write, and every file it names."""
        return {
            "database": self.healthy(),
            "space": shutil.disk_usage(self.settings.data).free > 2 * self.settings.max_upload_bytes,
            "files": not self.missing_files,
            "lease": self.lease.keep(),
            "started": self._rounds.begun and not self.stopping,
        }

    @property
    def not_confined(self) -> list[str] | None:
        """What of their confinement workers go without here; None while none has worked."""
        return lacking.parts

    def _warn_of_workers(self, parts: list[str]) -> None:
        hint = "A file that takes over a worker could do more than it should: do the unit or the image forbid the calls?"
        self.log.warning("workers are not confined here as they should be", lacking=parts, hint=hint)

    def _beat(self) -> None:
        """This server is there, and its searches go on; what was revoked elsewhere is refused here."""
        self.searches.keep()
        self.servers.beat(self.shards.revision)
        self.accounts.hear_of_revocations()

    def _follow(self) -> None:
        """What other servers packed or withdrew is so here; what those began that are gone is taken up."""
        if self.shards.keep_in_step():
            self.shown.forget()
        self.searches.take_back()

    def _remove_everywhere(self, digests: set[str], patience: float | None) -> None:
        """Out of the shards of this server, and of those others that answer within a while."""
        self.shards.remove(digests, patience=patience)
        if digests and not self.servers.wait_for_all(self.shards.revision, seconds=WITHDRAWAL_SECONDS):
            self.log.warning("a server is slow to drop what was withdrawn")

    def tidy(self) -> None:
        """What expired goes; tokens that were used say so."""
        self._reserve.put_by()
        self.searches.tidy()
        gone = self.withdrawing.tidy()
        if gone:
            self.said.sweep()
            self.log.info("withdrawn", datasets=gone)
        if self.copies.fill_in(FILLED_AT_A_TIME):
            self.shards.wake()
        self.accounts.note_uses()
        if time.monotonic() - self._pruned > PRUNE_SECONDS:
            self._pruned = time.monotonic()
            self.trail.prune(self.settings.trail_days)
            self.accounts.prune(self.settings.trail_days)

    def _after_publishing(self) -> None:
        self.metrics.uploads.inc()
        self.start()
        self.shards.wake()

    def _after_changing(self) -> None:
        self.start()
        self.shards.wake()


def _emptied(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.iterdir():  # of a platform that was killed
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return folder


def open_platform(settings: Settings, *, new: bool = True) -> Platform:
    """Without `new`, one that is there already."""
    with told_in_a_line():
        if not new:
            check_there_is_one(settings)
        return Platform(settings)
