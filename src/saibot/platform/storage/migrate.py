"""Bring a database to the tables this version of saibot works with, one transaction for each step.

A step that is cut off leaves the database as it was before the step. Several processes may start at once: the first one
migrates, the others wait for it.
"""

from __future__ import annotations

import io
from pathlib import Path

from sqlalchemy import inspect, text

from saibot.errors import SaibotError
from saibot.platform.storage.database import Database

FOLDER = Path(__file__).parent / "migrations"
LATEST = "0009"
_LOCK = 7_209_482_716  # any number; all saibot processes of one Postgres agree on it


class DatabaseTooNew(SaibotError):
    """The database was written by a later version of saibot."""


def migrate(database: Database, *, to: str | None = None) -> str | None:
    """The revision it had before, None for a new database. `to` is an earlier one where rows of that time are put in."""
    before = revision(database)
    if before == LATEST:
        return before
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    if before is not None and before not in revisions():
        raise DatabaseTooNew(
            f"the database has revision {before}, which this version of saibot does not know.",
            hint="Start the version of saibot that wrote it, or a later one.",
        )
    try:
        with database.write() as connection:
            if not database.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            config.attributes["connection"] = connection
            command.upgrade(config, to or LATEST)
    except CommandError as problem:
        raise SaibotError(f"the database cannot be migrated: {problem}") from None
    return before


def revisions() -> set[str]:
    """All that there have been."""
    return {path.name[:4] for path in (FOLDER / "versions").glob("[0-9]*.py")}


def revision(database: Database) -> str | None:
    with database.read() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return None if found is None else str(found)
