"""Who may know of which dataset, as a condition for queries.

A condition is the same for all callers of one kind, and is built once for each: a list would spend more time putting its
queries together than the database needs to answer them. Whose own datasets and grants count is said when a query runs, by
`asked_by(caller)`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from sqlalchemy import ColumnElement, FromClause, and_, bindparam, func, or_, select, true

from saibot.platform.accounts import Caller
from saibot.platform.storage.shared_day import SharedDay
from saibot.platform.storage.tables import datasets, grants

Kind = Literal["admin", "requester", "account", "nobody"]
_ME = "asking_account"


def kind_of(caller: Caller) -> Kind:
    """What decides beside the caller's name."""
    if caller.has("admin"):
        return "admin"
    if caller.has("requester"):
        return "requester"
    return "account" if caller.signed_in else "nobody"


def asked_by(caller: Caller, **more: Any) -> dict[str, Any]:
    """What goes with a query that has such a condition when it is executed."""
    return {_ME: caller.name, **more}


def visible(caller: Caller, of: FromClause = datasets, *, indexed: bool = False) -> ColumnElement[bool]:
    """That the caller may know of a dataset. `of` is one of few aliases that stay: conditions are kept."""
    return visible_to(kind_of(caller), of, indexed=indexed)


@cache
def visible_to(kind: Kind, of: FromClause = datasets, *, indexed: bool = False) -> ColumnElement[bool]:
    """`indexed`: by the index for counting. Else said so that SQLite does not choose it, where datasets are looked at one by
    one in another order."""
    current = _current(of, indexed=indexed)
    if kind == "admin":
        return and_(current, true())
    # A copy shows nobody what its original does not show them; its own provider sees what became of it.
    first = datasets.alias()
    original = select(first.c.number).where(first.c.number == of.c.copy_of, _current(first), _may_see(kind, first))
    # Said so that SQLite does not look all those up by their index that are no copies, to sort them afterwards.
    of_one = or_(func.coalesce(of.c.copy_of, 0) == 0, original.correlate(of).exists())
    if kind != "nobody":
        of_one = or_(of_one, of.c.provider == bindparam(_ME))
    return and_(current, _may_see(kind, of), of_one)


def _current(of: FromClause, *, indexed: bool = False) -> ColumnElement[bool]:
    state = of.c.state if indexed else func.coalesce(of.c.state, "")
    return and_(state == "live", or_(of.c.expires.is_(None), of.c.expires > SharedDay()))


def _may_see(kind: Kind, of: FromClause) -> ColumnElement[bool]:
    """Whom a dataset is visible to, whatever else there is."""
    for_all: ColumnElement[bool] = of.c.visibility == "public"
    if kind == "nobody":
        return for_all
    granted = select(grants.c.dataset).where(grants.c.account == bindparam(_ME))
    for_requesters = (of.c.visibility == "restricted",) if kind == "requester" else ()
    return or_(for_all, *for_requesters, of.c.provider == bindparam(_ME), of.c.number.in_(granted))
