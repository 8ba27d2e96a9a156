"""The catalogue: list, filter, count and show datasets, each to whom it is visible."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    func,
    literal,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller
from saibot.platform.completing import completed, with_copies
from saibot.platform.describe import letters_of, plain, words_of
from saibot.platform.errors import NotFound
from saibot.platform.pagination import Page, Place
from saibot.platform.remembered import Remembered
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import datasets, grants, terms, versions
from saibot.platform.visibility import Kind, asked_by, kind_of, visible, visible_to
from saibot.wire import CorpusEntry, Dataset

Sort = Literal["published", "rows", "epsilon", "name", "used"]
SORTS: dict[str, tuple[ColumnElement[Any], bool, type]] = {  # column, descending, type of its values
    "published": (datasets.c.published, True, str),
    "rows": (datasets.c.rows, True, int),
    "epsilon": (datasets.c.epsilon, False, float),
    "name": (datasets.c.sort_name, False, str),
    "used": (datasets.c.used, True, int),
}
FEW = 20_000  # a term is counted up to here
WINDOW = 12_000  # datasets that a walk through the list looks at
MANY = 2_000  # datasets whose counts are remembered for a while
MOST_WORDS = 8
FACETS = 100
_newer = datasets.alias()
_LAST = "\U0010ffff"
Term = tuple[str, str | None]


@dataclass(frozen=True)
class Filter:
    """All of these hold for a dataset that is listed. `q`: every word of it begins a word of the dataset."""

    q: str | None = None
    domain: str | None = None
    provider: str | None = None
    feature: str | None = None
    tag: str | None = None

    def terms(self) -> list[Term]:
        """Terms to look up: exact, or from the first to before the second."""
        found: list[Term] = []
        for mark, value in (("d", self.domain), ("p", self.provider), ("f", self.feature), ("t", self.tag)):
            if value:
                found.append((f"{mark}:{plain(value)}".replace("\x00", ""), None))
        for word in dict.fromkeys(words_of((self.q or "").replace("\x00", " ")[:500])[:MOST_WORDS]):
            found.append((f"w:{word}", f"w:{word}{_LAST}"))
        return found


class Catalog:
    """Reads only."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: Remembered[tuple[Caller, Filter], dict[str, Any]] = Remembered(seconds=60.0, most=1000)
        self._tables: Remembered[tuple[Caller, Filter], int] = Remembered(seconds=60.0, most=1000)
        self._frequencies: Remembered[Term, int] = Remembered(seconds=600.0, most=10_000)

    def list(
        self,
        caller: Caller,
        filter: Filter,
        *,
        sort: Sort = "published",
        place: Place = None,
        limit: int = 50,
        tables: bool = False,
    ) -> Page:
        """Documents as JSON text, in order. With `tables`, of those of one table the newest stands for all that match.

        A copy is listed behind its original, whatever it calls itself; and where its own provider's datasets are asked for.
        """
        column, descending, _ = SORTS[sort]
        columns = (datasets.c.number, column.label("at"), datasets.c.document)
        query = select(*columns).order_by(*_order(descending, column, datasets.c.number))
        if place is not None:
            here, there = tuple_(column, datasets.c.number), tuple_(*place)
            query = query.where(here < there if descending else here > there)
        wanted, asked = filter.terms(), asked_by(caller)
        with self._database.read() as connection:
            first_ones = filter.provider is None
            shown = _shown(caller, wanted if tables else None)
            shown = and_(shown, func.coalesce(datasets.c.copy_of, 0) == 0) if first_ones else shown
            rows = self._walked(connection, asked, shown, wanted, query, limit + 1, descending=descending)
            if rows is None:
                sorted_first = query.with_only_columns(*columns[:2])  # documents are long: not through the sorter
                chosen = self._fetched(connection, shown, wanted, sorted_first).limit(limit + 1).subquery()
                both = select(chosen.c.number, chosen.c.at, datasets.c.document).join(
                    datasets, datasets.c.number == chosen.c.number
                )
                rows = connection.execute(both.order_by(*_order(descending, chosen.c.at, chosen.c.number)), asked).all()
            listed = {row.number: row.document for row in rows[:limit]}
            documents = completed(connection, caller, with_copies(connection, caller, listed) if first_ones else listed)
        more = [rows[limit - 1].at, rows[limit - 1].number] if len(rows) > limit else None
        return Page(list(documents.values()), more)

    def providers(self, caller: Caller, after: str | None, limit: int) -> Sequence[tuple[str, int]]:
        """Who has published something that the caller may know of, by name, and how many datasets."""
        query = select(datasets.c.provider, func.count()).where(visible(caller, indexed=True))
        if after is not None:
            query = query.where(datasets.c.provider > after)
        with self._database.read() as connection:
            query = query.group_by(datasets.c.provider).order_by(datasets.c.provider).limit(limit)
            rows = connection.execute(query, asked_by(caller))
            return [(name, int(count)) for name, count in rows]

    def published_by(self, caller: Caller, names: Sequence[str]) -> dict[str, int]:
        """How many datasets of each of these providers the caller may know of."""
        found: dict[str, int] = {}
        with self._database.read() as connection:
            for start in range(0, len(names), 500):
                some = datasets.c.provider.in_(names[start : start + 500])
                query = select(datasets.c.provider, func.count()).where(visible(caller, indexed=True), some)
                rows = connection.execute(query.group_by(datasets.c.provider), asked_by(caller))
                found |= {name: int(count) for name, count in rows}
        return found

    def tables(self, caller: Caller, filter: Filter) -> int:
        """How many tables match, by however many keys each is published. May be as old as the counts of `facets`."""
        caller = self._counted_for(caller)
        view = (caller, filter)
        known = self._tables.get(view)
        if known is None:
            columns, wanted = select(datasets.c.provider, datasets.c.name), filter.terms()
            columns = columns.where(_listed_by(filter))
            with self._database.read() as connection:
                found = self._fetched(connection, visible(caller), wanted, columns).distinct().subquery()
                known = int(connection.execute(select(func.count()).select_from(found), asked_by(caller)).scalar_one())
            if known > MANY:
                self._tables.put(view, known)
        return known

    def siblings(self, caller: Caller, provider: str, name: str) -> Sequence[dict[str, Any]]:
        """The datasets of one table that the caller may know of, by age: each by another key."""
        of_table = (datasets.c.provider == provider) & (datasets.c.name == name)
        query = select(datasets.c.document).where(of_table, visible(caller)).order_by(datasets.c.number)
        with self._database.read() as connection:
            return [json.loads(row.document) for row in connection.execute(query, asked_by(caller))]

    def facets(self, caller: Caller, filter: Filter) -> dict[str, Any]:
        """How many datasets match, and how many of each domain, each provider, each feature and each tag.

        Counts of thousands of datasets may be up to a minute old; others are of this moment.
        """
        caller = self._counted_for(caller)
        view = (caller, filter)
        known = self._counts.get(view)
        if known is None:
            known = self._count(caller, filter)
            if known["total"] > MANY:
                self._counts.put(view, known)
        return known

    def _count(self, caller: Caller, filter: Filter) -> dict[str, Any]:
        columns = (datasets.c.provider, datasets.c.domains)
        query = select(*columns, func.count().label("count")).where(_listed_by(filter)).group_by(*columns)
        with self._database.read() as connection:
            wanted = filter.terms()
            if wanted:
                query = self._fetched(connection, visible(caller), wanted, query)
            else:
                query = query.where(visible(caller, indexed=True))
            # Summed up there: a row that is fetched costs more than one that is counted, above all while others wait.
            both = query.cte("both")
            sums = (
                select(literal(kind).label("kind"), column.label("name"), func.sum(both.c["count"])).group_by(column)
                for kind, column in (("provider", both.c.provider), ("domains", both.c.domains))
            )
            rows = connection.execute(union_all(*sums), asked_by(caller)).all()
            features, tags = (self._count_terms(connection, caller, wanted, mark) for mark in "ft")
        providers, domains = Counter[str](), Counter[str]()
        for kind, names, count in rows:
            if kind == "provider":
                providers[names] = int(count)
            else:
                for name in names.split():
                    domains[name] += int(count)
        return {
            "total": providers.total(),
            "providers": [{"provider": name, "count": count} for name, count in _largest(providers)],
            "domains": [{"domain": name, "count": count} for name, count in _largest(domains)],
            "features": [{"feature": name, "count": count} for name, count in features],
            "tags": [{"tag": name, "count": count} for name, count in tags],
        }

    def _count_terms(
        self, connection: Connection, caller: Caller, wanted: Sequence[Term], mark: str
    ) -> Sequence[tuple[str, int]]:
        """The most common features or tags of what matches, as they are looked up: without case."""
        of_kind = _has((f"{mark}:", f"{mark};"))
        if wanted:
            matching = self._fetched(connection, visible(caller), wanted, select(datasets.c.number)).subquery()
            found = select(terms.c.term).join(matching, matching.c.number == terms.c.dataset).where(of_kind)
        else:
            found = select(terms.c.term).join(datasets, datasets.c.number == terms.c.dataset)
            found = found.where(of_kind, visible(caller))
        number = func.count().label("count")
        counted = found.add_columns(number).group_by(terms.c.term).order_by(number.desc(), terms.c.term).limit(FACETS)
        return [(term.removeprefix(f"{mark}:"), int(times)) for term, times in connection.execute(counted, asked_by(caller))]

    def show(self, caller: Caller, id: str) -> dict[str, Any]:
        row = self.row(caller, id)
        with self._database.read() as connection:
            query = select(versions).where(versions.c.dataset == row["number"]).order_by(versions.c.version.desc())
            found = connection.execute(query).all()
            documents = completed(connection, caller, {row["number"]: row["document"]})
        document: dict[str, Any] = json.loads(documents[row["number"]])
        history = [{"version": v.version, "digest": v.digest, "published": v.published, "bytes": v.bytes} for v in found]
        return document | {"versions": history}

    def row(self, caller: Caller, id: str) -> RowMapping:
        """The dataset's row if the caller may know of it."""
        with self._database.read() as connection:
            row = connection.execute(_by_id(kind_of(caller)), asked_by(caller, id=id)).mappings().first()
        if row is None:
            raise NotFound(
                f"there is no dataset with the id {id!r}.",
                hint="List those that are there for you: `saibot datasets`, or GET /v1/datasets.",
            )
        return row

    def digest(self, caller: Caller, digest: str) -> None:
        """Raise unless some dataset that the caller may know of has a version with this digest."""
        with self._database.read() as connection:
            found = connection.execute(_by_digest(kind_of(caller)), asked_by(caller, digest=digest)).first()
        if found is None:
            raise NotFound("there is no sketch with this digest.", hint="GET /v1/corpus names those that are there.")

    def id_of(self, caller: Caller, digest: str) -> str:
        """The dataset with this sketch among its versions, if the caller may know of it."""
        query = select(datasets.c.id).join(versions, versions.c.dataset == datasets.c.number)
        query = query.where(versions.c.digest == digest, visible(caller)).order_by(datasets.c.copy_of.is_not(None))
        with self._database.read() as connection:
            found = connection.execute(query.limit(1), asked_by(caller)).first()
        if found is None:
            raise NotFound("this dataset is not published here any more.", hint="Its provider may have withdrawn it.")
        return str(found.id)

    def latest(self, caller: Caller, digests: Sequence[str]) -> Sequence[dict[str, Any]]:
        """The datasets that have these sketches as their latest version, those that the caller may know of."""
        query = select(datasets.c.document).join(versions, versions.c.dataset == datasets.c.number)
        query = query.where(versions.c.digest.in_(digests), datasets.c.digest == versions.c.digest, visible(caller))
        with self._database.read() as connection:
            return [json.loads(row.document) for row in connection.execute(query, asked_by(caller))] if digests else []

    def manifest(self, caller: Caller, domain: str | None, place: Place, limit: int) -> Page:
        """What a slice of the corpus is made of: the latest version of every dataset, by number."""
        with self._database.read() as connection:
            columns = select(datasets.c.number, datasets.c.document)
            query = self._fetched(connection, visible(caller), Filter(domain=domain).terms(), columns)
            query = query.where(func.coalesce(datasets.c.copy_of, 0) == 0)  # the same numbers once
            if place is not None:
                query = query.where(datasets.c.number > place[0])
            rows = connection.execute(query.order_by(datasets.c.number).limit(limit + 1), asked_by(caller)).all()
        items = [CorpusEntry.of(Dataset.model_validate_json(row.document)).to_json() for row in rows[:limit]]
        return Page(items, [rows[limit - 1].number] if len(rows) > limit else None)

    def addable(self, target: str) -> Sequence[str]:
        """Digests of the datasets that could be added to a request with this target: they have a feature of its name."""
        query = select(datasets.c.digest).join(terms, terms.c.dataset == datasets.c.number)
        with self._database.read() as connection:
            found = connection.execute(query.where(terms.c.term == f"u:{letters_of(target)}", datasets.c.state == "live"))
            return [row.digest for row in found]

    def hidden_from(self, account: str) -> Sequence[str]:
        """Digests of sketches that are not this requester's to search: granted to others alone, in whatever state their
        datasets are, and all versions of them, for shards may not have caught up yet."""
        caller = Caller(account, frozenset({"requester"}))
        of_each = select(versions.c.digest).join(datasets, datasets.c.number == versions.c.dataset)
        with self._database.read() as connection:
            granted = {row.digest for row in connection.execute(of_each.where(datasets.c.visibility == "granted"))}
            seen = of_each.where(versions.c.digest.in_(granted), visible(caller))
            return sorted(granted - {row.digest for row in connection.execute(seen, asked_by(caller))}) if granted else []

    # -------------------------------------------------------------------------------------------- inside

    def _counted_for(self, caller: Caller) -> Caller:
        """Somebody who may know of the same datasets, and has no name where the caller has no datasets and no grants.

        Counts are made for that one, too: a grant that comes in between must not be counted for everybody.
        """
        roles = caller.roles & {"admin", "requester"}
        own = select(datasets.c.number).where(datasets.c.provider == caller.name).limit(1)
        granted = select(grants.c.dataset).where(grants.c.account == caller.name).limit(1)
        with self._database.read() as connection:
            if caller.has("admin") or not (connection.execute(own).first() or connection.execute(granted).first()):
                return Caller(roles=roles)
        return Caller(caller.name, caller.roles)

    def _walked(
        self,
        connection: Connection,
        asked: dict[str, Any],
        shown: ColumnElement[bool],
        wanted: Sequence[Term],
        query: Select[Any, Any],
        limit: int,
        *,
        descending: bool,
    ) -> Sequence[Any] | None:
        """The first matches met on a walk through the list in its order; None where that would take too long.

        Common terms are met soon. How soon is a guess from how common each is by itself, so the walk has an end: where it
        comes to it with too few matches, they are fetched by a term instead.
        """
        if not wanted:
            return connection.execute(query.where(shown).limit(limit), asked).all()
        size = connection.execute(select(func.max(datasets.c.number))).scalar() or 0
        expected = float(limit)
        for term in wanted:
            expected *= size / max(self._frequency(connection, term), 1)
        if expected > WINDOW / 2 or size <= WINDOW:
            return None
        # On the way only the order's index and the terms are looked at; at a dataset itself where all of its terms match.
        # Its document is no join: for that SQLite would put the whole window together first.
        window = query.with_only_columns(*list(query.selected_columns)[:2]).limit(WINDOW).subquery()
        this = datasets.c.number == window.c.number
        document = select(datasets.c.document).where(this).correlate(window).scalar_subquery()
        met = select(window.c.number, window.c.at, document.label("document"))
        for term in wanted:
            probe = select(terms.c.term).where(terms.c.dataset == window.c.number, _has(term))
            met = met.where(probe.correlate(window).exists())
        met = met.where(select(datasets.c.number).where(this, shown).correlate(window).exists())
        if connection.dialect.name != "sqlite":
            met = met.order_by(*_order(descending, window.c.at, window.c.number))
        # SQLite would look at the whole window before it sorts. It reads the window in its order; that is checked.
        rows = connection.execute(met.limit(limit), asked).all()
        keys = [(row.at, row.number) for row in rows]
        return rows if len(rows) == limit and keys == sorted(keys, reverse=descending) else None

    def _fetched(
        self, connection: Connection, shown: ColumnElement[bool], wanted: Sequence[Term], query: Select[Any, Any]
    ) -> Select[Any, Any]:
        """The query, restricted to what matches, starting from the datasets with the rarest term."""
        query = query.where(shown)
        if not wanted:
            return query
        rarest, *others = sorted(wanted, key=lambda term: self._frequency(connection, term))
        inner = select(terms.c.dataset).where(_has(rarest)).distinct()
        chosen = inner.limit(1 << 40).subquery()  # the limit keeps SQLite from looking into it
        query = query.select_from(chosen.join(datasets, datasets.c.number == chosen.c.dataset))
        for term in others:
            probe = select(terms.c.term).where(terms.c.dataset == datasets.c.number, _has(term))
            query = query.where(probe.correlate(datasets).exists())
        return query

    def _frequency(self, connection: Connection, term: Term) -> int:
        """How many datasets have a term, roughly: to choose a way by."""
        known = self._frequencies.get(term)
        if known is None:
            some = select(terms.c.dataset).where(_has(term)).limit(FEW).subquery()
            known = int(connection.execute(select(func.count()).select_from(some)).scalar_one())
            self._frequencies.put(term, known)
        return known


def _listed_by(filter: Filter) -> ColumnElement[bool]:
    """Copies count as their provider's alone."""
    return true() if filter.provider is not None else func.coalesce(datasets.c.copy_of, 0) == 0


def _order(descending: bool, *columns: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    return [column.desc() if descending else column.asc() for column in columns]


def _has(term: Term) -> ColumnElement[bool]:
    first, last = term
    return terms.c.term == first if last is None else and_(terms.c.term >= first, terms.c.term < last)


def _shown(caller: Caller, as_tables: Sequence[Term] | None) -> ColumnElement[bool]:
    """What the caller may know of; of datasets of one table that have these terms, the newest alone."""
    if as_tables is None:
        return visible(caller)
    same = (_newer.c.provider == datasets.c.provider) & (_newer.c.name == datasets.c.name)
    beside = select(_newer.c.number).where(same, _newer.c.number > datasets.c.number, visible(caller, _newer))
    for term in as_tables:
        probe = select(terms.c.term).where(terms.c.dataset == _newer.c.number, _has(term))
        beside = beside.where(probe.correlate(_newer).exists())
    return and_(visible(caller), ~beside.correlate(datasets).exists())


@cache
def _by_id(kind: Kind) -> Select[Any]:
    return select(datasets).where(datasets.c.id == bindparam("id"), visible_to(kind))


@cache
def _by_digest(kind: Kind) -> Select[Any]:
    """Of those that the caller may know of, one that has a version with the digest."""
    query = select(datasets.c.number).join(versions, versions.c.dataset == datasets.c.number)
    return query.where(versions.c.digest == bindparam("digest"), visible_to(kind)).limit(1)


def _largest(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:FACETS]
