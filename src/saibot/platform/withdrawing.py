"""Withdrawing: on request, and when datasets expire.

From its first transaction on the dataset is invisible; then shards and files lose it; then its rows go. A crash anywhere in
between is finished at the next start.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from sqlalchemy import Connection, delete, exists, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.catalog import Catalog
from saibot.platform.clock import at
from saibot.platform.copies import Copies
from saibot.platform.errors import Busy, NotAllowed
from saibot.platform.storage.database import Database
from saibot.platform.storage.file_names import sketch_file_name
from saibot.platform.storage.files import SET_ASIDE, FileStore
from saibot.platform.storage.tables import datasets, grants, terms, versions

PATIENCE = 20.0  # seconds that whoever withdraws waits for those who change the shards, in a thread that answers requests
GRACE_DAYS = 7.0  # that what has expired is kept, out of sight


class Withdrawing:
    """`withdraw` a dataset, and `tidy` after a crash or when datasets expire."""

    def __init__(
        self,
        database: Database,
        files: FileStore,
        trail: Trail,
        catalog: Catalog,
        copies: Copies,
        *,
        packed: Callable[[set[str]], set[str]],
        remove: Callable[[set[str], float | None], None],
    ) -> None:
        """`packed` tells which sketches are in the shards here, `remove` takes some out, here and elsewhere."""
        self._database, self._files, self._trail, self._catalog, self._copies = database, files, trail, catalog, copies
        self._packed, self._remove = packed, remove

    def withdraw(self, caller: Caller, id: str, *, patience: float = PATIENCE) -> None:
        """Gone from lists at once; from storage and shards when this returns. Raises Busy where those who change the shards
        take longer than one has patience: then `tidy` does the rest."""
        row = self.check_may_withdraw(caller, id)
        try:
            self._leave(row["number"], by=caller.name, patience=patience)
        except Busy:
            message = "the dataset is out of all lists; its files go as soon as what is being packed is done."
            raise Busy(message, hint="Nothing needs to be done; it takes a minute after that.") from None

    def check_may_withdraw(self, caller: Caller, id: str) -> RowMapping:
        """The dataset's row. Whoever may not hears so."""
        row = self._catalog.row(caller, id)
        if not caller.signed_in:
            caller.need("provider")
        if row["provider"] != caller.name and not caller.has("admin"):
            raise NotAllowed(
                "only its provider or an admin can withdraw a dataset.", hint="Ask the provider, or the platform's admin."
            )
        if not caller.has("admin"):
            caller.need("provider")
        return row

    def tidy(self) -> int:
        """Finish withdrawals that were cut off, and take away what has expired; how many datasets went.

        A clock may be wrong: what has expired is out of all lists and searches, and withdrawn for good some days after that
        was noticed. Where its day is to come again by then, it is back.
        """
        with self._database.read() as connection:
            moment = self._database.moment(connection)  # one clock for all servers
            expired = datasets.c.expires.is_not(None) & (datasets.c.expires <= at(moment)[:10])
            query = select(datasets.c.number).where(datasets.c.state == "live", expired)
            ended = [row.number for row in connection.execute(query)]
            is_kept = datasets.c.state == "expired"
            early = [row.number for row in connection.execute(select(datasets.c.number).where(is_kept, ~expired))]
            late = is_kept & expired & (datasets.c.ended < at(moment - GRACE_DAYS * 86400))
            query = select(datasets.c.number).where((datasets.c.state == "leaving") | late)
            gone = [row.number for row in connection.execute(query)]
        for number in ended:
            self._set_state(number, "live", state="expired", ended=at(moment))
        self._unpack_expired()
        for number in early:
            self._set_state(number, "expired", state="live", ended=None)
        for number in gone:
            self._leave(number, by="expiry", unless="live")
        return len(ended) + len(gone)

    # -------------------------------------------------------------------------------------------- expiry

    def _set_state(self, number: int, before: str, *, state: str, ended: str | None) -> None:
        with self._database.write() as connection:
            this = (datasets.c.number == number) & (datasets.c.state == before)
            connection.execute(update(datasets).where(this).values(state=state, ended=ended))
            if state == "live":  # it is packed again before the next search
                connection.execute(update(versions).where(versions.c.dataset == number).values(packed=False))

    def _unpack_expired(self) -> None:
        """Take out of the shards what has expired; also what an earlier call of this could not take out."""
        is_packed = exists().where(versions.c.dataset == datasets.c.number, versions.c.packed)
        query = select(datasets.c.number, datasets.c.digest, is_packed.label("packed")).where(datasets.c.state == "expired")
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        # A server that was killed had packed some, perhaps, and not written down that it had.
        found = self._packed({row.digest for row in rows}) if rows else set()
        rows = [row for row in rows if row.packed or row.digest in found]
        if rows:
            self._remove(self._not_live({row.digest for row in rows}), None)
            with self._database.write() as connection:
                for row in rows:
                    connection.execute(update(versions).where(versions.c.dataset == row.number).values(packed=False))

    def _not_live(self, digests: set[str]) -> set[str]:
        """Those that no dataset has as its latest version which people may use."""
        live = (datasets.c.state == "live") & datasets.c.copy_of.is_(None)
        query = select(datasets.c.digest).where(datasets.c.digest.in_(digests), live)
        with self._database.read() as connection:
            return digests - {row.digest for row in connection.execute(query)}

    # -------------------------------------------------------------------------------------------- leaving

    def _leave(self, number: int, *, by: str | None, unless: str | None = None, patience: float | None = None) -> None:
        """Withdraw a dataset, unless it has this state by now; if it is an original, others' copies of it, too."""
        this = select(datasets).where(datasets.c.number == number)
        with self._database.write() as connection:
            row = connection.execute(this).mappings().first()
            if row is not None:
                self._database.alone(connection, f"account {row['provider']}")  # who may be publishing it anew
                row = connection.execute(this).mappings().first()
            if row is None or row["state"] == unless:
                return
            copies = list[int]()
            if row["state"] != "leaving":
                if not json.loads(row["document"])["open"]:  # an open table is everybody's to publish
                    copies = self._copies.leaving_with(connection, number, row["provider"])
                self._mark_leaving(connection, row, by or row["provider"])
                others = select(datasets).where(datasets.c.number.in_(copies), datasets.c.state != "leaving")
                for copy in connection.execute(others).mappings().all():
                    self._mark_leaving(connection, copy, by or row["provider"], copy_of=row["id"])
        for each in (number, *copies):
            self._finish_leaving(each, patience)

    def _mark_leaving(self, connection: Connection, row: RowMapping, by: str, **facts: str) -> None:
        """Invisible from now on; what is left to do is done at the next start if need be."""
        connection.execute(update(datasets).where(datasets.c.number == row["number"]).values(state="leaving"))
        self._trail.note(connection, by, "withdraw", row["id"], {"name": row["name"], "provider": row["provider"]} | facts)

    def _finish_leaving(self, number: int, patience: float | None) -> None:
        """Shards and files lose a dataset; then its rows go."""
        with self._database.read() as connection:
            own = select(versions.c.digest, versions.c.payload).where(versions.c.dataset == number)
            rows = connection.execute(own).all()
            digests = {found.digest for found in rows}
        with self._database.holding(*(f"sketch {digest}" for digest in digests), patience=patience):
            with self._database.read() as connection:
                others = select(versions.c.digest).where(versions.c.digest.in_(digests), versions.c.dataset != number)
                orphaned = digests - {found.digest for found in connection.execute(others)}
            self._remove(orphaned, patience)
            for digest in orphaned:
                self._files.delete(sketch_file_name(digest))
                self._files.delete(SET_ASIDE + sketch_file_name(digest))  # of a start on another database
            with self._database.write() as connection:
                connection.execute(delete(terms).where(terms.c.dataset == number))
                connection.execute(delete(grants).where(grants.c.dataset == number))
                connection.execute(delete(versions).where(versions.c.dataset == number))
                connection.execute(delete(datasets).where(datasets.c.number == number))
                self._copies.settle(connection, {row.payload for row in rows if row.payload})
