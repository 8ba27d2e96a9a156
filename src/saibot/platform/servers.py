"""The servers that are one platform: which are there, and which shards each of them searches.

They share a Postgres and a file store. Each says every second that it is there. On SQLite, and on a Postgres whose files lie
in one server's own folder, there is one.
"""

from __future__ import annotations

import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

from sqlalchemy import delete, insert, select, update

from saibot.errors import InvalidInput
from saibot.platform.storage.database import Database, number_of
from saibot.platform.storage.files import FileStore
from saibot.platform.storage.ownership import DatabaseLease
from saibot.platform.storage.tables import servers
from saibot.safe_file import write_safely

ALIVE_SECONDS = 15.0  # without a sign of life, after which a server counts as gone
FORGOTTEN_SECONDS = 3600.0
LOOK_SECONDS = 0.1
_MARKS = "servers/"  # in the file store: that it is there shows that two servers see one store


class Servers:
    """This server among the others; `id` stays with the data folder, so that a server that was killed is no other one.

    It is held while the server is there: one on a copy of the folder takes another.
    """

    def __init__(self, database: Database, files: FileStore, data: Path, *, shared: bool) -> None:
        self._database, self._files = database, files
        self.shared = shared
        self.id = _id_of(data)
        self._held: DatabaseLease | None = None
        while self.shared and self._held is None:
            try:
                self._held = DatabaseLease(database, lock=number_of(f"server {self.id}"))
            except InvalidInput:
                self.id = _new_id(data)

    def join(self) -> None:
        """Raises InvalidInput where a server that is there keeps its files elsewhere."""
        if not self.shared:
            return
        for other in self._alive():
            try:
                self._files.open(_MARKS + other).close()
            except FileNotFoundError:
                if other in self._alive():  # else it has just left
                    hint = "All servers of a platform have the same SAIBOT_FILES, an address that each of them reaches."
                    raise InvalidInput("another server on this database keeps its files elsewhere.", hint=hint) from None
        self._files.put(_MARKS + self.id, self.id.encode())
        with self._database.write() as connection:
            moment = self._database.moment(connection)
            gone = [
                row.id for row in connection.execute(select(servers.c.id).where(servers.c.seen < moment - FORGOTTEN_SECONDS))
            ]
            connection.execute(delete(servers).where(servers.c.id.in_(gone)))
            connection.execute(delete(servers).where(servers.c.id == self.id))
            connection.execute(insert(servers).values(id=self.id, seen=moment, revision=0))
        for one in gone:
            self._files.delete(_MARKS + one)

    def beat(self, revision: int) -> None:
        """A sign of life, and the revision of the shards that this server searches."""
        if self._held is None:
            return
        if not self._held.keep():
            raise RuntimeError("another server has a copy of this one's data folder, and its id: start this one again")
        with self._database.write() as connection:
            values = {"seen": self._database.moment(connection), "revision": revision}
            known = connection.execute(update(servers).where(servers.c.id == self.id).values(values)).rowcount
        if not known:  # it was away for so long that it was forgotten, and its mark with it
            self._files.put(_MARKS + self.id, self.id.encode())
            with self._database.write() as connection:
                connection.execute(insert(servers).values(id=self.id, **values))

    def leave(self) -> None:
        if self._held is not None:
            self._held.close()
            with suppress(Exception):  # the others notice by themselves
                with self._database.write() as connection:
                    connection.execute(delete(servers).where(servers.c.id == self.id))
                self._files.delete(_MARKS + self.id)

    def others(self) -> int:
        """How many other servers are there."""
        return len(self._alive()) if self.shared else 0

    def wait_for_all(self, revision: int, *, seconds: float) -> bool:
        """Whether every other server that is there searches these shards, or later ones, before so many seconds are over."""
        end = time.monotonic() + seconds
        while behind := self._alive(behind=revision):
            if time.monotonic() > end:
                break
            time.sleep(LOOK_SECONDS)
        return not behind

    def _alive(self, *, behind: int | None = None) -> set[str]:
        if not self.shared:
            return set()
        with self._database.read() as connection:
            there = servers.c.seen > self._database.moment(connection) - ALIVE_SECONDS
            query = select(servers.c.id).where(there, servers.c.id != self.id)
            query = query if behind is None else query.where(servers.c.revision < behind)
            return {row.id for row in connection.execute(query)}


def _id_of(data: Path) -> str:
    path = data / "server"
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    return known if re.fullmatch("v[0-9a-f]{16}", known) else _new_id(data)


def _new_id(data: Path) -> str:
    new = f"v{secrets.token_hex(8)}"
    write_safely(data / "server", new.encode())
    return new
