"""Sketches that were downloaded once, by digest. A download that was cut off goes on where it stopped.

Nothing that a platform sends is believed: a file enters the cache when it is a sound sketch whose content gives the digest
that was asked for, and under that name only.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from saibot.client.errors import NotFound, PlatformError, PlatformUnreachable
from saibot.client.transport import ATTEMPTS, Wire
from saibot.errors import InvalidInput, InvalidSketch
from saibot.safe_file import move_safely
from saibot.sketch import SUFFIX, read_sketch
from saibot.sketch.file import MAX_FILE_BYTES

LARGE_FILE = 32 << 20  # bytes
_ONE_LARGE = threading.Lock()  # sketches are fetched several at once; large ones are looked at one after the other
_DIGEST = re.compile(r"[0-9a-f]{64}")


def cache_folder() -> Path:
    """`$SAIBOT_CACHE`, or `cache` in `$SAIBOT_HOME`, or the user's cache folder."""
    from platformdirs import user_cache_path

    if chosen := os.environ.get("SAIBOT_CACHE"):
        return Path(chosen)
    if home := os.environ.get("SAIBOT_HOME"):
        return Path(home) / "cache"
    return user_cache_path("saibot")


class SketchCache:
    """`SketchCache(folder).fetch(wire, digest)` gives the path of a sketch, downloading it only where need be."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()

    def path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):  # it becomes a file name, and a platform may have written it
            raise InvalidInput("this is no digest of a sketch: 64 hexadecimal digits.")
        return self.folder / "sketches" / f"{digest}{SUFFIX}"

    def has(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def fetch(self, wire: Wire, digest: str, *, expected: int | None = None) -> Path:
        """The sketch's file; `expected` is how many bytes the platform said it has."""
        path = self.path(digest)
        if path.is_file():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        most = MAX_FILE_BYTES if expected is None else min(expected, MAX_FILE_BYTES)
        with _unfinished(path) as partial:
            for fresh in (False, True):  # a partial file of ours may be of no use; a whole new one is the last word
                if fresh:
                    partial.unlink(missing_ok=True)
                _download(wire, digest, partial, most)
                if _is_sketch(partial, digest):
                    move_safely(partial, path)
                    return path
            partial.unlink(missing_ok=True)
        raise PlatformError(
            f"the platform sent something else than the sketch {digest[:12]} that it lists.",
            hint="Nothing of it was kept. Tell whoever runs the platform.",
        )


def _download(wire: Wire, digest: str, partial: Path, most: int) -> None:
    """All bytes of a sketch, beginning with those that are there; an attempt that brought some does not count."""
    attempt = 0
    while True:
        start = partial.stat().st_size if partial.exists() else 0
        try:
            headers = {"Range": f"bytes={start}-", "If-Range": f'"{digest}"'} if start else {}
            with wire.stream(f"/v1/sketches/{digest}", headers=headers) as response:
                goes_on = response.status_code == 206
                with partial.open("ab" if goes_on else "wb") as file:
                    written = start if goes_on else 0
                    for chunk in response.iter_bytes():
                        written += len(chunk)
                        if written > most:
                            file.close()
                            partial.unlink(missing_ok=True)
                            raise PlatformError("the platform sent more than the sketch's size.")
                        file.write(chunk)
            return
        except NotFound:
            raise
        except PlatformUnreachable:
            brought = partial.exists() and partial.stat().st_size > start
            attempt = 1 if brought else attempt + 1
            if attempt >= ATTEMPTS:
                raise
        except PlatformError as problem:
            if problem.status == 416:  # what is there is longer than the sketch: not a part of it
                partial.unlink(missing_ok=True)
            elif problem.status not in (429, 502, 503, 504):
                raise
            attempt += 1
            if attempt >= ATTEMPTS:
                raise
        wire.pause(attempt)


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """The file that a download is collected in. Two processes do not write into one: the second takes another name."""
    own = path.with_name(f".{path.name}.part")
    lock = path.with_name(f".{path.name[:2]}.lock")  # few, and never removed: a lock on a removed file locks nobody out
    handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if _locked(handle):
            yield own
        else:
            alone = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
            try:
                yield alone
            finally:
                alone.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # a system without: downloads there are not continued by other processes
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_sketch(path: Path, digest: str) -> bool:
    try:
        with _ONE_LARGE if path.stat().st_size > LARGE_FILE else nullcontext():
            return read_sketch(path).digest == digest
    except InvalidSketch:
        return False
