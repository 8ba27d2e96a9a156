"""Room on the disk for the day when it is full: to withdraw something, and to start."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from saibot.errors import InvalidInput

BYTES = 4 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """A file of the data folder that holds nothing."""

    def __init__(self, data: Path) -> None:
        self._data, self._path = data, data / "reserve"

    def release_if_short(self) -> None:
        if shutil.disk_usage(self._data).free < BYTES:
            self.release()

    def release(self) -> None:
        self._path.unlink(missing_ok=True)

    def put_by(self) -> None:
        """As much as it should be, or half of what there is."""
        have = self._path.stat().st_size if self._path.exists() else 0
        wanted = min(BYTES, (shutil.disk_usage(self._data).free + have) // 2)
        if wanted > have:
            with suppress(OSError), self._path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, wanted)


def is_full(problem: BaseException) -> bool:
    """Whether this says that there is no room left. (A corpus tells what SQLite said of its index.)"""
    if isinstance(problem, OSError):
        return problem.errno in _FULL
    if isinstance(problem, sqlite3.Error):
        return "disk is full" in str(problem)
    if isinstance(problem, DBAPIError):
        return "disk is full" in str(problem.orig) or getattr(problem.orig, "sqlstate", None) == "53100"
    return isinstance(problem, InvalidInput) and "disk is full" in problem.message
