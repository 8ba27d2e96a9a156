"""Today, by the one clock that all who use a database share, as an expression for its queries.

On Postgres that is the database's: a server whose own clock is wrong shows and hides the same datasets as all others.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text, bindparam
from sqlalchemy.ext.compiler import compiles

from saibot.platform import clock


class SharedDay(ColumnElement[str]):
    """As YYYY-MM-DD, in UTC."""

    inherit_cache = True
    # All of them are alike; without this no query that has one is kept compiled.
    _traverse_internals = []  # noqa: RUF012 - declared by SQLAlchemy as no class variable
    type = Text()


@compiles(SharedDay)
def _of_this_machine(element: SharedDay, compiler: Any, **options: Any) -> str:
    # Asked for anew whenever the query runs: a compiled query is kept for days.
    return str(compiler.process(bindparam("today", callable_=lambda: clock.today(), type_=Text(), unique=True), **options))


@compiles(SharedDay, "postgresql")
def _of_postgres(element: SharedDay, compiler: Any, **options: Any) -> str:
    return "to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
