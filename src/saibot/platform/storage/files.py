"""Files by name, in a folder or in an S3-compatible store. A file appears whole or not at all. It is never changed, but that
a sketch may be signed anew: its digest, and so its name, do not cover the signature.

Names are made of digests. Whatever is called otherwise is not the platform's, and is never touched.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from saibot.errors import InvalidInput
from saibot.safe_file import UNFINISHED, move_safely, sync_folder, write_safely
from saibot.sketch import SUFFIX

SKETCH_FILE = re.compile(rf"([0-9a-f]{{2}})/(\1[0-9a-f]{{62}}){re.escape(SUFFIX)}")
DOMAIN_FILE = re.compile(r"domains/([0-9a-f]{64})\.arrow")
SET_ASIDE = "set-aside/"  # before the name of a file that no row of the database names
LONG_SECONDS = 3600.0  # nobody writes one file for as long
CUT_OFF = re.compile(rf"([0-9a-f]{{2}}|domains)/{re.escape(UNFINISHED)}.+")


class FileStore(Protocol):
    """What the platform needs of a store. Names are relative paths that the platform makes itself, of digests."""

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Durable when it returns. The same name always has the same content, so an existing file is left alone."""

    def replace(self, name: str, content: bytes | memoryview) -> None:
        """The same, over a file that is there."""

    def open(self, name: str) -> BinaryIO:
        """Raises FileNotFoundError."""

    def delete(self, name: str) -> None:
        """Gone when it returns; no error if it was not there."""

    def move(self, name: str, to: str) -> None:
        """Under another name when it returns; at no time under neither."""

    def names(self, folder: str = "") -> Iterator[str]:
        """All files, or those below a folder, whose name ends with a slash."""

    def place(self, name: str) -> Path | None:
        """Where the file lies on this machine, if it does."""


def open_files(address: str, *, shared: bool = False) -> FileStore:
    """`s3://bucket/prefix`, with `?endpoint_override=...` for other makers' stores, or the path of a folder.

    `shared` with other servers, whose files may be half written at this moment.
    """
    if address.startswith("s3://"):
        return ObjectStore(address)
    if "://" in address:
        raise InvalidInput(f"{address.split('://')[0]}:// stores are not supported.", hint="Give a folder or s3://bucket.")
    return FolderStore(Path(address), shared=shared)


class FolderStore:
    """Files under one folder."""

    def __init__(self, root: Path, *, shared: bool = False) -> None:
        self.root, self._shared = root, shared
        root.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, content: bytes | memoryview) -> None:
        path = self.root / name
        if path.exists():
            return
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(path.parent.parent)
        write_safely(path, content)

    def replace(self, name: str, content: bytes | memoryview) -> None:
        write_safely(self.root / name, content)

    def open(self, name: str) -> BinaryIO:
        return (self.root / name).open("rb")

    def delete(self, name: str) -> None:
        path = self.root / name
        with suppress(FileNotFoundError):
            path.unlink()
            sync_folder(path.parent)

    def move(self, name: str, to: str) -> None:
        path, target = self.root / name, self.root / to
        target.parent.mkdir(parents=True, exist_ok=True)
        move_safely(path, target)
        sync_folder(path.parent)

    def names(self, folder: str = "") -> Iterator[str]:
        for place, _, files in os.walk(self.root / folder):
            for file in files:
                path = Path(place) / file
                name = path.relative_to(self.root).as_posix()
                if not CUT_OFF.fullmatch(name):
                    yield name
                elif not self._shared or path.stat().st_mtime < time.time() - LONG_SECONDS:
                    path.unlink(missing_ok=True)  # its writer was killed

    def place(self, name: str) -> Path | None:
        return self.root / name


class ObjectStore:
    """Files in a bucket; an object appears when its upload is completed."""

    def __init__(self, address: str) -> None:
        from pyarrow import fs

        self._files, path = fs.FileSystem.from_uri(address)
        self._prefix = path.rstrip("/")
        self._kinds = fs.FileType
        self._selector = fs.FileSelector

    def put(self, name: str, content: bytes | memoryview) -> None:
        path = self._path(name)
        if self._files.get_file_info(path).type != self._kinds.File:
            self.replace(name, content)

    def replace(self, name: str, content: bytes | memoryview) -> None:
        with self._files.open_output_stream(self._path(name)) as sink:
            sink.write(content)

    def open(self, name: str) -> BinaryIO:
        stream: Any = self._files.open_input_file(self._path(name))
        return stream  # type: ignore[no-any-return]

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            if self._files.get_file_info(self._path(name)).type == self._kinds.File:
                self._files.delete_file(self._path(name))

    def move(self, name: str, to: str) -> None:
        self._files.copy_file(self._path(name), self._path(to))
        self._files.delete_file(self._path(name))

    def names(self, folder: str = "") -> Iterator[str]:
        where = self._path(folder).rstrip("/")
        for info in self._files.get_file_info(self._selector(where, recursive=True, allow_not_found=True)):
            if info.type == self._kinds.File:
                yield str(info.path).removeprefix(f"{self._prefix}/")

    def place(self, name: str) -> Path | None:
        return None

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"


def is_own(name: str) -> bool:
    """Whether this is what the platform calls its files."""
    return bool(SKETCH_FILE.fullmatch(name) or DOMAIN_FILE.fullmatch(name))
