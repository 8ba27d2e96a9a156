"""What it looks like when storage is away: a database or a file store that does not answer, or a disk that is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError, OperationalError, TimeoutError

from saibot.errors import SaibotError
from saibot.platform.storage.reserve import is_full

MESSAGE = "the platform's storage does not answer, or is full."
HINT = "Try again in a moment; if it stays, tell the admin the request id."


class StorageAway(SaibotError):
    """The platform cannot be opened where its settings say it is."""


def is_away(problem: BaseException) -> bool:
    """Whether trying again later may help. A file that is missing is no outage."""
    if isinstance(problem, OSError):
        return not isinstance(problem, FileNotFoundError)
    lost = isinstance(problem, DBAPIError) and problem.connection_invalidated
    return lost or isinstance(problem, OperationalError | InterfaceError | TimeoutError) or is_full(problem)


@contextmanager
def told_in_a_line() -> Iterator[None]:
    """For whoever starts a platform: which storage cannot be used, and why. (The driver's own words name no password.)"""
    try:
        yield
    except (OperationalError, InterfaceError) as problem:
        why = str(problem.orig).strip().splitlines()[0]
        hint = "Is it running, and is SAIBOT_DATABASE (or --database) its address?"
        raise StorageAway(f"the database cannot be used: {why}", hint=hint) from None
    except DatabaseError:
        hint = "Restore the last backup into a new --data folder: `saibot restore FILE`."
        raise StorageAway("the database is damaged, or is no database.", hint=hint) from None
    except OSError as problem:
        where = problem.filename or "a folder or the file store"
        why = problem.strerror or str(problem)
        hint = "SAIBOT_DATA and SAIBOT_FILES (or --data, --files) say where things are kept."
        raise StorageAway(f"{where} cannot be used: {why}", hint=hint) from None
