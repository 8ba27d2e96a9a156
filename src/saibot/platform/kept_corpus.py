"""The folder that a platform keeps its corpus in: bringing sketches there, and leaving nothing in it that nobody names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from saibot.errors import InvalidInput
from saibot.platform.storage.file_names import sketch_file_name
from saibot.platform.storage.files import FileStore
from saibot.safe_file import write_safely
from saibot.search.corpus import Corpus
from saibot.search.index import FILE as INDEX
from saibot.sketch import SUFFIX

_REST = ("shards", "sketches", "keys", "factors", "shared.json", "index.json", "names")  # the last two of an earlier version


class KeptCorpus:
    """Whatever is wrong with it is thrown away: all of it can be made anew of the stored sketches."""

    def __init__(self, folder: Path, files: FileStore) -> None:
        self._folder, self._files = folder, files

    def opened(self) -> Corpus:
        """Raises InvalidInput or FileNotFoundError where something is missing, or an earlier version made it."""
        corpus = Corpus(self._folder)
        if not all(corpus.shard_path(name).is_file() for names in corpus.files.values() for name in names):
            raise InvalidInput("a shard is missing.")
        if not corpus.tells_providers:
            raise InvalidInput("an earlier version packed it, which did not say whose sketches are.")
        return corpus

    def sweep(self, corpus: Corpus) -> None:
        """Nothing lies there that its index does not name."""
        named = {name for names in corpus.files.values() for name in names}
        named |= {f"{digest}{SUFFIX}" for digest in corpus.digests}
        for part in ("shards", "sketches"):
            (self._folder / part).mkdir(exist_ok=True)
            with os.scandir(self._folder / part) as entries:
                strays = [entry.path for entry in entries if entry.name not in named]
            for stray in strays:
                os.unlink(stray)

    def start_over(self) -> Corpus:
        """An empty one in its place."""
        for path in (*self._folder.glob(f"{INDEX}*"), *(self._folder / name for name in _REST)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return Corpus.create(self._folder)

    def place(self, digest: str) -> None:
        """Put a stored sketch where the corpus keeps sketches: a link, or a copy of a remote one."""
        path = self._path(digest)
        if path.exists():
            return
        with suppress(FileNotFoundError, FileExistsError):  # withdrawn meanwhile
            place = self._files.place(sketch_file_name(digest))
            if place is not None:
                _link(place, path)
            else:
                with self._files.open(sketch_file_name(digest)) as file:
                    write_safely(path, file.read())

    def bytes_of(self, digests: Collection[str]) -> int:
        """How much these sketches take."""
        return _bytes(self._path(digest) for digest in digests)

    def bytes_of_shards(self) -> int:
        shards = self._folder / "shards"
        return _bytes(shards.iterdir() if shards.is_dir() else ())

    def _path(self, digest: str) -> Path:
        return self._folder / "sketches" / f"{digest}{SUFFIX}"


def _link(place: Path, path: Path) -> None:
    try:
        os.link(place, path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # another disk, or one without links
        write_safely(path, place.read_bytes())


def _bytes(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        with suppress(FileNotFoundError):  # withdrawn, or merged, meanwhile
            total += path.stat().st_size
    return total
