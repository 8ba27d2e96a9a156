"""The packed corpus as pages read it: opened once, and again when it has changed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from saibot.errors import InvalidInput
from saibot.platform.domains import SHOWN_KEYS
from saibot.search.corpus import Corpus
from saibot.search.index import CorpusIndex
from saibot.sketch import KeyDomain

Stamp = tuple[str, int] | None


class ShownCorpus(Corpus):
    """Without the keys of large lists, which would stay in memory: nobody knows them here."""

    def key_list(self, part: str) -> KeyDomain | None:
        known = self.key_signature(part)
        return None if known is not None and known[0].size > SHOWN_KEYS else super().key_list(part)


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
            corpus = ShownCorpus(self._folder)
            corpus.remember(2 * SHOWN_KEYS)
            return corpus
        except InvalidInput:
            return None
