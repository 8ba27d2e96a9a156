"""What providers say of their tables beside the sketches: licence, contact, tags and more text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update
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

_Given = dict[str, tuple[set[str], set[str]]]  # by digest: terms that were looked up, and those that the sketch gives
_NOTHING: tuple[set[str], set[str]] = set(), set()


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
        given: _Given = {}
        self._look_up(row, terms_of_said(self.of(caller, id)) - terms_of_said(said), given)  # headers take a while to read
        with self._database.holding(f"account {caller.name}"):  # who publishes no version meanwhile
            with self._database.read() as connection:
                before = said_of(connection, row["provider"], row["name"])
            gone = terms_of_said(before) - terms_of_said(said)
            self._look_up(row, gone, given)
            with self._database.write() as connection:
                if connection.execute(update(about).where(this).values(values)).rowcount == 0:
                    connection.execute(insert(about).values(provider=row["provider"], name=row["name"], **values))
                if before.tags != said.tags:
                    self._show(connection, row, said)
                self._find_by(connection, row, gone, terms_of_said(said), given)
                self._trail.note(connection, caller.name, "describe", row["id"], {})
        return said

    def _look_up(self, row: RowMapping, gone: set[str], given: _Given) -> None:
        """Which of the terms that go each sketch of the table gives, too; `given` has those that were looked up before."""
        if not gone:
            return
        with self._database.read() as connection:
            digests = set(connection.execute(select(datasets.c.digest).where(_of_table(row))).scalars())
        for digest in digests:
            looked_up, also = given.get(digest, (set(), set()))
            if not gone <= looked_up:
                with suppress(NotFound):  # it is being withdrawn
                    also = gone & terms_of(self._header(digest), row["provider"])
            given[digest] = gone, also

    def _show(self, connection: Connection, row: RowMapping, said: About) -> None:
        """Lists show the tags."""
        query = select(datasets.c.number, datasets.c.document).where(_of_table(row), datasets.c.state != "leaving")
        for number, text in connection.execute(query.with_for_update()).all():
            document = Dataset.model_validate_json(text).but(tags=said.tags).model_dump_json()
            connection.execute(update(datasets).where(datasets.c.number == number).values(document=document))

    def _find_by(self, connection: Connection, row: RowMapping, gone: set[str], new: set[str], given: _Given) -> None:
        """What goes and what comes, and nothing else: a sketch may be found by tens of thousands of terms."""
        query = select(datasets.c.number, datasets.c.digest).where(_of_table(row), datasets.c.state != "leaving")
        found = connection.execute(query).all()
        these = select(datasets.c.number).where(_of_table(row), datasets.c.state != "leaving").scalar_subquery()
        for term in gone | new:
            connection.execute(delete(terms).where(terms.c.term == term, terms.c.dataset.in_(these)))
        stay = [(number, term) for number, digest in found for term in gone & given.get(digest, _NOTHING)[1]]
        come = [(number, term) for number, _ in found for term in new]
        if stay or come:
            connection.execute(insert(terms), [{"term": term, "dataset": number} for number, term in (*stay, *come)])

    def sweep(self) -> None:
        """Forget what was said of tables that are not here any more."""
        there = select(datasets.c.number).where(datasets.c.provider == about.c.provider, datasets.c.name == about.c.name)
        with self._database.write() as connection:
            connection.execute(delete(about).where(~there.correlate(about).exists()))


def _of_table(row: RowMapping) -> ColumnElement[bool]:
    return and_(datasets.c.provider == row["provider"], datasets.c.name == row["name"])


def said_of(connection: Connection, provider: str, name: str) -> About:
    """What is said of a provider's table of this name."""
    query = select(about.c.said).where(about.c.provider == provider, about.c.name == name)
    found = connection.execute(query).first()
    return About() if found is None else About.model_validate_json(found.said)
