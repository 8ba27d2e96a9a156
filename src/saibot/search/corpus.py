"""A corpus: a directory of sketches, and their values packed per key domain for the sweep.

    corpus/
      corpus.sqlite          which shard files belong to which key domain, and which sketches there are
      keys/*.keys.arrow      the public lists of keys that the sketches have
      shards/*.arrow         values, memory-mapped
      factors/*.arrow        what the sketches of a key domain have in common, by version
      sketches/*.saibot      the sketches themselves, by digest

Values are those that each sketch gives with the help of its domain's factors. Requests of a provider whose sketches taught
these are answered from other values, which only the factors of all other groups of providers helped: in the index their
files stand under `key domain@group`.

The index names everything that counts, and is changed when what it names is safe on disk.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from saibot.errors import InvalidInput, InvalidSketch
from saibot.safe_file import write_safely
from saibot.search.index import NOBODY, CorpusIndex, Learned, SketchEntry
from saibot.search.key_maps import key_id
from saibot.search.packed_rows import pack_for_all, plain_rows
from saibot.search.searched_corpus import SearchedCorpus, variant
from saibot.search.shard import PROVIDER, ShardRows, concatenate, write_shard
from saibot.search.shared_factors import SharedFactors
from saibot.sketch import KeyDomain, Sketch, implausible, payload_of, signer_of, write_sketch

PACKED_TOGETHER = 512  # sketches in memory at a time


@dataclass(frozen=True)
class PreparedValues:
    """The values of a key domain with the help of factors, written and not in use yet."""

    key: str
    version: str
    files: tuple[tuple[str, str], ...]  # of shards, as the index will name them
    digests: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """A sketch that cannot join the corpus, and why."""

    digest: str
    dataset: str
    reason: str


class Corpus(SearchedCorpus):
    """Sketches ready to be searched. Opening one maps files; nothing is read until it is needed. One process at a time puts
    sketches in and takes them out, while others search.
    """

    @classmethod
    def create(cls, folder: Path) -> Self:
        """A new, empty corpus."""
        if CorpusIndex.is_in(folder):
            raise InvalidInput(f"{folder} is a corpus already.")
        (folder / "shards").mkdir(parents=True, exist_ok=True)
        (folder / "sketches").mkdir(exist_ok=True)
        CorpusIndex.create(folder)
        return cls(folder)

    @classmethod
    def open_or_create(cls, folder: Path) -> Self:
        return cls(folder) if CorpusIndex.is_in(folder) else cls.create(folder)

    def add(
        self,
        sketches: Iterable[Sketch],
        domains: Mapping[str, KeyDomain] | None = None,
        providers: Mapping[str, str] | None = None,
    ) -> list[Refused]:
        """Pack sketches; `domains` by digest give the parents of key levels. What cannot be packed is told, not raised.

        `providers` by digest are the accounts of a platform; without them whoever signed a sketch is its provider.
        """
        self._domains |= domains or {}
        groups: dict[str, list[tuple[Sketch, ShardRows]]] = defaultdict(list)
        new: dict[str, SketchEntry] = {}
        refused = []
        for sketch in sketches:
            header = sketch.header
            if sketch.digest in self._names or sketch.digest in new:
                continue
            try:
                if header.key is not None:
                    groups[key_id(header.key)].append((sketch, self._plain(sketch)))
                    self._keys.add(sketch)
            except (InvalidInput, InvalidSketch) as problem:
                refused.append(Refused(sketch.digest, header.dataset.name, problem.message))
                continue
            self._keep(sketch)
            new[sketch.digest] = _entry(sketch, providers)
        if new:
            numbers = self._index.numbered({entry.provider for entry in new.values()})
            self.__dict__.pop("provider_numbers", None)
            whose = {digest: numbers[entry.provider] for digest, entry in new.items()}
            rows = [row for id, members in groups.items() for row in self._packed(id, members, self.factors(id), whose)]
            self._change(rows, sketches=new)
        return refused

    def add_rows(self, id: str, rows: ShardRows, providers: Mapping[str, str] | None = None) -> None:
        """Values that are lookup values already, for benchmarks and experiments; `providers` by digest, or nobody's."""
        digests, whose = rows.text["digest"].tolist(), providers or {}
        named = dict(zip(digests, rows.text["dataset"].tolist(), strict=True))
        new = {d: SketchEntry(name, whose.get(d, NOBODY)) for d, name in named.items() if d not in self._names}
        if whose:
            numbers = self._index.numbered(set(whose.values()))
            self.__dict__.pop("provider_numbers", None)
            of_rows = np.array([[numbers[whose.get(digest, NOBODY)]] for digest in digests], np.float32)
            rows = replace(rows, extra=rows.extra | {PROVIDER: of_rows})
        self._change([(id, rows)], sketches=new)

    def remove(self, digest: str) -> bool:
        """Withdraw a sketch: its file and its rows in every shard are gone when this returns."""
        if digest not in self._names:
            return False
        kept, stale = [], []
        for id, files in self.files.items():
            for name in files:
                rows = self.shard(name)
                keep = rows.text["digest"] != digest
                if not keep.all():
                    stale.append(name)
                    kept += [(id, rows.take(keep))] if keep.any() else []
        self._change(kept, without_shards=stale, without_names={digest}, learned=self._without_teacher(digest))
        self._sketch_path(digest).unlink(missing_ok=True)
        self._keys.sweep({part for id in self.key_ids for part in id.split("+")})
        return True

    def merge(self, id: str, names: list[str]) -> None:
        """One shard in the place of several of a key domain: a corpus that grows sketch by sketch stays quick to open."""
        parts = [self.shard(name) for name in names]
        if len({part.factors for part in parts}) == 1:  # else bare values of an experiment stand beside improved ones
            self._change([(id, concatenate(parts))], without_shards=names)

    # ---------------------------------------------------------------------------------------------- shared factors

    def adopt(self, shared: SharedFactors) -> None:
        """From now on the values of a key domain are those that these factors help."""
        self.install(self.prepare(shared))

    def prepare(self, shared: SharedFactors) -> PreparedValues:
        """Write the values that these factors give beside those in use; others may change the corpus meanwhile."""
        id, files, packed = shared.key, list[tuple[str, str]](), list[str]()
        digests = [one for one in self.digests_with(id) if self._sketch_path(one).is_file()]
        write_safely(self._factor_path(shared.version), shared.content, public=True)
        self._factors[shared.version] = shared
        for shard in self._of_everybody(id):
            bare = ~np.isin(shard.text["digest"], digests)  # values of an experiment, without a sketch
            files += [self._write(variant(id, group), shard.take(bare)) for group in shared.groups if bare.any()]
        for start in range(0, len(digests), PACKED_TOGETHER):
            sketches = [one for digest in digests[start : start + PACKED_TOGETHER] if (one := self._stored(digest))]
            packed += [sketch.digest for sketch in sketches]
            rows = self._packed(id, [(sketch, self._plain(sketch)) for sketch in sketches], shared)
            files += [self._write(key, part) for key, part in rows]
        return PreparedValues(id, shared.version, tuple(files), tuple(packed))

    def install(self, prepared: PreparedValues) -> None:
        """Put prepared values in the place of those in use, in one step; what changed since is made up for."""
        id, before, shared = prepared.key, self.learned(prepared.key), self.factors_named(prepared.version)
        now, then = set(self.digests_with(id)), set(prepared.digests)
        late = [sketch for digest in sorted(now - then) if (sketch := self._stored(digest)) is not None]
        rows = self._packed(id, [(sketch, self._plain(sketch)) for sketch in late], shared) if late else []
        files = []
        for key, name in prepared.files:
            part = self.shard(name)
            keep = np.isin(part.text["digest"], sorted(then - now), invert=True)
            files += [(key, name)] if keep.all() else []
            rows += [(key, part.take(keep))] if keep.any() and not keep.all() else []
        self._change(
            rows,
            files=files,
            without_shards=[name for key, names in self.files.items() if key.split("@")[0] == id for name in names],
            learned={id: Learned(shared.version, len(now), bool(set(shared.taught) - now))},
        )
        self._delete_shards(name for _, name in prepared.files if (_, name) not in files)
        if before is not None and before.withdrawn:
            self._factor_path(before.version).unlink(missing_ok=True)

    # ---------------------------------------------------------------------------------------------- inside

    def _whose(self, digests: Iterable[str]) -> dict[str, int]:
        numbers = self._index.providers()  # anew: others may have packed meanwhile
        return {digest: numbers.get(entry.provider, 0) for digest, entry in self.entries(digests).items()}

    def _plain(self, sketch: Sketch) -> ShardRows:
        return plain_rows(sketch, self.domain_of(sketch))

    def _packed(
        self,
        id: str,
        members: Sequence[tuple[Sketch, ShardRows]],
        shared: SharedFactors | None,
        whose: Mapping[str, int] | None = None,
    ) -> list[tuple[str, ShardRows]]:
        """Rows for everybody and for each group of providers, each with its place in the index.

        `whose` are the numbers of their providers by digest; of sketches that are there already the index knows them.
        """
        sketches = [sketch for sketch, _ in members]
        whose = self._whose(sketch.digest for sketch in sketches) if whose is None else whose
        plain = [rows.of_provider(whose.get(sketch.digest, 0)) for sketch, rows in members]
        rows = pack_for_all(sketches, plain, self.domain_of, shared)
        groups = (None,) if shared is None else shared.groups
        return [(variant(id, group), part) for group, part in zip(groups, rows, strict=True)]

    def _without_teacher(self, digest: str) -> dict[str, Learned]:
        """What was withdrawn teaches nobody: factors that it taught are kept no longer than their values are in use."""
        taught = {id: one for id, one in self._contents.learned.items() if digest in self.factors_named(one.version).taught}
        current = {one.version for one in self._contents.learned.values()}
        for path in (self.folder / "factors").glob("*.arrow"):
            if path.stem not in current and digest in self.factors_named(path.stem).taught:
                path.unlink(missing_ok=True)
                self._factors.pop(path.stem, None)
        return {id: replace(one, withdrawn=True) for id, one in taught.items()}

    def _stored(self, digest: str) -> Sketch | None:
        with suppress(InvalidSketch, OSError):  # bare values of an experiment, or it is being withdrawn
            return self.sketch(digest)
        return None

    def _keep(self, sketch: Sketch) -> None:
        """The sketch's file is whole and on disk when this returns, whatever a crash may have left under its name."""
        path, content = self._sketch_path(sketch.digest), write_sketch(sketch)
        if not path.is_file() or path.read_bytes() != content:
            write_safely(path, content, public=True)

    def _change(
        self,
        shards: Iterable[tuple[str, ShardRows]],
        *,
        sketches: Mapping[str, SketchEntry] | None = None,
        without_shards: Collection[str] = (),
        without_names: Collection[str] = (),
        files: Collection[tuple[str, str]] = (),
        learned: Mapping[str, Learned] | None = None,
    ) -> None:
        """Files first, then the index, then files that are needed no longer: a crash leaves at most files without a name."""
        written: list[tuple[str, str]] = []
        try:
            for id, rows in shards:
                written.append(self._write(id, rows))
            self._contents = self._index.change(
                shards=[*files, *written],
                without_shards=without_shards,
                sketches=sketches,
                without_names=without_names,
                learned=learned,
            )
        except BaseException:
            self._delete_shards(name for _, name in written)
            raise
        for digest in without_names:
            self._names.pop(digest, None)
        self._names.update({digest: entry.dataset for digest, entry in (sketches or {}).items()})
        self.__dict__.pop("headers", None)
        self._delete_shards(without_shards)

    def _write(self, id: str, rows: ShardRows) -> tuple[str, str]:
        name = f"{secrets.token_hex(8)}.arrow"
        write_shard(self.shard_path(name), rows)
        return id, name

    def _delete_shards(self, names: Iterable[str]) -> None:
        for name in names:
            self._shards.pop(name, None)
            self.shard_path(name).unlink(missing_ok=True)


def _entry(sketch: Sketch, providers: Mapping[str, str] | None) -> SketchEntry:
    key = signer_of(sketch.header)
    signer = None if key is None else key.fingerprint
    whose = (signer or NOBODY) if providers is None else providers.get(sketch.digest, NOBODY)
    return SketchEntry(sketch.header.dataset.name, whose, signer, payload_of(sketch), implausible(sketch))
