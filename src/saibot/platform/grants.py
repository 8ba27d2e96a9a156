"""Which accounts may use a dataset whose visibility is `granted`: its provider says so, and can take it back."""

from __future__ import annotations

import re

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import NAME, Caller, has_token
from saibot.platform.audit_log import Trail
from saibot.platform.catalog import Catalog
from saibot.platform.clock import now
from saibot.platform.errors import NotAllowed, NotFound, Unusable
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import grants
from saibot.wire import DatasetGrant


class Grants:
    """A grant of a dataset that others see anyway changes nothing until its provider makes it `granted`."""

    def __init__(self, database: Database, trail: Trail, catalog: Catalog) -> None:
        self._database, self._trail, self._catalog = database, trail, catalog

    def of(self, caller: Caller, id: str) -> list[DatasetGrant]:
        """The accounts that a dataset is granted to, for its provider alone."""
        number = self.own(caller, id)["number"]
        query = select(grants).where(grants.c.dataset == number).order_by(grants.c.account)
        with self._database.read() as connection:
            return [DatasetGrant(account=row.account, since=row.since) for row in connection.execute(query)]

    def give(self, caller: Caller, id: str, account: str) -> DatasetGrant:
        row = self.own(caller, id)
        if not re.fullmatch(NAME, account):
            raise Unusable("no account can have this name.", hint="Take it from the enquiry, or ask for it.")
        with self._database.write() as connection:
            return self.enter(connection, caller, row, account)

    def take(self, caller: Caller, id: str, account: str) -> None:
        """From now on the account sees the dataset no longer, unless others do. What it has downloaded stays with it."""
        row = self.own(caller, id)
        this = (grants.c.dataset == row["number"]) & (grants.c.account == account)
        with self._database.write() as connection:
            if not connection.execute(delete(grants).where(this)).rowcount:
                raise NotFound(
                    "this dataset is not granted to this account.", hint="`saibot grants list` shows to whom it is."
                )
            self._trail.note(connection, caller.name, "take grant", id, {"account": account})

    def enter(self, connection: Connection, caller: Caller, row: RowMapping, account: str) -> DatasetGrant:
        """The grant, in a transaction that is under way. The same again changes nothing."""
        if not has_token(connection, account):
            hint = "Is the name right? An admin gives out tokens; grant it then."
            raise Unusable("no account of this name has a token.", hint=hint)
        query = select(grants.c.since).where(grants.c.dataset == row["number"], grants.c.account == account)
        since = connection.execute(query).scalar()
        if since is None:
            since = now()
            connection.execute(insert(grants).values(dataset=row["number"], account=account, since=since))
            self._trail.note(connection, caller.name, "grant", row["id"], {"account": account})
        return DatasetGrant(account=account, since=since)

    def own(self, caller: Caller, id: str) -> RowMapping:
        """The row of one of the caller's datasets."""
        caller.need("provider")
        row = self._catalog.row(caller, id)
        if row["provider"] != caller.name:
            raise NotAllowed("only its provider says to whom a dataset is granted.", hint="Send the provider an enquiry.")
        return row
