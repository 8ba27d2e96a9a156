"""The catalogue: list, filter, count and show datasets, each to whom it is visible."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select, true, tuple_
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller
from saibot.platform.clock import today
from saibot.platform.describe import letters_of, plain, words_of
from saibot.platform.errors import NotFound
from saibot.platform.pagination import Page, Place
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import datasets, terms, versions

Sort = Literal["published", "rows", "epsilon", "name"]
SORTS: dict[str, tuple[ColumnElement[Any], bool, type]] = {  # column, descending, type of its values
    "published": (datasets.c.published, True, str),
    "rows": (datasets.c.rows, True, int),
    "epsilon": (datasets.c.epsilon, False, float),
    "name": (datasets.c.sort_name, False, str),
}
FEW = 20_000  # datasets with a term: up to here they are fetched by it, beyond the sorted list is walked
MOST_WORDS = 8
FACETS = 100
_LAST = "\U0010ffff"


@dataclass(frozen=True)
class Filter:
    """All of these hold for a dataset that is listed. `q`: every word of it begins a word of the dataset."""

    q: str | None = None
    domain: str | None = None
    provider: str | None = None
    feature: str | None = None

    def terms(self) -> list[tuple[str, str | None]]:
        """Terms to look up: exact, or from the first to before the second."""
        found: list[tuple[str, str | None]] = []
        for mark, value in (("d", self.domain), ("p", self.provider), ("f", self.feature)):
            if value:
                found.append((f"{mark}:{plain(value)}".replace("\x00", ""), None))
        for word in dict.fromkeys(words_of((self.q or "").replace("\x00", " ")[:500])[:MOST_WORDS]):
            found.append((f"w:{word}", f"w:{word}{_LAST}"))
        return found


class Catalog:
    """Reads only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, caller: Caller, filter: Filter, *, sort: Sort = "published", place: Place = None, limit: int = 50
    ) -> Page:
        """Documents as JSON text, in order."""
        column, descending, _ = SORTS[sort]
        with self._database.read() as connection:
            query = self._matching(connection, caller, filter, select(datasets.c.number, column.label("at")))
            if place is not None:
                here, there = tuple_(column, datasets.c.number), tuple_(*place)
                query = query.where(here < there if descending else here > there)
            order = [column.desc(), datasets.c.number.desc()] if descending else [column, datasets.c.number]
            rows = connection.execute(query.order_by(*order).limit(limit + 1)).all()
            numbers = [row.number for row in rows[:limit]]
            shown = select(datasets.c.number, datasets.c.document).where(datasets.c.number.in_(numbers))
            documents = {row.number: row.document for row in connection.execute(shown)}
        more = [rows[limit - 1].at, rows[limit - 1].number] if len(rows) > limit else None
        return Page([documents[number] for number in numbers if number in documents], more)

    def facets(self, caller: Caller, filter: Filter) -> dict[str, Any]:
        """How many datasets match, and how many of each domain and each provider."""
        columns = (datasets.c.provider, datasets.c.domains)
        with self._database.read() as connection:
            query = self._matching(connection, caller, filter, select(*columns, func.count().label("count")), walk=False)
            rows = connection.execute(query.group_by(*columns)).all()
        providers, domains, total = Counter[str](), Counter[str](), 0
        for provider, names, count in rows:
            total += count
            providers[provider] += count
            for name in names.split():
                domains[name] += count
        return {
            "total": total,
            "providers": [{"provider": name, "count": count} for name, count in _largest(providers)],
            "domains": [{"domain": name, "count": count} for name, count in _largest(domains)],
        }

    def show(self, caller: Caller, id: str) -> dict[str, Any]:
        row = self.row(caller, id)
        with self._database.read() as connection:
            query = select(versions).where(versions.c.dataset == row["number"]).order_by(versions.c.version.desc())
            found = connection.execute(query).all()
        document: dict[str, Any] = json.loads(row["document"])
        history = [{"version": v.version, "digest": v.digest, "published": v.published, "bytes": v.bytes} for v in found]
        return document | {"versions": history}

    def row(self, caller: Caller, id: str) -> RowMapping:
        """The dataset's row if the caller may know of it."""
        with self._database.read() as connection:
            row = connection.execute(select(datasets).where(datasets.c.id == id, _visible(caller))).mappings().first()
        if row is None:
            raise NotFound(f"there is no dataset {id}.", hint="GET /v1/datasets lists those that are there for this caller.")
        return row

    def digest(self, caller: Caller, digest: str) -> None:
        """Raise unless some dataset that the caller may know of has a version with this digest."""
        query = select(datasets.c.number).join(versions, versions.c.dataset == datasets.c.number)
        with self._database.read() as connection:
            found = connection.execute(query.where(versions.c.digest == digest, _visible(caller)).limit(1)).first()
        if found is None:
            raise NotFound("there is no sketch with this digest.", hint="GET /v1/corpus names those that are there.")

    def id_of(self, caller: Caller, digest: str) -> str:
        """The dataset with this sketch among its versions, if the caller may know of it."""
        query = select(datasets.c.id).join(versions, versions.c.dataset == datasets.c.number)
        with self._database.read() as connection:
            found = connection.execute(query.where(versions.c.digest == digest, _visible(caller)).limit(1)).first()
        if found is None:
            raise NotFound("this dataset is not published here any more.", hint="Its provider may have withdrawn it.")
        return str(found.id)

    def manifest(self, caller: Caller, domain: str | None, place: Place, limit: int) -> Page:
        """What a slice of the corpus is made of: the latest version of every dataset, by number."""
        with self._database.read() as connection:
            columns = select(datasets.c.number, datasets.c.document)
            query = self._matching(connection, caller, Filter(domain=domain), columns)
            if place is not None:
                query = query.where(datasets.c.number > place[0])
            rows = connection.execute(query.order_by(datasets.c.number).limit(limit + 1)).all()
        items = []
        for row in rows[:limit]:
            document = json.loads(row.document)
            key = document["key"]
            items.append(
                {
                    "id": document["id"],
                    "digest": document["digest"],
                    "bytes": document["bytes"],
                    "dataset": document["name"],
                    "provider": document["provider"],
                    "key": None if key is None else key["name"],
                    "domain": None if key is None else "+".join(part["domain"] for part in key["parts"]),
                }
            )
        return Page(items, [rows[limit - 1].number] if len(rows) > limit else None)

    def addable(self, target: str) -> Sequence[str]:
        """Digests of the datasets that could be added to a request with this target: they have a feature of its name."""
        query = select(datasets.c.digest).join(terms, terms.c.dataset == datasets.c.number)
        with self._database.read() as connection:
            found = connection.execute(query.where(terms.c.term == f"u:{letters_of(target)}", datasets.c.state == "live"))
            return [row.digest for row in found]

    # -------------------------------------------------------------------------------------------- inside

    def _matching(
        self, connection: Connection, caller: Caller, filter: Filter, query: Select[Any], *, walk: bool = True
    ) -> Select[Any]:
        """The query, restricted to what matches, in the way that touches fewest rows.

        Where some term is rare the datasets are fetched by it; where all are common, walking the list in its order meets
        enough matches soon (`walk`), but counting cannot stop early and starts from the rarest term in any case.
        """
        wanted = filter.terms()
        query = query.where(_visible(caller, walked=walk))
        if not wanted:
            return query
        counts = [_count(connection, term) for term in wanted]
        rarest = counts.index(min(counts))
        if counts[rarest] <= FEW or not walk:
            inner = select(terms.c.dataset).where(_has(wanted[rarest])).distinct()
            chosen = inner.limit(1 << 40).subquery()  # the limit keeps SQLite from turning the join around
            query = query.select_from(chosen.join(datasets, datasets.c.number == chosen.c.dataset))
            wanted = [term for i, term in enumerate(wanted) if i != rarest]
        for term in wanted:
            probe = select(terms.c.term).where(terms.c.dataset == datasets.c.number, _has(term))
            query = query.where(probe.correlate(datasets).exists())
        return query


def _count(connection: Connection, term: tuple[str, str | None]) -> int:
    some = select(terms.c.dataset).where(_has(term)).limit(FEW + 1).subquery()
    return int(connection.execute(select(func.count()).select_from(some)).scalar_one())


def _has(term: tuple[str, str | None]) -> ColumnElement[bool]:
    first, last = term
    return terms.c.term == first if last is None else and_(terms.c.term >= first, terms.c.term < last)


def _visible(caller: Caller, *, walked: bool = False) -> ColumnElement[bool]:
    """`walked`: said so that SQLite does not choose the index for counting, and sort everything, where the list is walked in
    its order and ends after a page."""
    state = func.coalesce(datasets.c.state, "") if walked else datasets.c.state
    current = and_(state == "live", or_(datasets.c.expires.is_(None), datasets.c.expires > today()))
    if caller.sees_restricted:
        return and_(current, true())
    mine = datasets.c.provider == caller.name if caller.signed_in else None
    public = datasets.c.visibility == "public"
    return and_(current, public if mine is None else or_(public, mine))


def _largest(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:FACETS]
