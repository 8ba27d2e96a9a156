"""What the file of an index may be. A corpus is a folder, and a folder may come from anybody.

SQLite trusts its files more than we do. It follows links. It undoes what a journal beside the file says was begun, and such
a journal may name any file of the user as one to delete. It computes whatever expressions tables are declared with, and it
reads a page as often as others point to it, so that a small file can have rows without end.

So files are looked at before SQLite opens them, and tables before they are read.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from functools import cache
from pathlib import Path

LONGEST_CELL = 1 << 20  # bytes of a text or a row
_BESIDE = ("", "-journal", "-wal", "-shm")  # how names of files begin and end that SQLite opens unasked
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")  # at the end of a journal: it names another one, to be deleted after it
_STEPS = 1_000_000  # that reading the declarations may take; ten of them take a few hundred

Declared = frozenset[tuple[object, ...]]


def strange_files(path: Path) -> str | None:
    """Why SQLite shall not open this file, or one that it would open with it; None where nothing speaks against it."""
    for ending in _BESIDE:
        try:
            found = os.lstat(f"{path}{ending}")
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            return "has an index that is a link, or no file"
    return "has a journal that leads out of it" if _names_another(Path(f"{path}-journal")) else None


def careful(db: sqlite3.Connection) -> None:
    """What a connection to such a file should allow."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_CELL)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")


def declares(db: sqlite3.Connection, statements: str) -> bool:
    """Whether the file holds the tables that these statements make, and nothing else."""
    db.set_progress_handler(lambda: 1, _STEPS)  # declarations may go in circles, too
    try:
        return _declared(db) == _made_by(statements)
    finally:
        db.set_progress_handler(None, 0)


def is_sound(db: sqlite3.Connection) -> bool:
    """Whether every page has one place: what is read is then never more than the file. It is read through for that."""
    return db.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]


def _names_another(journal: Path) -> bool:
    """We change one file at a time, and no journal of ours names a second."""
    try:
        with journal.open("rb") as file:
            file.seek(-min(len(_JOURNAL_MAGIC), os.fstat(file.fileno()).st_size), os.SEEK_END)
            return file.read() == _JOURNAL_MAGIC
    except FileNotFoundError:
        return False


@cache
def _made_by(statements: str) -> Declared:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(statements)
        return _declared(db)


def _declared(db: sqlite3.Connection) -> Declared:
    """As SQLite keeps it; versions of it may put blanks elsewhere."""
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return frozenset(tuple(" ".join(cell.split()) if isinstance(cell, str) else cell for cell in row) for row in rows)
