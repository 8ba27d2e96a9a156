"""Files that are written all at once: whole under their name, or not there, also through a crash or a power cut."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".writing-"  # how the name of a file begins that is being written, or whose writer was killed


def write_safely(path: Path, content: bytes | memoryview, *, public: bool = False) -> None:
    """The content under its name; readable by its owner only, from the first byte on, unless it is public."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path, public=public) as temporary:
        temporary.write_bytes(content)


def create_safely(path: Path, content: bytes | memoryview, *, public: bool = True) -> None:
    """A file under a name that is free; a name that is taken stays as it is, whoever was faster."""
    handle, name = _unfinished(path.parent, public=public)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)
        except FileExistsError:
            return
    finally:
        os.unlink(name)
    sync_folder(path.parent)


@contextmanager
def writing(path: Path, *, public: bool = False) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place at the end; where that is not reached, nothing has changed."""
    handle, temporary = _unfinished(path.parent, public=public)
    os.close(handle)
    try:
        yield temporary
        move_safely(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # on a full disk half a file would keep it full
        raise


def _unfinished(folder: Path, *, public: bool) -> tuple[int, Path]:
    """A new file, open, with its mode from the start: workers of a platform may not change it afterwards."""
    while True:
        path = folder / f"{UNFINISHED}{secrets.token_hex(6)}"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644 if public else 0o600), path
        except FileExistsError:
            continue


def move_safely(temporary: Path, path: Path) -> None:
    """A file that is whole takes a place on the same disk, for good when this returns."""
    handle = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """The names in a folder are on disk when this returns."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
