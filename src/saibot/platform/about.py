"""What providers say of their tables beside the sketches: licence, contact, tags and more text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.catalog import Catalog
from saibot.platform.clock import now
from saibot.platform.control_characters import has_control_characters
from saibot.platform.describe import terms_of, terms_of_said
from saibot.platform.errors import NotAllowed, NotFound, Unusable
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import about, datasets, terms
from saibot.sketch import Header
from saibot.wire import About, Dataset


class SaidOfTables:
    """Belongs to a table of a provider, whichever keys it is published by, and goes with the last of them."""

    def __init__(self, database: Database, trail: Trail, catalog: Catalog, header: Callable[[str], Header]) -> None:
        """`header` reads that of a sketch by its digest, and raises NotFound."""
        self._database, self._trail, self._catalog, self._header = database, trail, catalog, header

    def of(self, caller: Caller, id: str) -> About:
        """What is said of the table that a dataset is of, if the caller may know of the dataset."""
        row = self._catalog.row(caller, id)
        with self._database.read() as connection:
            return said_of(connection, row["provider"], row["name"])

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
        with self._database.holding(f"account {caller.name}"):  # who publishes no version meanwhile
            found = self._found_by(row)
            with self._database.write() as connection:
                if connection.execute(update(about).where(this).values(values)).rowcount == 0:
                    connection.execute(insert(about).values(provider=row["provider"], name=row["name"], **values))
                self._tell(connection, found, said)
                self._trail.note(connection, caller.name, "describe", row["id"], {})
        return said

    def _found_by(self, row: RowMapping) -> dict[int, set[str]]:
        """What each dataset of the table is found by but for what is said beside its sketch."""
        same = (datasets.c.provider == row["provider"]) & (datasets.c.name == row["name"])
        with self._database.read() as connection:
            rows = connection.execute(select(datasets.c.number, datasets.c.digest).where(same)).all()
        found = {}
        for number, digest in rows:
            with suppress(NotFound):  # it is being withdrawn
                found[number] = terms_of(self._header(digest), row["provider"])
        return found

    def _tell(self, connection: Connection, found: dict[int, set[str]], said: About) -> None:
        """Lists show the tags, and find by them from now on."""
        these = select(datasets.c.number, datasets.c.document).where(datasets.c.number.in_(found))
        for number, text in connection.execute(these.where(datasets.c.state != "leaving").with_for_update()).all():
            document = Dataset.model_validate_json(text).but(tags=said.tags).model_dump_json()
            connection.execute(update(datasets).where(datasets.c.number == number).values(document=document))
            connection.execute(delete(terms).where(terms.c.dataset == number))
            wanted = sorted(found[number] | terms_of_said(said))
            connection.execute(insert(terms), [{"term": term, "dataset": number} for term in wanted])

    def sweep(self) -> None:
        """Forget what was said of tables that are not here any more."""
        there = select(datasets.c.number).where(datasets.c.provider == about.c.provider, datasets.c.name == about.c.name)
        with self._database.write() as connection:
            connection.execute(delete(about).where(~there.correlate(about).exists()))


def said_of(connection: Connection, provider: str, name: str) -> About:
    """What is said of a provider's table of this name."""
    query = select(about.c.said).where(about.c.provider == provider, about.c.name == name)
    found = connection.execute(query).first()
    return About() if found is None else About.model_validate_json(found.said)
