"""The files of searches: the request's sketches until a search ends, then its result.

One server keeps them in a folder. Several keep them in the file store that they share; whoever runs a search fetches its
request into a folder, and stores the result.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from saibot.platform.storage.files import FileStore
from saibot.safe_file import sync_folder, write_safely
from saibot.wire.search import OVER

Content = bytes | memoryview
RESULT = "result.json"
REQUEST = ("train.saibot", "test.saibot")
SET_ASIDE = ".set-aside-"  # before the name of a folder that the database does not know
_STORED = "searches/"  # before the names of the files, in the file store


class SearchFiles:
    """By the id of the search. `store` is None where the folder is all there is."""

    def __init__(self, folder: Path, store: FileStore | None) -> None:
        self.folder, self._store = folder, store
        folder.mkdir(parents=True, exist_ok=True)

    def put_request(self, id: str, train: Content, test: Content | None) -> None:
        """Whole and durable when it returns, or not there."""
        parts = {name: content for name, content in zip(REQUEST, (train, test), strict=True) if content is not None}
        try:
            if self._store is not None:
                for name, content in parts.items():
                    self._store.put(f"{_STORED}{id}/{name}", content)
                return
            (self.folder / id).mkdir(mode=0o700)
            for name, content in parts.items():
                write_safely(self.folder / id / name, content)
            sync_folder(self.folder)
        except BaseException:
            self.remove(id)  # a full disk stays no fuller than it was
            raise

    def fetch(self, id: str) -> Path:
        """A folder with the request."""
        path = self.folder / id
        if self._store is not None:
            path.mkdir(mode=0o700, exist_ok=True)
            for name in REQUEST:
                try:
                    with self._store.open(f"{_STORED}{id}/{name}") as file:
                        write_safely(path / name, file.read())
                except FileNotFoundError:
                    if name == REQUEST[0]:
                        raise
        return path

    def has_result(self, id: str) -> bool:
        """Whether a worker wrote one into the folder."""
        return (self.folder / id / RESULT).is_file()

    def keep_result(self, id: str, attempt: int) -> None:
        """The result that a worker wrote into the folder is what every server gives out, if this attempt counts."""
        if self._store is not None:
            self._store.put(_stored_result(id, attempt), (self.folder / id / RESULT).read_bytes())

    def drop_result(self, id: str, attempt: int) -> None:
        """Of an attempt that does not count."""
        if self._store is not None:
            self._store.delete(_stored_result(id, attempt))

    def result(self, id: str, attempt: int) -> bytes:
        """Of the attempt that ended the search. Raises FileNotFoundError."""
        if self._store is None:
            return (self.folder / id / RESULT).read_bytes()
        try:
            with self._store.open(_stored_result(id, attempt)) as file:
                return file.read()
        except FileNotFoundError:  # handed over by the only server
            with self._store.open(f"{_STORED}{id}/{RESULT}") as file:
                return file.read()

    def forget_request(self, id: str) -> None:
        """The request's sketches are not needed once a search is over."""
        for name in REQUEST:
            (self.folder / id / name).unlink(missing_ok=True)
            if self._store is not None:
                self._store.delete(f"{_STORED}{id}/{name}")
        self.leave(id)

    def leave(self, id: str) -> None:
        """What was fetched to run a search here goes."""
        if self._store is not None:
            shutil.rmtree(self.folder / id, ignore_errors=True)

    def remove(self, id: str) -> None:
        shutil.rmtree(self.folder / id, ignore_errors=True)
        if self._store is not None:
            for name in self._store.names(f"{_STORED}{id}/"):
                self._store.delete(name)

    def hand_over(self, statuses: Mapping[str, str]) -> None:
        """What lies here since this was the only server goes into the store; what was fetched by an earlier start goes."""
        for path in (path for path in self.folder.iterdir() if not path.name.startswith(SET_ASIDE)):
            status = statuses.get(path.name)
            for name in (RESULT,) if status in OVER else REQUEST if status is not None else ():
                if self._store is not None and (path / name).exists():
                    self._store.put(f"{_STORED}{path.name}/{name}", (path / name).read_bytes())
            shutil.rmtree(path)

    def set_aside_unknown(self, known: Collection[str]) -> None:
        """Folders that the database does not know, which may be an older one, are kept for a while under another name."""
        for path in self.folder.iterdir():
            if path.name not in known and not path.name.startswith(SET_ASIDE):
                aside = path.with_name(SET_ASIDE + path.name)
                path.rename(aside)
                aside.touch()

    def sweep_set_aside(self, days: float) -> None:
        for path in self.folder.glob(f"{SET_ASIDE}*"):
            if path.stat().st_mtime < time.time() - days * 86400:
                shutil.rmtree(path, ignore_errors=True)


def _stored_result(id: str, attempt: int) -> str:
    return f"{_STORED}{id}/{attempt}-{RESULT}"
