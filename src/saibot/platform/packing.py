"""Changes to the shards on disk: put sketches in, take sketches out, and merge small shards.

Runs inside the platform's process while the corpus is small, and in a process of its own when it is large (`shards`
decides): reading the names of a hundred thousand sketches would keep everybody else waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from saibot.domains import DomainRegistry, KnownDomains
from saibot.errors import InvalidDomain, InvalidSketch
from saibot.safe_arrow import mapped
from saibot.search.corpus import Corpus, PreparedValues
from saibot.search.index import CorpusIndex
from saibot.sketch import SUFFIX, KeyDomain, Sketch, read_sketch

MERGED_AT = 8  # shards of about one size
READ_TOGETHER = 16 << 20  # bytes of sketches that are in memory at a time
LARGEST = 64 << 20  # bytes of a shard that is still merged with others: a withdrawal rewrites at most this


class Packing:
    """The one writer of a corpus. Its files are in `folder/sketches` before they are packed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = Corpus(folder)
        self._domains = DomainRegistry(folder / "domains")

    def apply(
        self,
        *,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
        install: Sequence[PreparedValues] = (),
        providers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """How many sketches there are now, and which of the new ones could not be packed, with reasons.

        `providers` by digest are the accounts that the new ones are of.
        """
        if CorpusIndex(self.folder).stamp() != self.corpus.stamp:  # another process had its turn meanwhile
            self.corpus = Corpus(self.folder)
        refused: list[tuple[str, str]] = []
        for some in self._together(add):
            sketches = list(self._readable(some, refused))
            refused += [
                (one.digest, one.reason) for one in self.corpus.add(sketches, self._levels(sketches), providers or {})
            ]
        for digest in remove:
            self.corpus.remove(digest)
            (self.folder / "sketches" / f"{digest}{SUFFIX}").unlink(missing_ok=True)
        for prepared in install:
            self.corpus.install(prepared)
        if add:
            self._merge()
        return {"size": len(self.corpus), "refused": refused}

    def _together(self, digests: Sequence[str]) -> Iterable[list[str]]:
        """Few enough at a time that their files are at most READ_TOGETHER bytes: a large one comes by itself."""
        some: list[str] = []
        size = 0
        for digest in digests:
            with suppress(FileNotFoundError):  # withdrawn meanwhile
                bytes = (self.folder / "sketches" / f"{digest}{SUFFIX}").stat().st_size
                if some and size + bytes > READ_TOGETHER:
                    yield some
                    some, size = [], 0
                some.append(digest)
                size += bytes
        if some:
            yield some

    def _readable(self, digests: Sequence[str], refused: list[tuple[str, str]]) -> Iterable[Sketch]:
        for digest in digests:
            path = self.folder / "sketches" / f"{digest}{SUFFIX}"
            try:
                yield read_sketch(mapped(str(path)))  # in two steps, so that a missing file is told from a damaged one
            except FileNotFoundError:
                continue  # withdrawn meanwhile
            except InvalidSketch as problem:
                path.unlink(missing_ok=True)
                refused.append((digest, problem.message))

    def _levels(self, sketches: list[Sketch]) -> dict[str, KeyDomain]:
        """The domains of sketches with coarser key levels, where they are known."""
        known = KnownDomains.of(registry=self._domains)
        found = {}
        for sketch in sketches:
            key = sketch.header.key
            if key is not None and key.levels:
                domain = known.find(key.parts[0])
                with suppress(InvalidDomain):
                    if domain is not None and domain.with_levels(key.levels):
                        found[key.parts[0].digest] = domain
        return found

    def _merge(self) -> None:
        """Few large shards instead of many small ones; each value is rewritten once for every eightfold growth."""
        for id, names in list(self.corpus.files.items()):
            tiers: dict[int, list[str]] = {}
            for name in names:
                size = (self.folder / "shards" / name).stat().st_size
                if size < LARGEST:
                    tiers.setdefault(size.bit_length() // 3, []).append(name)
            for alike in tiers.values():
                if len(alike) >= MERGED_AT:
                    self.corpus.merge(id, alike)
