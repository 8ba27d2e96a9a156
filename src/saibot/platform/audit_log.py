"""The audit trail: who published, withdrew and asked what, and when. Never what a sketch or a request says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select

from saibot.platform.clock import now
from saibot.platform.pagination import Page, Place
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import trail

if TYPE_CHECKING:
    from saibot.platform.accounts import Caller


class Trail:
    """Entries are written in the transaction of what they tell of: both happened, or neither."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, connection: Connection, account: str, action: str, subject: str, facts: dict[str, Any]) -> None:
        entry = {"at": now(), "account": account, "action": action, "subject": subject, "facts": json.dumps(facts)}
        connection.execute(insert(trail).values(entry))

    def list(self, caller: Caller, place: Place, limit: int) -> Page:
        """Latest first."""
        caller.need("admin")
        query = select(trail).order_by(trail.c.number.desc()).limit(limit + 1)
        if place is not None:
            query = query.where(trail.c.number < place[0])
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        items = [{**row, "facts": json.loads(row["facts"])} for row in rows[:limit]]
        return Page(items, [rows[limit - 1]["number"]] if len(rows) > limit else None)
