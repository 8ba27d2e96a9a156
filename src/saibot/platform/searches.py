"""Searches as jobs: submit, watch, cancel, read the result. They belong to their requester and expire.

What a search needs lies in a folder of its own: the request's sketches until it ends, then the result. The database has its
state; progress in between is in memory only, for it is gone with the process that makes it.
"""

from __future__ import annotations

import json
import secrets
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.clock import days_ago, now
from saibot.platform.errors import Conflict, NotAllowed, NotFound, OverQuota, Unusable
from saibot.platform.jobs.process import Outcome
from saibot.platform.metrics import Metrics
from saibot.platform.pagination import Page, Place
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import searches, uses
from saibot.platform.validation import accepted_sketch
from saibot.safe_file import sync_folder, write_safely
from saibot.wire import ErrorFacts, Question, Search
from saibot.wire.search import OVER, Progress

RESULT = "result.json"
HALF_LIFE = 600.0  # seconds in which half of what an account was served is forgotten
SET_ASIDE = ".set-aside-"  # before the name of a folder that the database does not know
STATUSES = ("queued", "running", *OVER)


@dataclass
class Live:
    """A search that is queued or running, as it stands this moment."""

    id: str
    stage: str
    part: float | None
    cancelled: bool = False


class Searches:
    """The verbs, and the ledger of jobs that `jobs.runner` works through."""

    def __init__(self, database: Database, trail: Trail, settings: Settings, folder: Path, metrics: Metrics) -> None:
        self._database, self._trail, self._settings, self._metrics = database, trail, settings, metrics
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._live: dict[str, Live] = {}
        self._lock = threading.Lock()
        self._asking = threading.Lock()  # counting and entering are one step, on Postgres too
        self._served: dict[str, float] = {}  # account -> seconds of workers' time, fading
        self._faded = time.monotonic()
        self.submitted = threading.Condition(self._lock)
        self._after_a_restart()

    # -------------------------------------------------------------------------------------------- verbs

    def submit(self, caller: Caller, train: bytes, test: bytes | None, question: Question) -> Search:
        """Queue a search. Its sketches are checked like published ones."""
        caller.need("requester")
        unsafe = self._settings.accept_unsafe
        sketch, train_bytes = accepted_sketch(train, accept_unsafe=unsafe)
        target = question.target
        if target not in sketch.features:
            have = ", ".join(sketch.features[:20])
            raise Unusable("the training sketch does not have the target among its features.", hint=f"It has {have}.")
        test_bytes = None if test is None else accepted_sketch(test, accept_unsafe=unsafe)[1]
        with self._database.read() as connection:
            self._check_quota(connection, caller)
        id = f"s{secrets.token_hex(12)}"
        folder = self.folder / id
        row = {
            "id": id,
            "account": caller.name,
            "status": "queued",
            "stage": "waiting for a free worker",
            "target": target,
            "options": question.model_dump_json(),
            "created": now(),
        }
        try:
            folder.mkdir(mode=0o700)
            write_safely(folder / "train.saibot", train_bytes)
            if test_bytes is not None:
                write_safely(folder / "test.saibot", test_bytes)
            sync_folder(self.folder)
            with self._asking, self._database.write() as connection:
                self._check_quota(connection, caller)  # again where it counts: sixty may ask at once
                connection.execute(insert(searches).values(row))
                self._trail.note(connection, caller.name, "ask", id, {"target": target})
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # a full disk stays no fuller than it was
            raise
        with self.submitted:
            self._live[id] = Live(id, str(row["stage"]), None)
            self.submitted.notify()
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
            return (self.folder / id / RESULT).read_bytes()
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

    def peek(self, caller: Caller, id: str) -> tuple[str, float | None] | None:
        """Stage and part while it is queued or running; None when it is over. Cheap: no database."""
        with self._lock:
            live = self._live.get(id)
            return None if live is None else (live.stage, live.part)

    # -------------------------------------------------------------------------------------------- for the runner

    def next(self, busy: Sequence[str]) -> RowMapping | None:
        """The oldest queued search of whoever has fewest running and was served least of late, now marked as running."""
        with self._database.read() as connection:
            first = select(func.min(searches.c.number)).where(searches.c.status == "queued").group_by(searches.c.account)
            query = select(searches).where(searches.c.number.in_(first)).order_by(searches.c.number)
            rows = connection.execute(query).mappings().all()
        served = self._served_of_late()
        turn = lambda row: (busy.count(row["account"]), served.get(row["account"], 0.0), row["number"])  # noqa: E731
        for row in sorted(rows, key=turn):
            with self._lock:
                self._live.setdefault(row["id"], Live(row["id"], row["stage"], None))
            if self._take(row["id"], "running"):
                return row
        return None

    def count_time(self, account: str, seconds: float) -> None:
        """A worker was busy for this account for so long."""
        with self._lock:
            self._served[account] = self._served.get(account, 0.0) + seconds

    def _served_of_late(self) -> dict[str, float]:
        """Seconds that workers gave to each account; half of them are forgotten every ten minutes."""
        with self._lock:
            moment = time.monotonic()
            factor = 0.5 ** ((moment - self._faded) / HALF_LIFE)
            self._served = {name: left for name, before in self._served.items() if (left := before * factor) > 0.01}
            self._faded = moment
            return dict(self._served)

    def under_way(self) -> int:
        """How many searches are queued or running. Cheap: no database."""
        with self._lock:
            return len(self._live)

    def waiting(self) -> bool:
        with self._database.read() as connection:
            query = select(func.count()).select_from(searches).where(searches.c.status == "queued")
            return bool(connection.execute(query).scalar_one())

    def progress(self, id: str, stage: str, part: float | None) -> None:
        with self._lock:
            live = self._live.get(id)
            if live is not None:
                live.stage, live.part = stage, part

    def is_cancelled(self, id: str) -> bool:
        with self._lock:
            live = self._live.get(id)
            return live is not None and live.cancelled

    def end(self, id: str, outcome: Outcome) -> None:
        values = {
            "status": outcome.status,
            "stage": {"done": "done", "failed": "failed", "cancelled": "cancelled"}[outcome.status],
            "part": 1.0 if outcome.status == "done" else None,
            "error": None if outcome.error is None else json.dumps(outcome.error),
            "finished": now(),
        }
        taken = self._taken(id) if outcome.status == "done" else set()
        with self._database.write() as connection:
            connection.execute(update(searches).where(searches.c.id == id).values(values))
            for digest in taken:
                connection.execute(insert(uses).values(search=id, digest=digest))
        self._ended(id, outcome)

    def uses_of(self, digests: Sequence[str]) -> int:
        """How many of the searches that are kept have taken one of these sketches; by whom is nobody's business."""
        query = select(func.count(uses.c.search.distinct())).where(uses.c.digest.in_(digests))
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def tidy(self) -> int:
        """Remove what is older than results are kept."""
        with self._database.read() as connection:
            old = searches.c.created < days_ago(self._settings.result_days)
            query = select(searches.c.id).where(old, searches.c.status.in_(OVER)).limit(1000)
            ids = [row.id for row in connection.execute(query)]
        self._remove(ids)
        for path in self.folder.glob(f"{SET_ASIDE}*"):
            if path.stat().st_mtime < time.time() - self._settings.result_days * 86400:
                shutil.rmtree(path, ignore_errors=True)
        return len(ids)

    # -------------------------------------------------------------------------------------------- inside

    def _after_a_restart(self) -> None:
        """What was running died with its process; what was queued is still to be done."""
        error = {
            "code": "restarted",
            "message": "the platform was restarted while the search ran.",
            "hint": "Ask again.",
            "details": {},
        }
        values = {"status": "failed", "stage": "failed", "error": json.dumps(error), "finished": now()}
        with self._database.write() as connection:
            connection.execute(update(searches).where(searches.c.status == "running").values(values))
            rows = connection.execute(select(searches.c.id, searches.c.status)).all()
        known = {row.id: row.status for row in rows}
        for path in self.folder.iterdir():
            if path.name not in known:
                _set_aside(path)
            elif known[path.name] in OVER:
                _forget_request(path)
        for id, status in known.items():
            if status == "queued":
                self._live[id] = Live(id, "waiting for a free worker", None)

    def _check_quota(self, connection: Connection, caller: Caller) -> None:
        mine = (searches.c.account == caller.name) & searches.c.status.in_(("queued", "running"))
        count = connection.execute(select(func.count()).select_from(searches).where(mine)).scalar_one()
        if count >= self._settings.searches_per_requester:
            raise OverQuota(
                f"{caller.name} has {count} searches under way, the most allowed.",
                hint="Wait until one is over, or cancel one.",
            )

    def _stop(self, row: RowMapping) -> None:
        with self._lock:
            live = self._live.get(row["id"])
            if live is not None:
                live.cancelled = True
        if row["status"] == "queued" and self._take(row["id"], "cancelled"):
            self._ended(row["id"], Outcome("cancelled"))

    def _take(self, id: str, status: str) -> bool:
        """Move a queued search on; False if somebody else was faster."""
        values: dict[str, Any] = {"status": status}
        values |= {"started": now(), "stage": "starting"} if status == "running" else {"finished": now(), "stage": status}
        with self._database.write() as connection:
            query = update(searches).where(searches.c.id == id, searches.c.status == "queued").values(values)
            return connection.execute(query).rowcount == 1

    def _ended(self, id: str, outcome: Outcome) -> None:
        _forget_request(self.folder / id)
        self._metrics.searches.labels(outcome.status).inc()
        if outcome.died:
            self._metrics.worker_deaths.inc()
        with self._lock:
            self._live.pop(id, None)

    def _taken(self, id: str) -> set[str]:
        """The sketches that a result took a step with."""
        try:
            document = json.loads((self.folder / id / RESULT).read_bytes())
        except (OSError, ValueError):
            return set()
        return {str(step["digest"]) for step in document["steps"]}

    def _remove(self, ids: Sequence[str]) -> None:
        for id in ids:
            shutil.rmtree(self.folder / id, ignore_errors=True)
        with self._database.write() as connection:
            for id in ids:
                connection.execute(delete(searches).where(searches.c.id == id))
                connection.execute(delete(uses).where(uses.c.search == id))

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


def _set_aside(folder: Path) -> None:
    """A folder that the database does not know, which may be an older one: kept for a while, with the name it had."""
    if not folder.name.startswith(SET_ASIDE):
        folder.rename(folder.with_name(SET_ASIDE + folder.name))
        folder.with_name(SET_ASIDE + folder.name).touch()


def _forget_request(folder: Path) -> None:
    """The request's sketches are not needed once it is over."""
    for name in ("train.saibot", "test.saibot"):
        (folder / name).unlink(missing_ok=True)
