"""The catalogue: list, filter, count and show datasets, each to whom it is visible."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller
from saibot.platform.describe import letters_of, plain, words_of
from saibot.platform.errors import NotFound
from saibot.platform.pagination import Page, Place
from saibot.platform.remembered import Remembered
from saibot.platform.storage.database import Database
from saibot.platform.storage.shared_day import SharedDay
from saibot.platform.storage.tables import datasets, grants, providers, terms, versions
from saibot.wire import CorpusEntry, Dataset

Sort = Literal["published", "rows", "epsilon", "name"]
SORTS: dict[str, tuple[ColumnElement[Any], bool, type]] = {  # column, descending, type of its values
    "published": (datasets.c.published, True, str),
    "rows": (datasets.c.rows, True, int),
    "epsilon": (datasets.c.epsilon, False, float),
    "name": (datasets.c.sort_name, False, str),
}
FEW = 20_000  # a term is counted up to here
WINDOW = 12_000  # datasets that a walk through the list looks at
MANY = 2_000  # datasets whose counts are remembered for a while
MOST_WORDS = 8
FACETS = 100
MOST_COPIES, COPIES_OF_ONE = 200, 5  # listed behind the originals of one page, and behind each
_LAST = "\U0010ffff"
Term = tuple[str, str | None]


@dataclass(frozen=True)
class Filter:
    """All of these hold for a dataset that is listed. `q`: every word of it begins a word of the dataset."""

    q: str | None = None
    domain: str | None = None
    provider: str | None = None
    feature: str | None = None

    def terms(self) -> list[Term]:
        """Terms to look up: exact, or from the first to before the second."""
        found: list[Term] = []
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
        wanted = filter.terms()
        with self._database.read() as connection:
            first_ones = filter.provider is None
            shown = _shown(caller, wanted if tables else None)
            shown = and_(shown, func.coalesce(datasets.c.copy_of, 0) == 0) if first_ones else shown
            rows = self._walked(connection, shown, wanted, query, limit + 1, descending=descending)
            if rows is None:
                sorted_first = query.with_only_columns(*columns[:2])  # documents are long: not through the sorter
                chosen = self._fetched(connection, shown, wanted, sorted_first).limit(limit + 1).subquery()
                both = select(chosen.c.number, chosen.c.at, datasets.c.document).join(
                    datasets, datasets.c.number == chosen.c.number
                )
                rows = connection.execute(both.order_by(*_order(descending, chosen.c.at, chosen.c.number))).all()
            listed = {row.number: row.document for row in rows[:limit]}
            documents = _whole(connection, caller, _with_copies(connection, caller, listed) if first_ones else listed)
        more = [rows[limit - 1].at, rows[limit - 1].number] if len(rows) > limit else None
        return Page(list(documents.values()), more)

    def providers(self, caller: Caller, after: str | None, limit: int) -> Sequence[tuple[str, int]]:
        """Who has published something that the caller may know of, by name, and how many datasets."""
        query = select(datasets.c.provider, func.count()).where(_visible(caller, indexed=True))
        if after is not None:
            query = query.where(datasets.c.provider > after)
        with self._database.read() as connection:
            rows = connection.execute(query.group_by(datasets.c.provider).order_by(datasets.c.provider).limit(limit))
            return [(name, int(count)) for name, count in rows]

    def published_by(self, caller: Caller, names: Sequence[str]) -> dict[str, int]:
        """How many datasets of each of these providers the caller may know of."""
        found: dict[str, int] = {}
        with self._database.read() as connection:
            for start in range(0, len(names), 500):
                some = datasets.c.provider.in_(names[start : start + 500])
                query = select(datasets.c.provider, func.count()).where(_visible(caller, indexed=True), some)
                found |= {name: int(count) for name, count in connection.execute(query.group_by(datasets.c.provider))}
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
                found = self._fetched(connection, _visible(caller), wanted, columns).distinct().subquery()
                known = int(connection.execute(select(func.count()).select_from(found)).scalar_one())
            if known > MANY:
                self._tables.put(view, known)
        return known

    def siblings(self, caller: Caller, provider: str, name: str) -> Sequence[dict[str, Any]]:
        """The datasets of one table that the caller may know of, by age: each by another key."""
        query = select(datasets.c.document).where(datasets.c.provider == provider, datasets.c.name == name, _visible(caller))
        with self._database.read() as connection:
            return [json.loads(row.document) for row in connection.execute(query.order_by(datasets.c.number))]

    def facets(self, caller: Caller, filter: Filter) -> dict[str, Any]:
        """How many datasets match, and how many of each domain, each provider and each feature.

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
                query = self._fetched(connection, _visible(caller), wanted, query)
            else:
                query = query.where(_visible(caller, indexed=True))
            # Summed up there: a row that is fetched costs more than one that is counted, above all while others wait.
            both = query.cte("both")
            sums = (
                select(literal(kind).label("kind"), column.label("name"), func.sum(both.c["count"])).group_by(column)
                for kind, column in (("provider", both.c.provider), ("domains", both.c.domains))
            )
            rows = connection.execute(union_all(*sums)).all()
            features = self._count_features(connection, caller, wanted)
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
        }

    def _count_features(self, connection: Connection, caller: Caller, wanted: Sequence[Term]) -> Sequence[tuple[str, int]]:
        """The most common features of what matches, as they are looked up: without case."""
        of_features = _has(("f:", "f;"))
        if wanted:
            matching = self._fetched(connection, _visible(caller), wanted, select(datasets.c.number)).subquery()
            found = select(terms.c.term).join(matching, matching.c.number == terms.c.dataset).where(of_features)
        else:
            found = select(terms.c.term).join(datasets, datasets.c.number == terms.c.dataset)
            found = found.where(of_features, _visible(caller))
        number = func.count().label("count")
        counted = found.add_columns(number).group_by(terms.c.term).order_by(number.desc(), terms.c.term).limit(FACETS)
        return [(term.removeprefix("f:"), int(times)) for term, times in connection.execute(counted)]

    def show(self, caller: Caller, id: str) -> dict[str, Any]:
        row = self.row(caller, id)
        with self._database.read() as connection:
            query = select(versions).where(versions.c.dataset == row["number"]).order_by(versions.c.version.desc())
            found = connection.execute(query).all()
            documents = _whole(connection, caller, {row["number"]: row["document"]})
        document: dict[str, Any] = json.loads(documents[row["number"]])
        history = [{"version": v.version, "digest": v.digest, "published": v.published, "bytes": v.bytes} for v in found]
        return document | {"versions": history}

    def row(self, caller: Caller, id: str) -> RowMapping:
        """The dataset's row if the caller may know of it."""
        with self._database.read() as connection:
            row = connection.execute(select(datasets).where(datasets.c.id == id, _visible(caller))).mappings().first()
        if row is None:
            raise NotFound(
                f"there is no dataset {id}.",
                hint="List those that are there for you: `saibot datasets`, or GET /v1/datasets.",
            )
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
        query = query.where(versions.c.digest == digest, _visible(caller)).order_by(datasets.c.copy_of.is_not(None))
        with self._database.read() as connection:
            found = connection.execute(query.limit(1)).first()
        if found is None:
            raise NotFound("this dataset is not published here any more.", hint="Its provider may have withdrawn it.")
        return str(found.id)

    def latest(self, caller: Caller, digests: Sequence[str]) -> Sequence[dict[str, Any]]:
        """The datasets that have these sketches as their latest version, those that the caller may know of."""
        query = select(datasets.c.document).join(versions, versions.c.dataset == datasets.c.number)
        query = query.where(versions.c.digest.in_(digests), datasets.c.digest == versions.c.digest, _visible(caller))
        with self._database.read() as connection:
            return [json.loads(row.document) for row in connection.execute(query)] if digests else []

    def manifest(self, caller: Caller, domain: str | None, place: Place, limit: int) -> Page:
        """What a slice of the corpus is made of: the latest version of every dataset, by number."""
        with self._database.read() as connection:
            columns = select(datasets.c.number, datasets.c.document)
            query = self._fetched(connection, _visible(caller), Filter(domain=domain).terms(), columns)
            query = query.where(func.coalesce(datasets.c.copy_of, 0) == 0)  # the same numbers once
            if place is not None:
                query = query.where(datasets.c.number > place[0])
            rows = connection.execute(query.order_by(datasets.c.number).limit(limit + 1)).all()
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
            seen = of_each.where(versions.c.digest.in_(granted), _visible(caller))
            return sorted(granted - {row.digest for row in connection.execute(seen)}) if granted else []

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
            return connection.execute(query.where(shown).limit(limit)).all()
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
        rows = connection.execute(met.limit(limit)).all()
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


def _with_copies(connection: Connection, caller: Caller, listed: dict[int, str]) -> dict[int, str]:
    """The same datasets, each with its copies behind it, as far as the caller may know of them."""
    query = select(datasets.c.number, datasets.c.copy_of, datasets.c.document).where(datasets.c.copy_of.in_(listed))
    found = connection.execute(query.where(_visible(caller)).order_by(datasets.c.number).limit(MOST_COPIES)).all()
    if not found:
        return listed
    answer: dict[int, str] = {}
    for number, document in listed.items():
        copies = {row.number: row.document for row in found if row.copy_of == number}
        answer |= {number: document} | dict(islice(copies.items(), COPIES_OF_ONE))
    return answer


def _whole(connection: Connection, caller: Caller, documents: dict[int, str]) -> dict[int, str]:
    """The datasets with what changes while they stay what they are: further keys of their table, the total of their account,
    whether their provider is verified, and what they are copies of."""
    answer = dict(documents)
    keys, spent = _other_keys(connection, caller, documents), _totals(connection, documents)
    stands = _standings(connection, caller, documents)
    for number in keys.keys() | spent.keys() | stands.keys():
        document = json.loads(documents[number])
        document["keys"] += keys.get(number, [])
        document["spent"] = spent.get(number, document["spent"])
        document |= stands.get(number, {})
        answer[number] = json.dumps(document, ensure_ascii=False)
    return answer


def _standings(connection: Connection, caller: Caller, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
    """Of those datasets whose provider is verified, or that are copies. What the caller may not know of has no name."""
    original = datasets.alias()
    query = select(datasets.c.number, datasets.c.copy_of, providers.c.verified, original.c.id)
    query = query.outerjoin(providers, providers.c.account == datasets.c.provider)
    query = query.outerjoin(original, and_(original.c.number == datasets.c.copy_of, _visible(caller, original)))
    said = providers.c.verified.is_not(None) | datasets.c.copy_of.is_not(None)
    return {
        number: {"verified": verified is not None, "copy_of": None if copy_of is None else id or ""}
        for number, copy_of, verified, id in connection.execute(query.where(datasets.c.number.in_(numbers), said))
    }


def _other_keys(connection: Connection, caller: Caller, numbers: Collection[int]) -> dict[int, list[Any]]:
    """Of those datasets whose table is published by further keys, those that the caller may know of."""
    one, other = datasets.alias(), datasets
    beside = (other.c.provider == one.c.provider) & (other.c.name == one.c.name) & (other.c.number != one.c.number)
    query = select(one.c.number, other.c.document).join(other, beside).where(one.c.number.in_(numbers), _visible(caller))
    found: dict[int, list[Any]] = {}
    for number, text in connection.execute(query.order_by(other.c.number)):
        if key := json.loads(text)["key"]:
            found.setdefault(number, []).append(key)
    return found


def _totals(connection: Connection, numbers: Collection[int]) -> dict[int, dict[str, str]]:
    """Of those datasets whose account has spent more than their own sketch says, the latest total.

    A provider's word counts for the provider's own sketches alone: anybody could name another's account. Sketches that a
    caller may not know of count, too: that is more honest, and tells nothing about what is in them.
    """
    columns = (versions.c.account, versions.c.holder, versions.c.spent_epsilon, versions.c.spent_delta)
    query = select(versions.c.dataset, *columns).where(versions.c.dataset.in_(numbers), versions.c.holder.is_not(None))
    own = {number: rest for number, *rest in connection.execute(query.order_by(versions.c.version))}  # the latest stays
    accounts = {(provider, holder) for provider, holder, *_ in own.values()}
    latest: dict[tuple[str, str], dict[str, str]] = {}
    if accounts:
        # Pairs alone would be looked for in the whole table: SQLite has no index for them.
        named = versions.c.holder.in_({holder for _, holder in accounts})
        held = select(*columns).where(named, tuple_(func.coalesce(versions.c.account, ""), versions.c.holder).in_(accounts))
        for provider, holder, epsilon, delta in connection.execute(held.distinct()):
            total = {"epsilon": epsilon, "delta": delta}
            latest[provider, holder] = max(latest.get((provider, holder), total), total, key=_later)
    totals = {number: latest[provider, holder] for number, (provider, holder, *_) in own.items()}
    return {number: total for number, total in totals.items() if [*total.values()] != own[number][2:]}


def _later(total: dict[str, str]) -> tuple[Decimal, Decimal]:
    """An account's total grows, and gets its delta with the first release that needs one."""
    return Decimal(total["delta"]), Decimal(total["epsilon"])


def _order(descending: bool, *columns: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    return [column.desc() if descending else column.asc() for column in columns]


def _has(term: Term) -> ColumnElement[bool]:
    first, last = term
    return terms.c.term == first if last is None else and_(terms.c.term >= first, terms.c.term < last)


def _shown(caller: Caller, as_tables: Sequence[Term] | None) -> ColumnElement[bool]:
    """What the caller may know of; of datasets of one table that have these terms, the newest alone."""
    visible = _visible(caller)
    if as_tables is None:
        return visible
    newer = datasets.alias()
    same = (newer.c.provider == datasets.c.provider) & (newer.c.name == datasets.c.name)
    beside = select(newer.c.number).where(same, newer.c.number > datasets.c.number, _visible(caller, newer))
    for term in as_tables:
        probe = select(terms.c.term).where(terms.c.dataset == newer.c.number, _has(term))
        beside = beside.where(probe.correlate(newer).exists())
    return and_(visible, ~beside.correlate(datasets).exists())


def _visible(caller: Caller, of: FromClause = datasets, *, indexed: bool = False) -> ColumnElement[bool]:
    """`indexed`: by the index for counting. Else said so that SQLite does not choose it, where datasets are looked at one by
    one in another order."""
    state = of.c.state if indexed else func.coalesce(of.c.state, "")
    current = and_(state == "live", or_(of.c.expires.is_(None), of.c.expires > SharedDay()))
    if caller.has("admin"):
        return and_(current, true())
    # A copy shows nobody what its original does not show them; its own provider sees what became of it.
    first = datasets.alias()
    original = select(first.c.number).where(first.c.number == of.c.copy_of, _current(first), _may_see(caller, first))
    # Said so that SQLite does not look all those up by their index that are no copies, to sort them afterwards.
    of_one = or_(func.coalesce(of.c.copy_of, 0) == 0, original.correlate(of).exists())
    if caller.signed_in:
        of_one = or_(of_one, of.c.provider == caller.name)
    return and_(current, _may_see(caller, of), of_one)


def _current(of: FromClause) -> ColumnElement[bool]:
    return and_(func.coalesce(of.c.state, "") == "live", or_(of.c.expires.is_(None), of.c.expires > SharedDay()))


def _may_see(caller: Caller, of: FromClause) -> ColumnElement[bool]:
    """Whom a dataset is visible to, whatever else there is."""
    for_all: ColumnElement[bool] = of.c.visibility == "public"
    if not caller.signed_in:
        return for_all
    granted = select(grants.c.dataset).where(grants.c.account == caller.name)
    for_requesters = (of.c.visibility == "restricted",) if caller.has("requester") else ()
    return or_(for_all, *for_requesters, of.c.provider == caller.name, of.c.number.in_(granted))


def _largest(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:FACETS]
