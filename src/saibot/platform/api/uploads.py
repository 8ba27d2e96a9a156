"""Files that somebody sends: small ones in memory, large ones on disk while they are worked on, one after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from saibot.platform.accounts import Caller
from saibot.platform.api.asking import receive
from saibot.platform.api.shares import Shares
from saibot.platform.reading import LARGE
from saibot.platform.service import Platform

TOGETHER = 128 << 10  # bytes that are written at a time


@asynccontextmanager
async def upload_of(
    request: Request, caller: Caller, here: Platform, limit: int, *, begins: bytes = b""
) -> AsyncIterator[bytes | Path]:
    """The body, while it is worked on.

    What does not begin as it should is refused by its first bytes: a table sent by mistake must not touch the disk.
    """
    with ExitStack() as held:
        upload = Upload(here.incoming, begins, held)
        await receive(request, limit, upload.take, upload.clear)
        content = await upload.content()
        if isinstance(content, bytes):
            yield content
            return
        async with large_turn(request, caller):
            yield content


@asynccontextmanager
async def large_turn(request: Request, caller: Caller) -> AsyncIterator[None]:
    """A turn at work that takes much room: one of each account at a time, and one of all. Whoever waits holds no thread."""
    shares: Shares = request.app.state.large
    async with shares.of(f"account {caller.name}"), shares.of("everybody"):
        yield


class Upload:
    """Bytes as they come: in memory as long as they are few, then in a file that goes with `held`."""

    def __init__(self, folder: Path, begins: bytes, held: ExitStack) -> None:
        self._folder, self._begins, self._held = folder, begins, held
        self._waiting = bytearray()
        self._file: BinaryIO | None = None

    async def take(self, part: bytes) -> None:
        self._waiting += part
        if self._file is None and len(self._waiting) > LARGE:
            if not self._waiting.startswith(self._begins):
                del self._waiting[LARGE:]  # it is refused anyhow, by what it begins with
                return
            self._path, self._file = new_file(self._folder, self._held)
        if self._file is not None and len(self._waiting) > TOGETHER:
            await self._write()

    def clear(self) -> None:
        """It is too large: nothing of it is kept."""
        self._waiting.clear()
        if self._file is not None:
            self._file.truncate(0)

    async def content(self) -> bytes | Path:
        if self._file is None:
            return bytes(self._waiting)
        await self._write()
        await run_in_threadpool(self._file.flush)
        return self._path

    async def _write(self) -> None:
        assert self._file is not None
        part, self._waiting = self._waiting, bytearray()
        await run_in_threadpool(self._file.write, part)  # a disk may be slow, and nobody else waits for it


def new_file(folder: Path, held: ExitStack) -> tuple[Path, BinaryIO]:
    """A file that nobody else can read, until `held` ends."""
    handle, name = tempfile.mkstemp(dir=folder, prefix="upload-")
    held.callback(Path(name).unlink, missing_ok=True)
    return Path(name), held.enter_context(os.fdopen(handle, "wb"))


def copied(source: BinaryIO, folder: Path, held: ExitStack) -> Path:
    """A file with the rest of one that has no name."""
    path, file = new_file(folder, held)
    shutil.copyfileobj(source, file, TOGETHER)
    file.flush()
    return path
