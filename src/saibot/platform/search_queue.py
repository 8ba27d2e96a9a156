"""The queue of searches, in the database: one for all servers, fair by account.

Whoever takes a search has it until a moment that it moves on every second. Where it does not, because its server was
killed, lost its network or was stopped, another takes the search up. Each time it is taken is an attempt with a number, and
what an earlier attempt says of it counts for nothing. A search that was begun three times and never ended is given up.
On SQLite there is one server, so what is running at its start was cut off.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform import uses
from saibot.platform.clock import now
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import searches, served
from saibot.wire.search import OVER

LEASE_SECONDS = 15.0
MOST_ATTEMPTS = 3
HALF_LIFE = 600.0  # seconds in which half of what an account was served is forgotten
WAITING = "waiting for a free worker"
_GIVEN_UP = {
    "code": "given_up",
    "message": f"the search was begun {MOST_ATTEMPTS} times, and each time the server that ran it ended.",
    "hint": "Ask again for less: fewer steps, no hops. If it stays, tell the platform's admin the id of the search.",
    "details": {},
}


class SearchQueue:
    """What `jobs.runner` takes searches from; `server` is who takes them."""

    def __init__(self, database: Database, server: str) -> None:
        self._database, self._server = database, server
        self._leased = not database.is_sqlite

    def anything(self) -> bool:
        """Whether a search waits."""
        with self._database.read() as connection:
            return (
                connection.execute(select(searches.c.id).where(searches.c.status == "queued").limit(1)).first() is not None
            )

    def take(self, *, strangers: bool = False, without: Collection[str] = ()) -> RowMapping | None:
        """The next search but those, now this server's. With `strangers`, of an account alone that has none running.

        It is of whoever has fewest running; among those, of whoever was served least of late; then of whoever asked first.
        """
        if not self.anything():
            return None
        with self._database.write() as connection:
            self._database.alone(connection, "queue")
            moment = self._database.moment(connection)
            count = select(searches.c.account, func.count()).where(searches.c.status == "running")
            busy = {account: number for account, number in connection.execute(count.group_by(searches.c.account))}
            time = _faded(connection, moment)
            waits = (searches.c.status == "queued") & searches.c.id.not_in(without)
            first = select(func.min(searches.c.number)).where(waits).group_by(searches.c.account)
            rows = connection.execute(select(searches).where(searches.c.number.in_(first))).mappings().all()
            if strangers:
                rows = [row for row in rows if row["account"] not in busy]
            if not rows:
                return None
            row = min(rows, key=lambda one: (busy.get(one["account"], 0), time.get(one["account"], 0.0), one["number"]))
            values = {
                "status": "running",
                "stage": "starting",
                "started": now(),
                "server": self._server,
                "until": moment + LEASE_SECONDS if self._leased else None,
                "attempts": row["attempts"] + 1,
            }
            query = update(searches).where(searches.c.id == row["id"]).values(values).returning(*searches.c)
            return connection.execute(query).mappings().one()

    def renew(self, progress: Mapping[str, tuple[int, str, float | None]]) -> dict[str, bool]:
        """Keep these searches by attempt, and say how far each is. Which are still this server's, and whether to stop."""
        if not progress:
            return {}
        kept: dict[str, bool] = {}
        with self._database.write() as connection:
            until = self._database.moment(connection) + LEASE_SECONDS
            for id, (attempt, stage, part) in sorted(progress.items()):
                query = update(searches).where(self._mine(id, attempt)).values(until=until, stage=stage, part=part)
                row = connection.execute(query.returning(searches.c.stop)).first()
                if row is not None:
                    kept[id] = bool(row.stop)
        return kept

    def end(
        self, id: str, attempt: int, account: str, values: dict[str, Any], *, seconds: float, taken: Collection[str] = ()
    ) -> bool:
        """Write down how a search ended that took so long; False if this attempt is not the one that counts any more."""
        with self._database.write() as connection:
            self._database.alone(connection, "queue")
            query = update(searches).where(self._mine(id, attempt)).values(values | {"until": None})
            if not connection.execute(query).rowcount:
                return self._was_ended(connection, id, attempt)  # by a call whose answer was lost
            uses.count(connection, id, taken)
            self._serve(connection, account, seconds)
        return True

    def put_back(self, id: str, attempt: int) -> bool:
        """This server stops: the search is another's to run, or its own after the next start; True if it was cancelled."""
        with self._database.write() as connection:
            self._database.alone(connection, "queue")
            mine = self._mine(id, attempt)
            stopped = connection.execute(update(searches).where(mine, searches.c.stop).values(_stopped())).rowcount
            values = _QUEUED | {"attempts": searches.c.attempts - 1}
            connection.execute(update(searches).where(mine).values(values))
        return bool(stopped)

    def stop(self, id: str) -> bool:
        """A search that waits is cancelled now (True); one that runs is to be stopped by whoever runs it."""
        with self._database.write() as connection:
            self._database.alone(connection, "queue")
            queued = (searches.c.id == id) & (searches.c.status == "queued")
            if connection.execute(update(searches).where(queued).values(_stopped())).rowcount:
                return True
            connection.execute(update(searches).where(searches.c.id == id, searches.c.status == "running").values(stop=True))
        return False

    def take_back(self, *, own: bool = False, all: bool = False, without: Collection[str] = ()) -> list[str]:
        """Searches but those, whose server is gone, wait again; its `own` at the start of one, or `all`. Which end so."""
        with self._database.write() as connection:
            self._database.alone(connection, "queue")
            gone: ColumnElement[bool] = (searches.c.status == "running") & searches.c.id.not_in(without)
            if own:
                gone &= searches.c.server == self._server
            elif not all:
                # Versions before there were several servers wrote down no moment.
                gone &= searches.c.until.is_(None) | (searches.c.until < self._database.moment(connection))
            stopped = _stopped()
            failed = stopped | {"status": "failed", "stage": "failed", "error": json.dumps(_GIVEN_UP)}
            over = []
            for values, which in ((stopped, searches.c.stop), (failed, searches.c.attempts >= MOST_ATTEMPTS)):
                query = update(searches).where(gone, which).values(values)
                over += [row.id for row in connection.execute(query.returning(searches.c.id))]
            connection.execute(update(searches).where(gone).values(_QUEUED))
        return over

    def under_way(self) -> int:
        """How many searches are queued or running, on all servers."""
        query = select(func.count()).select_from(searches)
        with self._database.read() as connection:
            waits_or_runs = or_(searches.c.status == "queued", searches.c.status == "running")
            return int(connection.execute(query.where(waits_or_runs)).scalar_one())

    def _mine(self, id: str, attempt: int) -> ColumnElement[bool]:
        return self._this(id, attempt) & (searches.c.status == "running")

    def _this(self, id: str, attempt: int) -> ColumnElement[bool]:
        return (searches.c.id == id) & (searches.c.server == self._server) & (searches.c.attempts == attempt)

    def _was_ended(self, connection: Connection, id: str, attempt: int) -> bool:
        query = select(searches.c.id).where(self._this(id, attempt), searches.c.status.in_(OVER))
        return connection.execute(query).first() is not None

    def _serve(self, connection: Connection, account: str, seconds: float) -> None:
        """A worker was busy for this account for so long."""
        moment = self._database.moment(connection)
        before = _faded(connection, moment).get(account, 0.0)
        connection.execute(delete(served).where(or_(served.c.account == account, served.c.at < moment - 20 * HALF_LIFE)))
        connection.execute(insert(served).values(account=account, seconds=before + seconds, at=moment))


_QUEUED = {"status": "queued", "stage": WAITING, "part": None, "started": None, "server": None, "until": None}


def _stopped() -> dict[str, Any]:
    return {"status": "cancelled", "stage": "cancelled", "part": None, "finished": now(), "until": None}


def _faded(connection: Connection, moment: float) -> dict[str, float]:
    """Seconds that workers gave to each account; half of them are forgotten every ten minutes."""
    rows = connection.execute(select(served)).all()
    return {row.account: row.seconds * 0.5 ** (max(moment - row.at, 0.0) / HALF_LIFE) for row in rows}
