"""The audit trail: who published, withdrew and asked what, and when. Never what a sketch or a request says.

What comes often (downloads, refusals) is summed up by the hour: one entry for each action of an account on a kind of thing.
It is counted in memory and written every few seconds, so nobody waits for it; a crash loses what was counted since.
"""

from __future__ import annotations

import json
import threading
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select, update

from saibot.platform.clock import days_ago, now
from saibot.platform.pagination import Page, Place
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import trail

if TYPE_CHECKING:
    from saibot.platform.accounts import Caller

NOBODY, OTHERS = "-", "*"  # no account can be called so
MOST_SUMS = 1000  # in an hour, of one server; what comes beyond them counts as of others
PRUNED = 5_000  # entries at a time
DOWNLOAD, REFUSED, REFUSED_TOKEN, REFUSED_SIGN_IN = "download", "refused", "refuse token", "refuse sign-in"
Sum = tuple[str, str, str, str]  # the hour, the action, the account, on what kind of thing


class Trail:
    """Single entries are written in the transaction of what they tell of: both happened, or neither."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._hour, self._seen = "", set[Sum]()
        self._sums: dict[Sum, tuple[str, int]] = {}  # since the last flush: when it was counted first, and how often

    def note(self, connection: Connection, account: str, action: str, subject: str, facts: dict[str, Any]) -> None:
        entry = {"at": now(), "account": account, "action": action, "subject": subject, "facts": json.dumps(facts)}
        connection.execute(insert(trail).values(entry))

    def count(self, account: str, action: str, kind: str) -> None:
        """One more of what is told as a sum; `kind` is one of few words. Nothing is written yet."""
        moment = now()
        with self._lock:
            if moment[:13] != self._hour:
                self._hour, self._seen = moment[:13], set()
            this = (self._hour, action, account or NOBODY, kind)
            if this not in self._seen and len(self._seen) >= MOST_SUMS:
                this = (self._hour, action, OTHERS, kind)
            self._seen.add(this)
            first, times = self._sums.get(this, (moment, 0))
            self._sums[this] = first, times + 1

    def flush(self) -> None:
        """Write what was counted so far. Where that fails, it is tried again by the next call."""
        with self._writing:  # what another thread has begun to write is written, too, when this returns
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            sums, self._sums = self._sums, {}
        if not sums:
            return
        try:
            with self._database.write() as connection:
                self._database.alone(connection, "trail sums")  # of several servers one after the other
                for this, (first, times) in sums.items():
                    self._add(connection, this, first, times)
        except BaseException:
            with self._lock:
                if len(self._sums) <= 2 * MOST_SUMS:  # storage that is away for days must not fill the memory
                    for this, (first, times) in sums.items():
                        self._sums[this] = first, times + self._sums.get(this, (first, 0))[1]
            raise

    def _add(self, connection: Connection, this: Sum, first: str, times: int) -> None:
        values = dict(zip(("hour", "action", "account", "subject"), this, strict=True))
        same = [trail.c[name] == value for name, value in values.items()]
        if not connection.execute(update(trail).where(*same).values(times=trail.c.times + times)).rowcount:
            connection.execute(insert(trail).values(**values, at=first, facts="{}", times=times))

    def prune(self, days: float, *, most: int = PRUNED) -> int:
        """Entries go that are older; how many. The oldest first, and few at a time: a clock may be wrong for a while."""
        before = days_ago(days)
        with self._database.write() as connection:
            oldest = select(trail.c.number, trail.c.at).order_by(trail.c.number).limit(most)
            numbers = [row.number for row in takewhile(lambda row: row.at < before, connection.execute(oldest))]
            if numbers:
                connection.execute(delete(trail).where(trail.c.number <= numbers[-1]))
        return len(numbers)

    def list(
        self,
        caller: Caller,
        place: Place,
        limit: int,
        *,
        action: str | None = None,
        account: str | None = None,
        since: str | None = None,
    ) -> Page:
        """Latest first: an hour's sum stands where it began. `since` is a day or a moment."""
        caller.need("admin")
        query = select(trail).order_by(trail.c.number.desc()).limit(limit + 1)
        if place is not None:
            query = query.where(trail.c.number < place[0])
        for column, wanted in ((trail.c.action, action), (trail.c.account, account)):
            query = query if wanted is None else query.where(column == wanted)
        if since is not None:  # of an hour that has begun before, as well
            since = since.removesuffix("Z")  # which comes after what may follow in a moment's text
            query = query.where((trail.c.at >= since) | (trail.c.hour >= since[:13]))
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        items = [{**row, "facts": json.loads(row["facts"])} for row in rows[:limit]]
        return Page(items, [rows[limit - 1]["number"]] if len(rows) > limit else None)
