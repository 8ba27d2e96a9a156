"""A corpus: a directory of sketches, and their values packed per key domain for the sweep.

    corpus/
      index.json             which shard files belong to which key domain, and which files name the sketches
      names/*.json           digests of sketches and the names of their datasets
      keys/*.keys.arrow      the public lists of keys that the sketches have
      shards/*.arrow         values, memory-mapped
      sketches/*.saibot      the sketches themselves, by digest

The index is replaced atomically and names everything that counts: a file it does not name does not exist.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from saibot.domains import DomainCard
from saibot.errors import InvalidInput, InvalidSketch
from saibot.estimate.lookup import lookup_values
from saibot.search.key_lists import KeyListFiles
from saibot.search.key_maps import key_id
from saibot.search.names import Names, write_json
from saibot.search.shard import NUMBERS, TEXT, ShardRows, concatenate, open_shard, write_shard
from saibot.sketch import SUFFIX, Header, KeyDomain, Sketch, listed_domain, read_sketch, write_sketch

FORMAT = {"format": "saibot-corpus", "version": 1}


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
        try:
            self._index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InvalidInput(f"{folder} is no corpus.", hint="`saibot pack FOLDER SKETCH...` makes one.") from None
        except (json.JSONDecodeError, UnicodeDecodeError, OSError):
            raise InvalidInput(f"the corpus {folder} has a damaged index.") from None
        if {name: self._index.get(name) for name in FORMAT} != FORMAT:
            raise InvalidInput(f"the corpus {folder} has another format version.", hint="Pack it anew with this saibot.")
        self._names = Names(folder / "names", self._index.get("names", {}), self._index.pop("sketches", None))
        self._shards: dict[str, ShardRows] = {}
        self._keys = KeyListFiles(folder / "keys")

    @classmethod
    def create(cls, folder: Path, *, dtype: str = "float32") -> Self:
        """A new, empty corpus. float32 halves what a sweep reads and is far finer than any noise; float64 is for tests."""
        if dtype not in ("float32", "float64"):
            raise InvalidInput(f"a corpus holds float32 or float64, not {dtype}.")
        if (folder / "index.json").exists():
            raise InvalidInput(f"{folder} is a corpus already.")
        (folder / "shards").mkdir(parents=True, exist_ok=True)
        (folder / "sketches").mkdir(exist_ok=True)
        write_json(folder / "index.json", FORMAT | {"dtype": dtype, "shards": {}, "names": {}})
        return cls(folder)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def name_files(self) -> tuple[str, ...]:
        """The files that name the sketches."""
        return tuple(self._names.files)

    @property
    def digests(self) -> tuple[str, ...]:
        return tuple(self._names.known)

    @property
    def key_ids(self) -> dict[str, list[str]]:
        """For every key domain the files of its shards."""
        shards: dict[str, list[str]] = self._index["shards"]
        return shards

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
        return str(self._names.known[digest])

    def sketch(self, digest: str) -> Sketch:
        return read_sketch(self.folder / "sketches" / f"{digest}{SUFFIX}")

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
            if sketch.digest in self._names.known or sketch.digest in new:
                continue
            try:
                if header.key is not None:
                    rows = pack(sketch, (domains or {}).get(header.key.parts[0].digest), dtype=self._index["dtype"])
                    groups[key_id(header.key)].append(rows)
                    self._keys.add(sketch)
            except (InvalidInput, InvalidSketch) as problem:
                refused.append(Refused(sketch.digest, header.dataset.name, problem.message))
                continue
            path = self.folder / "sketches" / f"{sketch.digest}{SUFFIX}"
            if not path.exists():
                path.write_bytes(write_sketch(sketch))
            new[sketch.digest] = header.dataset.name
        shards = {id: list(files) for id, files in self.key_ids.items()}
        for id, parts in groups.items():
            shards.setdefault(id, []).append(self._write(concatenate(parts)))
        self._replace(shards, new)
        return refused

    def add_rows(self, id: str, rows: ShardRows) -> None:
        """Values that are lookup values already, for benchmarks and experiments."""
        shards = {one: list(files) for one, files in self.key_ids.items()}
        shards.setdefault(id, []).append(self._write(rows))
        named = dict(zip(rows.text["digest"], rows.text["dataset"], strict=True))
        self._replace(shards, {digest: name for digest, name in named.items() if digest not in self._names.known})

    def remove(self, digest: str) -> bool:
        """Withdraw a sketch: its file and its rows in every shard are gone when this returns."""
        if digest not in self._names.known:
            return False
        shards: dict[str, list[str]] = {}
        stale = []
        for id, files in self.key_ids.items():
            for name in files:
                rows = self._open(name)
                keep = rows.text["digest"] != digest
                if keep.all():
                    shards.setdefault(id, []).append(name)
                    continue
                stale.append(name)
                if keep.any():
                    shards.setdefault(id, []).append(self._write(rows.take(keep)))
        self._replace(shards, {}, frozenset({digest}))
        for name in stale:
            self._shards.pop(name, None)
            (self.folder / "shards" / name).unlink(missing_ok=True)
        (self.folder / "sketches" / f"{digest}{SUFFIX}").unlink(missing_ok=True)
        self._keys.sweep({part for id in shards for part in id.split("+")})
        return True

    def merge(self, id: str, names: list[str]) -> None:
        """One shard in the place of several of a key domain: a corpus that grows sketch by sketch stays quick to open."""
        merged = self._write(concatenate([self._open(name) for name in names]))
        shards = {one: list(files) for one, files in self.key_ids.items()}
        shards[id] = [*(name for name in shards[id] if name not in names), merged]
        self._replace(shards, {})
        for name in names:
            self._shards.pop(name, None)
            (self.folder / "shards" / name).unlink(missing_ok=True)

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
            self._shards[name] = open_shard(self.folder / "shards" / name)
        return self._shards[name]

    def _write(self, rows: ShardRows) -> str:
        name = f"{secrets.token_hex(8)}.arrow"
        write_shard(self.folder / "shards" / name, rows)
        return name

    def _replace(self, shards: dict[str, list[str]], add: dict[str, str], remove: frozenset[str] = frozenset()) -> None:
        names, stale = self._names.changed(add, remove)
        self._index = self._index | {"shards": shards, "names": names.files}
        write_json(self.folder / "index.json", self._index)
        self._names = names
        names.delete(stale)
        self.__dict__.pop("headers", None)


def pack(sketch: Sketch, domain: KeyDomain | None, *, dtype: str = "float32") -> ShardRows:
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
    deviations = (found.values - found.prior_mean[:, None]).astype(dtype)
    return ShardRows(
        {name: np.array(text[name], dtype=object) for name in TEXT}, {name: numbers[name] for name in NUMBERS}, deviations
    )
