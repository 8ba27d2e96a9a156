"""Works through the queue: a thread and a worker process for each search that is under way here.

As many run at a time as there are `workers`. As many again may stand still: where all that run have had their slice of time
and an account waits that has nothing running, its search is begun, and one of the others gives way. Not on Spark, whose
work in other processes would not stand still.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqlalchemy.engine import RowMapping

from saibot.platform.catalog import Catalog
from saibot.platform.jobs.process import Outcome, WorkerProcess
from saibot.platform.jobs.turns import Turns
from saibot.platform.logs import Log
from saibot.platform.providers import Providers
from saibot.platform.searches import Searches
from saibot.platform.shards import Shards
from saibot.platform.storage.database import SQLAlchemyError
from saibot.platform.storage.unavailable import is_away
from saibot.wire.options import EngineName

IDLE_SECONDS = 300.0  # then a worker that stays gives back what it holds
LOOK_SECONDS = 2.0


class Runner:
    def __init__(
        self,
        searches: Searches,
        shards: Shards,
        catalog: Catalog,
        providers: Providers,
        log: Log,
        *,
        workers: int,
        seconds: float,
        memory: int | None = None,
        engine: EngineName = "auto",
        master: str | None = None,
    ) -> None:
        self._engine = {"engine": engine, "master": master}
        self._searches, self._shards, self._catalog, self._log = searches, shards, catalog, log
        self._providers = providers
        self._seconds = seconds
        self._full = threading.Event()
        self._stopped = threading.Event()
        self._number = workers
        self._turns = Turns(workers)
        may_stay = engine != "threads"
        self.workers = [
            WorkerProcess(memory=memory, may_stay=may_stay) for _ in range(workers if engine == "spark" else 2 * workers)
        ]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        if not self._threads:
            for number in range(len(self.workers)):
                thread = threading.Thread(target=self._run, args=(number,), name=f"saibot-search-{number}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def alive(self) -> int:
        """How many worker processes there are."""
        return sum(worker.pid is not None for worker in self.workers)

    def take_no_more(self) -> None:
        """What runs goes on; what waits is another server's, or for the next start."""
        self._full.set()

    def close(self) -> None:
        """Searches that run are put back into the queue: another server goes on with them, or the next start."""
        self._full.set()
        self._stopped.set()
        with self._searches.submitted:
            self._searches.submitted.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        worker = self.workers[number]
        while not self._stopped.is_set():
            try:
                if not self._run_one(number, worker):
                    self._rest(worker)
            except Exception as problem:  # the database is away: try again
                self._log.failure("running a search failed", problem)
                self._stopped.wait(LOOK_SECONDS)
        worker.stop()

    def _run_one(self, number: int, worker: WorkerProcess) -> bool:
        is_extra = number >= self._number
        if self._full.is_set() or (is_extra and not self._turns.could_give_way()):
            return False
        row = self._searches.next(strangers=is_extra)
        if row is None:
            return False
        id, started = row["id"], time.monotonic()
        try:
            self._turns.take(worker, given_up=lambda: self._stopped.is_set() or self._searches.is_cancelled(id))
            outcome = self._attempt(worker, row)
        except Exception as problem:
            self._log.failure("a search could not be run", problem, search=id)
            hint = "Ask again; if it stays, tell the platform's admin the id of the search."
            error = {"code": "internal", "message": "the search could not be run.", "hint": hint, "details": {}}
            database_is_away = isinstance(problem, SQLAlchemyError) and is_away(problem)
            outcome = None if database_is_away else Outcome("failed", error)
        finally:
            self._turns.leave(worker)
        seconds = round(time.monotonic() - started, 3)
        self._end(id, row["account"], outcome, seconds)
        code = None if outcome is None or outcome.error is None else outcome.error["code"]
        status = "put back" if outcome is None else outcome.status
        self._log.info("search", search=id, status=status, seconds=seconds, code=code)
        return True

    def _end(self, id: str, account: str, outcome: Outcome | None, seconds: float) -> None:
        """Write down how it ended, once the storage is there, or that it did not."""
        while True:
            try:
                if outcome is None:
                    self._searches.put_back(id)
                else:
                    self._searches.end(id, account, outcome, seconds=seconds)
                return
            except (SQLAlchemyError, OSError) as problem:
                self._log.failure("the end of a search could not be written down", problem, search=id)
            if self._stopped.wait(LOOK_SECONDS):
                return  # another server takes it up, or the next start

    def _attempt(self, worker: WorkerProcess, row: RowMapping) -> Outcome | None:
        """How it ended; None if it did not, for the platform stops: it is put back into the queue."""
        id = row["id"]
        progress: Callable[[str, float | None], None] = lambda stage, part: self._searches.progress(id, stage, part)  # noqa: E731
        progress("taking in what was published lately", None)
        self._shards.catch_up()
        task = {
            "id": id,
            "folder": str(self._searches.request(id)),
            "corpus": str(self._shards.folder),
            "question": row["options"],
            "account": row["account"],
            "addable": list(self._catalog.addable(row["target"])),
            "hidden": list(self._catalog.hidden_from(row["account"])),
            "verified": sorted(self._providers.verified()),
            "on": self._engine,
        }
        stopping = False

        def cancelled() -> bool:
            nonlocal stopping
            stopping = self._stopped.is_set()
            return stopping or self._searches.is_cancelled(id)

        def give_way() -> float:
            if not self._turns.is_over(worker):
                return 0.0
            started = time.monotonic()
            progress("standing still while others search", None)
            worker.pause()
            self._turns.leave(worker)
            self._turns.take(worker, given_up=cancelled)
            worker.go_on()
            progress("going on", None)
            return time.monotonic() - started

        outcome = worker.run(task, progress=progress, cancelled=cancelled, seconds=self._seconds, give_way=give_way)
        return None if outcome.status == "cancelled" and stopping else outcome

    def _rest(self, worker: WorkerProcess) -> None:
        if worker.pid is not None and time.monotonic() - worker.last_used > IDLE_SECONDS:
            worker.stop()
        with self._searches.submitted:
            if not self._stopped.is_set():
                self._searches.submitted.wait(LOOK_SECONDS)
