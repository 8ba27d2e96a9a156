"""Searches as jobs: submit, watch, cancel, read the result. They belong to their requester and expire.

The database has its state, `search_queue` whose turn it is, `search_files` the request and the result. How far a search is
that runs here is in memory; other servers read it in the database, which hears of it every second.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.engine import RowMapping

from saibot.platform import uses
from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.clock import days_ago, now
from saibot.platform.errors import Conflict, NotAllowed, NotFound, OverQuota, Unusable
from saibot.platform.jobs.process import Outcome
from saibot.platform.metrics import Metrics
from saibot.platform.pagination import Page, Place
from saibot.platform.search_files import RESULT, SearchFiles
from saibot.platform.search_queue import WAITING, SearchQueue
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import searches
from saibot.platform.validation import accepted_sketch
from saibot.wire import ErrorFacts, Question, Search, Uses
from saibot.wire.search import OVER, Progress

STATUSES = ("queued", "running", *OVER)
_NO_RESULT = {
    "code": "internal",
    "message": "the search ended without a result.",
    "hint": "Ask again; if it stays, tell the platform's admin the id of the search.",
    "details": {},
}


@dataclass
class Live:
    """A search that runs here, as it stands this moment."""

    stage: str
    part: float | None
    attempt: int
    cancelled: bool = False


class Searches:
    """The verbs, and the ledger of jobs that `jobs.runner` works through."""

    def __init__(
        self,
        database: Database,
        trail: Trail,
        settings: Settings,
        files: SearchFiles,
        queue: SearchQueue,
        metrics: Metrics,
        *,
        alone: bool,
    ) -> None:
        """`alone` where no other server runs searches of this database: what is running was cut off."""
        self._database, self._trail, self._settings, self._metrics = database, trail, settings, metrics
        self._files, self.queue = files, queue
        self._live: dict[str, Live] = {}
        self._lock = threading.Lock()
        self.submitted = threading.Condition(self._lock)
        for id in queue.take_back(own=not alone, all=alone):
            files.forget_request(id)
        self._set_folders_in_order(alone=alone)

    # -------------------------------------------------------------------------------------------- verbs

    def submit(self, caller: Caller, train: bytes | Path, test: bytes | Path | None, question: Question) -> Search:
        """Queue a search. Its sketches are checked like published ones."""
        caller.need("requester")
        unsafe, most = self._settings.accept_unsafe, self._settings.keys_per_domain
        sketch, train_bytes = accepted_sketch(train, accept_unsafe=unsafe, most_keys=most)
        target = question.target
        if target not in sketch.features:
            have = ", ".join(sketch.features[:20])
            raise Unusable("the training sketch does not have the target among its features.", hint=f"It has {have}.")
        test_bytes = None if test is None else accepted_sketch(test, accept_unsafe=unsafe, most_keys=most)[1]
        with self._database.read() as connection:
            self._check_quota(connection, caller)
        id = f"s{secrets.token_hex(12)}"
        row = {
            "id": id,
            "account": caller.name,
            "status": "queued",
            "stage": WAITING,
            "target": target,
            "options": question.model_dump_json(),
            "created": now(),
        }
        self._files.put_request(id, train_bytes, test_bytes)
        try:
            with self._database.write() as connection:
                self._database.alone(connection, f"searches of {caller.name}")
                self._check_quota(connection, caller)  # again where it counts: sixty may ask at once
                connection.execute(insert(searches).values(row))
                self._trail.note(connection, caller.name, "ask", id, {"target": target})
        except BaseException:
            self._files.remove(id)
            raise
        with self.submitted:
            self.submitted.notify_all()  # some of those who wait are for strangers only
        return self.show(caller, id)

    def list(self, caller: Caller, place: Place, limit: int) -> Page:
        """One's own searches, latest first; an admin's list has everybody's."""
        if not caller.has("admin"):
            caller.need("requester")
        query = select(searches).order_by(searches.c.number.desc()).limit(limit + 1)
        if not caller.has("admin"):
            query = query.where(searches.c.account == caller.name)
        if place is not None:
            query = query.where(searches.c.number < place[0])
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return Page([self._shown(row) for row in rows[:limit]], [rows[limit - 1]["number"]] if len(rows) > limit else None)

    def by_status(self, caller: Caller) -> dict[str, int]:
        """How many searches there are of each status, for whoever runs the platform."""
        caller.need("admin")
        query = select(searches.c.status, func.count()).group_by(searches.c.status)
        with self._database.read() as connection:
            found = {status: int(number) for status, number in connection.execute(query)}
        return {status: found.get(status, 0) for status in STATUSES}

    def show(self, caller: Caller, id: str) -> Search:
        return self._shown(self._row(caller, id))

    def result(self, caller: Caller, id: str) -> bytes:
        """The document, to its requester only."""
        row = self._own(caller, id)
        if row["status"] != "done":
            raise Conflict(
                f"the search is {row['status']}; there is no result.",
                hint="Wait until it is done: /events tells." if row["status"] not in OVER else "Ask again.",
                code="not_done",
            )
        try:
            return self._files.result(id, row["attempts"])
        except FileNotFoundError:
            raise NotFound("the result has expired.", hint="Ask again.") from None

    def cancel(self, caller: Caller, id: str) -> Search | None:
        """Stop it if it is under way (and how it stands), else remove it with its result (None).

        An admin can stop anybody's search; what is over is its requester's to remove.
        """
        row = self._row(caller, id)
        if row["status"] in OVER or not caller.has("admin"):
            self._own(caller, id)
        if row["status"] in OVER:
            self._remove([id])
            return None
        if row["account"] != caller.name:
            with self._database.write() as connection:
                self._trail.note(connection, caller.name, "cancel search", id, {"requester": row["account"]})
        self._stop(row)
        return self.show(caller, id)

    def stop_all_of(self, account: str) -> int:
        """Stop every search of an account that is under way, as its last token has ended; how many there were."""
        mine = (searches.c.account == account) & searches.c.status.in_(("queued", "running"))
        with self._database.read() as connection:
            rows = connection.execute(select(searches).where(mine)).mappings().all()
        for row in rows:
            self._stop(row)
        return len(rows)

    def peek(self, id: str) -> tuple[str, float | None] | None:
        """Stage and part of a search that runs here; None where it does not. Cheap: no database."""
        with self._lock:
            live = self._live.get(id)
            return None if live is None else (live.stage, live.part)

    # -------------------------------------------------------------------------------------------- for the runner

    def next(self, *, strangers: bool = False) -> RowMapping | None:
        """The search whose turn it is, now running here."""
        row = self.queue.take(strangers=strangers, without=self._here())
        if row is not None:
            with self._lock:
                self._live[row["id"]] = Live("starting", None, row["attempts"])
        return row

    def progress(self, id: str, stage: str, part: float | None) -> None:
        with self._lock:
            live = self._live.get(id)
            if live is not None:
                live.stage, live.part = stage, part

    def is_cancelled(self, id: str) -> bool:
        """Whether somebody wants it stopped, or another server has taken it up."""
        with self._lock:
            live = self._live.get(id)
            return live is not None and live.cancelled

    def keep(self) -> None:
        """Say that the searches here go on and how far they are, and hear which of them should stop."""
        with self._lock:
            running = {id: (live.attempt, live.stage, live.part) for id, live in self._live.items()}
        kept = self.queue.renew(running)
        with self._lock:
            for id in running:
                if kept.get(id, True) and id in self._live:
                    self._live[id].cancelled = True

    def take_back(self) -> None:
        """Searches of servers that are gone wait again. One that still runs here is no other's before it has ended here."""
        for id in self.queue.take_back(without=self._here()):
            self._files.forget_request(id)

    def put_back(self, id: str) -> None:
        """This server stops: another goes on, or this one after its next start."""
        if self.queue.put_back(id, self._live[id].attempt):
            self._files.forget_request(id)
            self._metrics.searches.labels("cancelled").inc()
        self._files.leave(id)
        with self._lock:
            self._live.pop(id, None)

    def request(self, id: str) -> Path:
        """A folder with the request of a search, for its worker."""
        return self._files.fetch(id)

    def end(self, id: str, account: str, outcome: Outcome, *, seconds: float) -> None:
        attempt = self._live[id].attempt
        if outcome.status == "done" and not self._files.has_result(id):
            outcome = Outcome("failed", _NO_RESULT)
        values = {
            "status": outcome.status,
            "stage": {"done": "done", "failed": "failed", "cancelled": "cancelled"}[outcome.status],
            "part": 1.0 if outcome.status == "done" else None,
            "error": None if outcome.error is None else json.dumps(outcome.error),
            "finished": now(),
        }
        taken = self._taken(id) if outcome.status == "done" else set()
        if outcome.status == "done":
            self._files.keep_result(id, attempt)
        if self.queue.end(id, attempt, account, values, seconds=seconds, taken=taken):
            self._files.forget_request(id)
            self._metrics.searches.labels(outcome.status).inc()
            if outcome.died:
                self._metrics.worker_deaths.inc()
        else:  # another server has it
            self._files.drop_result(id, attempt)
            self._files.leave(id)
        with self._lock:
            self._live.pop(id, None)

    def uses_of(self, dataset: str) -> Uses:
        """How many searches have taken a dataset, ever and lately."""
        with self._database.read() as connection:
            total, lately = uses.total_and_lately(connection, dataset)
        return Uses(total=total, lately=lately, days=self._settings.result_days)

    def tidy(self) -> int:
        """Remove what is older than results are kept."""
        with self._database.read() as connection:
            old = searches.c.created < days_ago(self._settings.result_days)
            query = select(searches.c.id).where(old, searches.c.status.in_(OVER)).limit(1000)
            ids = [row.id for row in connection.execute(query)]
        self._remove(ids)
        self._files.sweep_set_aside(self._settings.result_days)
        return len(ids)

    # -------------------------------------------------------------------------------------------- inside

    def _here(self) -> set[str]:
        """The searches that run here, whoever they belong to by now."""
        with self._lock:
            return set(self._live)

    def _set_folders_in_order(self, *, alone: bool) -> None:
        """Those that the database does not know are set aside; requests of what is over go."""
        with self._database.read() as connection:
            known = {row.id: row.status for row in connection.execute(select(searches.c.id, searches.c.status))}
        self._files.set_aside_unknown(known)
        if not alone:
            self._files.hand_over(known)
            return
        for id, status in known.items():
            if status in OVER:
                self._files.forget_request(id)

    def _check_quota(self, connection: Connection, caller: Caller) -> None:
        mine = (searches.c.account == caller.name) & searches.c.status.in_(("queued", "running"))
        count = connection.execute(select(func.count()).select_from(searches).where(mine)).scalar_one()
        if count >= self._settings.searches_per_requester:
            raise OverQuota(
                f"{caller.name} has {count} searches under way, the most allowed.",
                hint="Wait until one is over, or cancel one.",
            )

    def _stop(self, row: RowMapping) -> None:
        if self.queue.stop(row["id"]):
            self._files.forget_request(row["id"])
            self._metrics.searches.labels("cancelled").inc()
        with self._lock:
            if row["id"] in self._live:  # it runs here: no need to wait until this is read in the database
                self._live[row["id"]].cancelled = True

    def _taken(self, id: str) -> set[str]:
        """The sketches that a result took a step with."""
        try:
            document = json.loads((self._files.folder / id / RESULT).read_bytes())
        except (OSError, ValueError):
            return set()
        return {str(step["digest"]) for step in document["steps"]}

    def _remove(self, ids: Sequence[str]) -> None:
        for id in ids:
            self._files.remove(id)
        with self._database.write() as connection:
            for id in ids:
                connection.execute(delete(searches).where(searches.c.id == id))
            uses.forget(connection, ids)

    def _row(self, caller: Caller, id: str) -> RowMapping:
        """The search if the caller may know of it: its requester, or an admin."""
        if not caller.has("admin"):
            caller.need("requester")
        with self._database.read() as connection:
            row = connection.execute(select(searches).where(searches.c.id == id)).mappings().first()
        if row is None or (row["account"] != caller.name and not caller.has("admin")):
            raise NotFound(f"there is no search {id}.", hint="GET /v1/searches lists yours; they are kept for some days.")
        return row

    def _own(self, caller: Caller, id: str) -> RowMapping:
        row = self._row(caller, id)
        if row["account"] != caller.name or not caller.has("requester"):
            raise NotAllowed("a search and its result are its requester's alone.", hint="Ask its requester.")
        return row

    def _shown(self, row: RowMapping) -> Search:
        with self._lock:
            live = self._live.get(row["id"]) if row["status"] not in OVER else None
            stage, part = (row["stage"], row["part"]) if live is None else (live.stage, live.part)
        return Search(
            id=row["id"],
            requester=row["account"],
            status=row["status"],
            progress=Progress(stage=stage, part=part),
            created=row["created"],
            started=row["started"],
            finished=row["finished"],
            target=row["target"],
            error=None if row["error"] is None else ErrorFacts.model_validate_json(row["error"]),
        )
