"""Documents of datasets, completed by what changes while the datasets stay what they are: their copies, further keys of
their table, the total of their account, whether their provider is verified, and what they are copies of.

Queries are built once for each kind of caller.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import Any

from sqlalchemy import BindParameter, Connection, Select, and_, bindparam, func, select, tuple_

from saibot.platform.accounts import Caller
from saibot.platform.storage.tables import datasets, providers, versions
from saibot.platform.visibility import Kind, asked_by, kind_of, visible_to

MOST_COPIES, COPIES_OF_ONE = 200, 5  # listed behind the originals of one page, and behind each
_THESE: BindParameter[Any] = bindparam("numbers", expanding=True)
_original, _other = datasets.alias(), datasets.alias()


def with_copies(connection: Connection, caller: Caller, listed: dict[int, str]) -> dict[int, str]:
    """The same datasets, each with its copies behind it, as far as the caller may know of them."""
    found = connection.execute(_copies(kind_of(caller)), asked_by(caller, numbers=list(listed))).all()
    if not found:
        return listed
    answer: dict[int, str] = {}
    for number, document in listed.items():
        copies = {row.number: row.document for row in found if row.copy_of == number}
        answer |= {number: document} | dict(islice(copies.items(), COPIES_OF_ONE))
    return answer


def completed(connection: Connection, caller: Caller, documents: dict[int, str]) -> dict[int, str]:
    """The same datasets, with what changes."""
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
    rows = connection.execute(_standing(kind_of(caller)), asked_by(caller, numbers=list(numbers)))
    return {
        number: {"verified": verified is not None, "copy_of": None if copy_of is None else id or ""}
        for number, copy_of, verified, id in rows
    }


def _other_keys(connection: Connection, caller: Caller, numbers: Collection[int]) -> dict[int, list[Any]]:
    """Of those datasets whose table is published by further keys, those that the caller may know of."""
    found: dict[int, list[Any]] = {}
    for number, text in connection.execute(_beside(kind_of(caller)), asked_by(caller, numbers=list(numbers))):
        if key := json.loads(text)["key"]:
            found.setdefault(number, []).append(key)
    return found


def _totals(connection: Connection, numbers: Collection[int]) -> dict[int, dict[str, str]]:
    """Of those datasets whose account has spent more than their own sketch says, the latest total.

    A provider's word counts for the provider's own sketches alone: anybody could name another's account. Sketches that a
    caller may not know of count, too: that is more honest, and tells nothing about what is in them.
    """
    rows = connection.execute(_spent(), {"numbers": list(numbers)})
    own = {number: rest for number, *rest in rows}  # the latest version's stays
    accounts = {(provider, holder) for provider, holder, *_ in own.values()}
    latest: dict[tuple[str, str], dict[str, str]] = {}
    if accounts:
        holders = sorted({holder for _, holder in accounts})
        named = {"holders": holders, "accounts": sorted(accounts)}
        for provider, holder, epsilon, delta in connection.execute(_spent_by_accounts(), named):
            total = {"epsilon": epsilon, "delta": delta}
            latest[provider, holder] = max(latest.get((provider, holder), total), total, key=_later)
    totals = {number: latest[provider, holder] for number, (provider, holder, *_) in own.items()}
    return {number: total for number, total in totals.items() if [*total.values()] != own[number][2:]}


def _later(total: dict[str, str]) -> tuple[Decimal, Decimal]:
    """An account's total grows, and gets its delta with the first release that needs one."""
    return Decimal(total["delta"]), Decimal(total["epsilon"])


# ------------------------------------------------------------------------------------------------ the queries


@cache
def _copies(kind: Kind) -> Select[Any, Any, Any]:
    query = select(datasets.c.number, datasets.c.copy_of, datasets.c.document).where(datasets.c.copy_of.in_(_THESE))
    return query.where(visible_to(kind)).order_by(datasets.c.number).limit(MOST_COPIES)


@cache
def _standing(kind: Kind) -> Select[Any, Any, Any, Any]:
    query = select(datasets.c.number, datasets.c.copy_of, providers.c.verified, _original.c.id)
    query = query.outerjoin(providers, providers.c.account == datasets.c.provider)
    query = query.outerjoin(_original, and_(_original.c.number == datasets.c.copy_of, visible_to(kind, _original)))
    said = providers.c.verified.is_not(None) | datasets.c.copy_of.is_not(None)
    return query.where(datasets.c.number.in_(_THESE), said)


@cache
def _beside(kind: Kind) -> Select[Any, Any]:
    one, other = _other, datasets
    beside = (other.c.provider == one.c.provider) & (other.c.name == one.c.name) & (other.c.number != one.c.number)
    query = select(one.c.number, other.c.document).join(other, beside).where(one.c.number.in_(_THESE), visible_to(kind))
    return query.order_by(other.c.number)


_ACCOUNT = (versions.c.account, versions.c.holder, versions.c.spent_epsilon, versions.c.spent_delta)


@cache
def _spent() -> Select[Any, Any, Any, Any, Any]:
    query = select(versions.c.dataset, *_ACCOUNT).where(versions.c.dataset.in_(_THESE), versions.c.holder.is_not(None))
    return query.order_by(versions.c.version)


@cache
def _spent_by_accounts() -> Select[Any, Any, Any, Any]:
    # Pairs alone would be looked for in the whole table: SQLite has no index for them.
    named = versions.c.holder.in_(bindparam("holders", expanding=True))
    pairs = tuple_(func.coalesce(versions.c.account, ""), versions.c.holder).in_(bindparam("accounts", expanding=True))
    return select(*_ACCOUNT).where(named, pairs).distinct()
