"""A corpus: a directory of sketches, and their values packed per key domain for the sweep.

    corpus/
      corpus.sqlite          which shard files belong to which key domain, and which sketches there are
      keys/*.keys.arrow      the public lists of keys that the sketches have
      shards/*.arrow         values, memory-mapped
      sketches/*.saibot      the sketches themselves, by digest

The index names everything that counts, and is changed when what it names is safe on disk.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from saibot.domains import DomainCard
from saibot.errors import InvalidInput, InvalidSketch
from saibot.estimate.lookup import lookup_values
from saibot.safe_file import write_safely
from saibot.search.index import CorpusIndex
from saibot.search.key_lists import KeyListFiles
from saibot.search.key_maps import key_id
from saibot.search.shard import NUMBERS, TEXT, ShardRows, concatenate, open_shard, write_shard
from saibot.sketch import SUFFIX, Header, KeyDomain, Sketch, listed_domain, read_sketch, write_sketch


@dataclass(frozen=True)
class Refused:
    """A sketch that cannot join the corpus, and why."""

    digest: str
    dataset: str
    reason: str


class Corpus:
    """Sketches ready to be searched. Opening one maps files; nothing is read until it is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = CorpusIndex(folder)
        self._contents = self._index.contents()
        self._shards: dict[str, ShardRows] = {}
        self._keys = KeyListFiles(folder / "keys")

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

    def __len__(self) -> int:
        return self._contents.size

    @property
    def digests(self) -> tuple[str, ...]:
        return tuple(self._names)

    @property
    def key_ids(self) -> dict[str, list[str]]:
        """For every key domain the files of its shards."""
        return self._contents.shards

    @property
    def stamp(self) -> tuple[str, int]:
        """Another one after every change of the corpus, also by another process, since this was opened."""
        return self._contents.stamp

    def shards(self, id: str) -> list[ShardRows]:
        """The shards of one key domain, mapped."""
        return [self._open(name) for name in self.key_ids.get(id, [])]

    def key_list(self, part: str) -> KeyDomain | None:
        """The keys behind a part of a key id: from their file, else as a sketch lists them; None where nobody knows them."""
        return self._keys.read(part) or self._listed(part)

    def key_signature(self, part: str) -> tuple[DomainCard, np.ndarray] | None:
        """What they are called, how many there are, and their signature; None for a corpus that was packed without."""
        return self._keys.signature(part)

    def signal(self, id: str, *, most: int | None = None) -> dict[str, float]:
        """Of each sketch with this key: how much of the spread of its clearest feature is signal, at this key.

        With `most`, no further shard is opened once there are so many.
        """
        found: dict[str, float] = {}
        for name in self.key_ids.get(id, []):
            if most is not None and len(found) >= most:
                break
            shard = self._open(name)
            for digest, share in zip(shard.text["digest"].tolist(), shard.numbers["reliability"].tolist(), strict=True):
                found[digest] = max(found.get(digest, 0.0), share)
        return found

    def name_of(self, digest: str) -> str:
        return self._names[digest]

    def sketch(self, digest: str) -> Sketch:
        return read_sketch(self._sketch_path(digest))

    @cached_property
    def headers(self) -> dict[str, Header]:
        """All headers, for schema matching; read once."""
        return {digest: self.sketch(digest).header for digest in self.digests}

    def add(self, sketches: Iterable[Sketch], domains: Mapping[str, KeyDomain] | None = None) -> list[Refused]:
        """Pack sketches; `domains` by digest give the parents of key levels. What cannot be packed is told, not raised."""
        groups: dict[str, list[ShardRows]] = defaultdict(list)
        new: dict[str, str] = {}
        refused = []
        for sketch in sketches:
            header = sketch.header
            if sketch.digest in self._names or sketch.digest in new:
                continue
            try:
                if header.key is not None:
                    rows = pack(sketch, (domains or {}).get(header.key.parts[0].digest))
                    groups[key_id(header.key)].append(rows)
                    self._keys.add(sketch)
            except (InvalidInput, InvalidSketch) as problem:
                refused.append(Refused(sketch.digest, header.dataset.name, problem.message))
                continue
            self._keep(sketch)
            new[sketch.digest] = header.dataset.name
        if new:
            self._change([(id, concatenate(parts)) for id, parts in groups.items()], names=new)
        return refused

    def add_rows(self, id: str, rows: ShardRows) -> None:
        """Values that are lookup values already, for benchmarks and experiments."""
        named = dict(zip(rows.text["digest"].tolist(), rows.text["dataset"].tolist(), strict=True))
        self._change([(id, rows)], names={digest: name for digest, name in named.items() if digest not in self._names})

    def remove(self, digest: str) -> bool:
        """Withdraw a sketch: its file and its rows in every shard are gone when this returns."""
        if digest not in self._names:
            return False
        kept, stale = [], []
        for id, files in self.key_ids.items():
            for name in files:
                rows = self._open(name)
                keep = rows.text["digest"] != digest
                if not keep.all():
                    stale.append(name)
                    kept += [(id, rows.take(keep))] if keep.any() else []
        self._change(kept, without_shards=stale, without_names={digest})
        self._sketch_path(digest).unlink(missing_ok=True)
        self._keys.sweep({part for id in self.key_ids for part in id.split("+")})
        return True

    def merge(self, id: str, names: list[str]) -> None:
        """One shard in the place of several of a key domain: a corpus that grows sketch by sketch stays quick to open."""
        self._change([(id, concatenate([self._open(name) for name in names]))], without_shards=names)

    # ---------------------------------------------------------------------------------------------- inside

    def _listed(self, part: str) -> KeyDomain | None:
        for id in self.key_ids:
            if part in (parts := id.split("+")):
                digests = (str(shard.text["digest"][0]) for shard in self.shards(id) if len(shard))
                for digest in digests:
                    with suppress(InvalidSketch, OSError):  # bare values of an experiment, or it is being withdrawn
                        return listed_domain(self.sketch(digest), parts.index(part))
        return None

    def _open(self, name: str) -> ShardRows:
        if name not in self._shards:
            self._shards[name] = open_shard(self._shard_path(name))
        return self._shards[name]

    @cached_property
    def _names(self) -> dict[str, str]:
        return self._index.names()

    def _sketch_path(self, digest: str) -> Path:
        return self.folder / "sketches" / f"{digest}{SUFFIX}"

    def _keep(self, sketch: Sketch) -> None:
        """The sketch's file is whole and on disk when this returns, whatever a crash may have left under its name."""
        path, content = self._sketch_path(sketch.digest), write_sketch(sketch)
        if not path.is_file() or path.read_bytes() != content:
            write_safely(path, content, public=True)

    def _change(
        self,
        shards: Iterable[tuple[str, ShardRows]],
        *,
        names: Mapping[str, str] | None = None,
        without_shards: Collection[str] = (),
        without_names: Collection[str] = (),
    ) -> None:
        """Files first, then the index, then files that are needed no longer: a crash leaves at most files without a name."""
        written: list[tuple[str, str]] = []
        try:
            for id, rows in shards:
                name = f"{secrets.token_hex(8)}.arrow"
                write_shard(self._shard_path(name), rows)
                written.append((id, name))
            self._contents = self._index.change(
                shards=written, without_shards=without_shards, names=names, without_names=without_names
            )
        except BaseException:
            for _, name in written:
                self._shard_path(name).unlink(missing_ok=True)
            raise
        for digest in without_names:
            self._names.pop(digest, None)
        self._names.update(names or {})
        self.__dict__.pop("headers", None)
        for name in without_shards:
            self._shards.pop(name, None)
            self._shard_path(name).unlink(missing_ok=True)

    def _shard_path(self, name: str) -> Path:
        return self.folder / "shards" / name


def pack(sketch: Sketch, domain: KeyDomain | None) -> ShardRows:
    """A sketch as rows of a shard: each feature's values, shrunk by what is known of the noise."""
    header = sketch.header
    levels = domain.with_levels(header.key.levels) if domain and header.key and header.key.levels else None
    parents = [levels.parent_index(i + 1) for i in range(len(levels.level_names))] if levels else []
    found = lookup_values(sketch, parents)
    m = len(header.features)
    rows = float("nan") if header.rows is None else float(header.rows)
    text = {
        "digest": [sketch.digest] * m,
        "dataset": [header.dataset.name] * m,
        "feature": [feature.name for feature in header.features],
        "unit": [feature.unit for feature in header.features],
    }
    numbers = {
        "mean": found.prior_mean,
        "spread": found.spread,
        "reliability": found.reliability.mean(axis=1),
        "offset": np.array([feature.offset for feature in header.features]),
        "scale": np.array([feature.scale for feature in header.features]),
        "rows": np.full(m, rows),
    }
    deviations = (found.values - found.prior_mean[:, None]).astype(np.float32)
    return ShardRows(
        {name: np.array(text[name], dtype=object) for name in TEXT}, {name: numbers[name] for name in NUMBERS}, deviations
    )
