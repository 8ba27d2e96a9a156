"""What providers say of their tables beside the sketches: licence, contact, tags and more text."""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.catalog import Catalog
from saibot.platform.clock import now
from saibot.platform.control_characters import has_control_characters
from saibot.platform.errors import NotAllowed, Unusable
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import about, datasets
from saibot.wire import About


class SaidOfTables:
    """Belongs to a table of a provider, whichever keys it is published by, and goes with the last of them."""

    def __init__(self, database: Database, trail: Trail, catalog: Catalog) -> None:
        self._database, self._trail, self._catalog = database, trail, catalog

    def of(self, caller: Caller, id: str) -> About:
        """What is said of the table that a dataset is of, if the caller may know of the dataset."""
        row = self._catalog.row(caller, id)
        query = select(about.c.said).where(about.c.provider == row["provider"], about.c.name == row["name"])
        with self._database.read() as connection:
            found = connection.execute(query).first()
        return About() if found is None else About.model_validate_json(found.said)

    def check_may_change(self, caller: Caller, id: str) -> RowMapping:
        """The dataset's row, if the caller may describe its table."""
        row = self._catalog.row(caller, id)
        caller.need("provider")
        if row["provider"] != caller.name:
            raise NotAllowed("only its provider describes a dataset.", hint="Ask the provider.")
        return row

    def change(self, caller: Caller, id: str, said: About) -> About:
        row = self.check_may_change(caller, id)
        texts = (said.licence, said.contact, *said.tags, *said.more.splitlines())
        if any(map(has_control_characters, texts)):
            raise Unusable("what is said of a dataset holds control characters.", hint="Send plain text.")
        this = (about.c.provider == row["provider"]) & (about.c.name == row["name"])
        values = {"said": said.model_dump_json(), "changed": now()}
        with self._database.write() as connection:
            if connection.execute(update(about).where(this).values(values)).rowcount == 0:
                connection.execute(insert(about).values(provider=row["provider"], name=row["name"], **values))
            self._trail.note(connection, caller.name, "describe", row["id"], {})
        return said

    def sweep(self) -> None:
        """Forget what was said of tables that are not here any more."""
        there = select(datasets.c.number).where(datasets.c.provider == about.c.provider, datasets.c.name == about.c.name)
        with self._database.write() as connection:
            connection.execute(delete(about).where(~there.correlate(about).exists()))
