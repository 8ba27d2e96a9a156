"""The packed corpus as pages read it: opened once, and again when it has changed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from saibot.errors import InvalidInput
from saibot.search.corpus import Corpus
from saibot.search.index import CorpusIndex

Stamp = tuple[str, int] | None


class OpenedCorpus:
    """Reads only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.at = lru_cache(1)(self._opened)

    def stamp(self) -> Stamp:
        """Another one after every change of the shards."""
        try:
            return CorpusIndex(self._folder).stamp()
        except InvalidInput:
            return None

    def now(self) -> Corpus | None:
        return self.at(self.stamp())

    def _opened(self, stamp: Stamp) -> Corpus | None:
        try:
            return Corpus(self._folder)
        except InvalidInput:
            return None
