"""The engines that sum rows, by name. To add one, write its module here and enter it below; `--backend` takes its name."""

from __future__ import annotations

from typing import Any

from saibot.errors import InvalidInput
from saibot.privatize.engines.duckdb import DuckDB
from saibot.privatize.engines.engine import TableEngine
from saibot.privatize.engines.polars import Polars

__all__ = ["DEFAULT_ENGINE", "ENGINES", "BackendName", "TableEngine", "engine_named", "engine_of", "open_engine", "register"]

BackendName = str  # of an engine that is registered
ENGINES: dict[str, type[TableEngine]] = {}
DEFAULT_ENGINE: BackendName = DuckDB.name


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
        raise InvalidInput(f"the engine {name} is not installed.", hint=f"pip install 'saibot[{kind.extra}]'") from None


def engine_of(connection: Any) -> TableEngine:
    """The engine of somebody's own ibis connection; one that is not registered sums rows like any database."""
    return ENGINES.get(connection.name, TableEngine)(connection, foreign=True)


register(DuckDB)
register(Polars)
