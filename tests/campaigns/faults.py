"""Faults beside kills: a clock that is ahead, a full disk, a log whose end is torn, tables of a later version."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from saibot.platform import backup, clock
from saibot.platform.storage import migrate

DISK_SIZE = "128M"
FILLER = "filler"


@contextmanager
def clock_ahead(days: float) -> Iterator[None]:
    """The platform of this process believes that it is so much later."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(days=days)

    was, clock.datetime = clock.datetime, Ahead  # type: ignore[misc]
    try:
        yield
    finally:
        clock.datetime = was  # type: ignore[misc]


@contextmanager
def small_disk(state: Path) -> Iterator[Path | None]:
    """A disk of its own, in a file, so that what is on it is there the next time; None where nothing may be mounted."""
    image, place = state / "disk.img", state / "disk"
    place.mkdir(parents=True, exist_ok=True)
    if not place.is_mount():
        made = image.exists() or (_done("truncate", "-s", DISK_SIZE, str(image)) and _done("mkfs.ext4", "-q", str(image)))
        if not made or not _done("mount", "-o", "loop", str(image), str(place)):
            image.unlink(missing_ok=True)
            yield None
            return
    try:
        empty(place)
        yield place
    finally:
        _done("umount", "-l", str(place))


def _done(*command: str) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


def fill(disk: Path) -> None:
    """Not a byte is left."""
    for size in (1 << 20, 1):
        with (disk / FILLER).open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(size))


def empty(disk: Path) -> None:
    """As it was before it was filled."""
    (disk / FILLER).unlink(missing_ok=True)


def tear_the_log(data: Path) -> bool:
    """What a power cut leaves of a write to SQLite's log that was never synced: some bytes that are no frame."""
    log = data / "saibot.db-wal"
    if not log.exists():
        return False
    with log.open("ab") as file:
        file.write(os.urandom(1000))
    return True


def with_more_tables(state: Path, steps: int) -> None:
    """From now on this process is a later version of saibot, whose tables have so many columns more, filled from others."""
    folder = state / "migrations"
    if not folder.exists():
        shutil.copytree(migrate.FOLDER, state / "migrations.part", ignore=shutil.ignore_patterns("__pycache__"))
        (state / "migrations.part").rename(folder)
    before = migrate.LATEST
    for step in range(1, steps + 1):
        name = f"9{step:03d}"
        path = folder / "versions" / f"{name}_more.py"
        if not path.exists():
            path.write_text(
                "import sqlalchemy as sa\n"
                "from alembic import op\n"
                f"revision, down_revision = '{name}', '{before}'\n"
                "def upgrade():\n"
                f"    op.add_column('datasets', sa.Column('more_{name}', sa.Text()))\n"
                f"    op.execute('UPDATE datasets SET more_{name} = upper(name)')\n"
                f"    op.create_index('datasets_more_{name}', 'datasets', ['more_{name}'])\n"
            )
        before = name
    migrate.FOLDER, migrate.LATEST, backup.LATEST = folder, before, before  # type: ignore[attr-defined]
