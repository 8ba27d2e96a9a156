"""Which sketches a corpus has, and of which datasets: in several files that are never changed once written.

Adding writes a small file; removing writes the one file anew that held the name. Where there are many, small ones are put
together. So a corpus of a hundred thousand sketches takes one more as quickly as a small one does.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from saibot.errors import InvalidInput

MOST_FILES = 16


class Names:
    """Digests of sketches and the names of their datasets; `files` is what the corpus's index says of them."""

    def __init__(self, folder: Path, files: Mapping[str, int], unwritten: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self.files = dict(files)  # how many names each has
        self._unwritten = dict(unwritten or {})  # of a corpus that was written when names had no files

    @cached_property
    def _contents(self) -> dict[str, dict[str, str]]:
        return {file: self._read(file) for file in self.files}

    @cached_property
    def known(self) -> dict[str, str]:
        """All of them."""
        return {d: name for names in (self._unwritten, *self._contents.values()) for d, name in names.items()}

    def __len__(self) -> int:
        return len(self._unwritten) + sum(self.files.values())

    def changed(self, add: Mapping[str, str], remove: frozenset[str] = frozenset()) -> tuple[Names, list[str]]:
        """The names after a change, written down, and the files that are needed no longer once the index says so."""
        fresh = self._unwritten | dict(add)
        stale = [file for file, names in self._contents.items() if not remove.isdisjoint(names)] if remove else []
        if len(self.files) >= MOST_FILES:
            small = max(len(self) // 4, 1000)
            stale += [file for file, count in self.files.items() if count <= small and file not in stale]
        for file in stale:
            fresh |= self._contents[file]
        fresh = {digest: name for digest, name in fresh.items() if digest not in remove}
        after = Names(self._folder, {file: count for file, count in self.files.items() if file not in stale})
        if "_contents" in self.__dict__:
            after.__dict__["_contents"] = {file: self._contents[file] for file in after.files}
        if fresh:
            file = f"{secrets.token_hex(8)}.json"
            self._folder.mkdir(exist_ok=True)
            write_json(self._folder / file, fresh)
            after.files[file] = len(fresh)
            if "_contents" in after.__dict__:
                after._contents[file] = fresh
        if "known" in self.__dict__:
            for digest in remove:
                self.known.pop(digest, None)
            self.known.update(add)
            after.__dict__["known"] = self.known
        return after, stale

    def delete(self, files: list[str]) -> None:
        for file in files:
            (self._folder / file).unlink(missing_ok=True)

    def _read(self, file: str) -> dict[str, str]:
        try:
            names: dict[str, str] = json.loads((self._folder / file).read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise InvalidInput(f"the corpus {self._folder.parent} has a damaged list of names.") from None
        return names


def write_json(path: Path, document: Any) -> None:
    """All or nothing: written beside its place, then moved there."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.write_text(json.dumps(document), encoding="utf-8")
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
