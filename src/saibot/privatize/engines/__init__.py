"""The engines that sum rows, by name. To add one, write its module here and enter it below; `--backend` takes its name."""

from __future__ import annotations

from typing import Any

import ibis

from saibot.errors import InvalidInput
from saibot.extras import how_to_install
from saibot.privatize.engines.duckdb import DuckDB
from saibot.privatize.engines.engine import TableEngine
from saibot.privatize.engines.polars import Polars
from saibot.privatize.engines.postgres import Postgres
from saibot.privatize.engines.spark import Spark

__all__ = [
    "DEFAULT_ENGINE",
    "ENGINES",
    "BackendName",
    "TableEngine",
    "engine_named",
    "engine_of",
    "open_engine",
    "register",
    "table_in",
]

BackendName = str  # of an engine that is registered
ENGINES: dict[str, type[TableEngine]] = {}
DEFAULT_ENGINE: BackendName = DuckDB.name
DATABASES = {"postgresql": "postgres", "postgres": "postgres", "duckdb": "duckdb"}  # by how an address begins


def register(engine: type[TableEngine]) -> type[TableEngine]:
    """Offer an engine by its name, which must be free."""
    if engine.name in ENGINES:
        raise ValueError(f"there is an engine {engine.name!r} already")
    ENGINES[engine.name] = engine
    return engine


def engine_named(name: BackendName) -> type[TableEngine]:
    if name not in ENGINES:
        raise InvalidInput(f"--backend is {' or '.join(ENGINES)}, not {name!r}.")
    return ENGINES[name]


def open_engine(name: BackendName = DEFAULT_ENGINE) -> TableEngine:
    """A fresh engine. One whose package is missing is refused with the extra that brings it."""
    kind = engine_named(name)
    try:
        return kind.open()
    except (ImportError, AttributeError):  # ibis has no attribute of an engine that is not installed
        if kind.extra is None:
            raise
        raise InvalidInput(f"the engine {name} is not installed.", hint=how_to_install(kind.extra)) from None


def engine_of(connection: Any) -> TableEngine:
    """The engine of somebody's own ibis connection; one that is not registered sums rows like any database."""
    name = Spark.name if connection.name == Spark.connection_name else connection.name
    return ENGINES.get(name, TableEngine)(connection, foreign=True)


def table_in(database: str, name: str, backend: BackendName | None = None) -> Any:
    """A table or view of somebody's own database, as an ibis table. `name` may have its schema before it: `school.rows`.

    `database` is an address, `postgresql://user@host/name` or `duckdb:///file`. `backend`, where said, has to be that one.
    """
    scheme = database.partition("://")[0]
    kind = DATABASES.get(scheme)
    if kind is None or backend not in (None, DEFAULT_ENGINE, kind):
        raise InvalidInput(
            "--database is no address of a database that sums rows here.",
            hint="It begins with postgresql:// or duckdb://; --backend is left out or the same.",
        )
    try:
        connection = ibis.connect(database)
        schema, dot, table = name.rpartition(".")
        return connection.table(table, database=schema if dot else None)
    except ImportError:
        hint = how_to_install(ENGINES[kind].extra or "local")
        raise InvalidInput(f"the engine {kind} is not installed.", hint=hint) from None
    except Exception as problem:  # its words may hold the address, and so a password
        raise InvalidInput(
            f"the table cannot be opened in that database ({type(problem).__name__}).",
            hint="Check address, user and the name of the table; a password may stand in ~/.pgpass.",
        ) from None


register(DuckDB)
register(Polars)
register(Postgres)
register(Spark)
