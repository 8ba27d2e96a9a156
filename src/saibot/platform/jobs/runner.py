"""Works through the queue: one thread and one worker process for each search that may run at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from saibot.platform.catalog import Catalog
from saibot.platform.jobs.process import Outcome, WorkerProcess
from saibot.platform.logs import Log
from saibot.platform.searches import Searches
from saibot.platform.shards import Shards
from saibot.platform.storage.database import SQLAlchemyError

IDLE_SECONDS = 300.0  # then a worker's memory is given back
TASKS_PER_WORKER = 200
LOOK_SECONDS = 2.0


class Runner:
    def __init__(
        self,
        searches: Searches,
        shards: Shards,
        catalog: Catalog,
        log: Log,
        *,
        workers: int,
        seconds: float,
        memory: int | None = None,
    ) -> None:
        self._searches, self._shards, self._catalog, self._log = searches, shards, catalog, log
        self._seconds = seconds
        self._stopped = threading.Event()
        self._choosing = threading.Lock()
        self._busy: dict[int, str] = {}  # worker number -> account
        self.workers = [WorkerProcess(memory=memory) for _ in range(workers)]
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

    def close(self) -> None:
        """Searches that run say that they failed; those that wait run after the next start."""
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
        with self._choosing:
            row = self._searches.next(list(self._busy.values()))
            if row is None:
                return False
            self._busy[number] = row["account"]
        id, started = row["id"], time.monotonic()
        try:
            outcome = self._attempt(worker, id, row["options"], row["target"], row["account"])
        except Exception as problem:
            self._log.failure("a search could not be run", problem, search=id)
            hint = "Ask again; if it stays, tell the platform's admin the id of the search."
            error = {"code": "internal", "message": "the search could not be run.", "hint": hint, "details": {}}
            outcome = Outcome("failed", error)
        finally:
            self._busy.pop(number, None)
            self._searches.count_time(row["account"], time.monotonic() - started)
        self._end(id, outcome)
        seconds = round(time.monotonic() - started, 3)
        code = None if outcome.error is None else outcome.error["code"]
        self._log.info("search", search=id, status=outcome.status, seconds=seconds, code=code)
        if worker.tasks >= TASKS_PER_WORKER:
            worker.stop()
        return True

    def _end(self, id: str, outcome: Outcome) -> None:
        """Write down how it ended, once the database is there: nobody else would, and it would seem to run for ever."""
        while True:
            try:
                self._searches.end(id, outcome)
                return
            except SQLAlchemyError as problem:
                self._log.failure("the end of a search could not be written down", problem, search=id)
            if self._stopped.wait(LOOK_SECONDS):
                return  # the next start says that it failed

    def _attempt(self, worker: WorkerProcess, id: str, options: str, target: str, account: str) -> Outcome:
        progress: Callable[[str, float | None], None] = lambda stage, part: self._searches.progress(id, stage, part)  # noqa: E731
        progress("taking in what was published lately", None)
        self._shards.catch_up()
        task = {
            "id": id,
            "folder": str(self._searches.folder / id),
            "corpus": str(self._shards.folder),
            "question": options,
            "account": account,
            "addable": list(self._catalog.addable(target)),
        }
        stopping = False

        def cancelled() -> bool:
            nonlocal stopping
            stopping = self._stopped.is_set()
            return stopping or self._searches.is_cancelled(id)

        outcome = worker.run(task, progress=progress, cancelled=cancelled, seconds=self._seconds)
        if outcome.status == "cancelled" and stopping:
            error = {"code": "restarted", "message": "the platform was stopped while the search ran.", "hint": "Ask again."}
            return Outcome("failed", error | {"details": {}})
        return outcome

    def _rest(self, worker: WorkerProcess) -> None:
        if worker.pid is not None and time.monotonic() - worker.last_used > IDLE_SECONDS:
            worker.stop()
        with self._searches.submitted:
            if not self._stopped.is_set():
                self._searches.submitted.wait(LOOK_SECONDS)
