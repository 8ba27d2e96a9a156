"""A corpus: a directory of sketches, and their values packed per key domain for the sweep.

    corpus/
      index.json             which shard files belong to which key domain, and which files name the sketches
      names/*.json           digests of sketches and the names of their datasets
      keys/*.keys.arrow      the public lists of keys that the sketches have
      shards/*.arrow         values, memory-mapped
      factors/*.arrow        what the sketches of a key domain have in common, by version
      sketches/*.saibot      the sketches themselves, by digest

Values are those that each sketch gives with the help of its domain's factors. Requests of a provider whose sketches taught
these are answered from other values, which only the factors of all other groups of providers helped: in the index their
files stand under `key domain@group`.

The index is replaced atomically and names everything that counts: a file it does not name does not exist.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from saibot.domains import DomainCard, DomainRegistry, KnownDomains
from saibot.errors import InvalidInput, InvalidSketch
from saibot.safe_file import write_safely
from saibot.search.key_lists import KeyListFiles
from saibot.search.key_maps import key_id
from saibot.search.names import Names, write_json
from saibot.search.packed_rows import pack, pack_for_all, plain_rows, shared_rows
from saibot.search.shard import ShardRows, concatenate, open_shard, write_shard
from saibot.search.shared_factors import SharedFactors, read_factors
from saibot.sketch import SUFFIX, Header, KeyDomain, Sketch, listed_domain, read_sketch, write_sketch

FORMAT = {"format": "saibot-corpus", "version": 1}
SHARED = "shared:"  # what the names of shared columns begin with; no dataset's name has a colon
PACKED_TOGETHER = 512  # sketches in memory at a time


@dataclass(frozen=True)
class Learned:
    """The factors that a key domain uses, how many sketches it had then, and whether one that taught is gone since."""

    version: str
    sketches: int
    withdrawn: bool = False


@dataclass(frozen=True)
class PreparedValues:
    """The values of a key domain with the help of factors, written and not in use yet."""

    key: str
    version: str
    files: dict[str, list[str]]  # of shards, as the index will name them
    digests: tuple[str, ...]


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
        self._factors: dict[str, SharedFactors] = {}
        self._domains: dict[str, KeyDomain] = {}  # by digest, those with coarser levels
        self._provider: str | None = None
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
    def files(self) -> dict[str, list[str]]:
        """The files of all shards, by key domain, and by `key domain@group` for the values of a group of providers."""
        shards: dict[str, list[str]] = self._index["shards"]
        return shards

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The key domains that sketches have."""
        return tuple(id for id in self.files if "@" not in id)

    def for_provider(self, provider: str | None) -> Corpus:
        """The same corpus as a provider's own requests must see it: with values that its sketches did not improve."""
        found = copy(self)
        found._provider = provider
        return found

    def shards(self, id: str) -> list[ShardRows]:
        """The shards of one key domain, mapped."""
        shared = self.factors(id) if self._provider is not None else None
        group = shared.group_of(self._provider) if shared is not None else None
        return [self._open(name) for name in self.files.get(variant(id, group), [])]

    def digests_with(self, id: str) -> list[str]:
        """The sketches with this key domain, in order."""
        return sorted({str(digest) for shard in self._of_everybody(id) for digest in shard.text["digest"]})

    def keys_in(self, id: str) -> int:
        """How many keys there are, without the one that stands for all others."""
        return int(self._of_everybody(id)[0].values.shape[1] - 1)

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
        for name in self.files.get(id, []):
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
        self._domains |= domains or {}
        groups: dict[str, list[tuple[Sketch, ShardRows]]] = defaultdict(list)
        new: dict[str, str] = {}
        refused = []
        for sketch in sketches:
            header = sketch.header
            if sketch.digest in self._names.known or sketch.digest in new:
                continue
            try:
                if header.key is not None:
                    groups[key_id(header.key)].append((sketch, self._plain(sketch)))
                    self._keys.add(sketch)
            except (InvalidInput, InvalidSketch) as problem:
                refused.append(Refused(sketch.digest, header.dataset.name, problem.message))
                continue
            path = self.folder / "sketches" / f"{sketch.digest}{SUFFIX}"
            if not path.exists():
                path.write_bytes(write_sketch(sketch))
            new[sketch.digest] = header.dataset.name
        shards = {id: list(files) for id, files in self.files.items()}
        for id, members in groups.items():
            self._add_packed(shards, id, members, self.factors(id))
        self._replace(shards, new)
        return refused

    def add_rows(self, id: str, rows: ShardRows) -> None:
        """Values that are lookup values already, for benchmarks and experiments."""
        shards = {one: list(files) for one, files in self.files.items()}
        shards.setdefault(id, []).append(self._write(rows))
        named = dict(zip(rows.text["digest"], rows.text["dataset"], strict=True))
        self._replace(shards, {digest: name for digest, name in named.items() if digest not in self._names.known})

    def remove(self, digest: str) -> bool:
        """Withdraw a sketch: its file and its rows in every shard are gone when this returns."""
        if digest not in self._names.known:
            return False
        shards: dict[str, list[str]] = {}
        stale = []
        for id, files in self.files.items():
            for name in files:
                rows = self._open(name)
                keep = rows.text["digest"] != digest
                if keep.all():
                    shards.setdefault(id, []).append(name)
                    continue
                stale.append(name)
                if keep.any():
                    shards.setdefault(id, []).append(self._write(rows.take(keep)))
        self._forget_taught(digest)
        self._replace(shards, {}, frozenset({digest}))
        self._delete_shards(stale)
        (self.folder / "sketches" / f"{digest}{SUFFIX}").unlink(missing_ok=True)
        self._keys.sweep({part for id in shards for part in id.split("+")})
        return True

    def merge(self, id: str, names: list[str]) -> None:
        """One shard in the place of several of a key domain: a corpus that grows sketch by sketch stays quick to open."""
        parts = [self._open(name) for name in names]
        if len({part.factors for part in parts}) > 1:
            return  # bare values of an experiment stand beside values that factors helped
        merged = self._write(concatenate(parts))
        shards = {one: list(files) for one, files in self.files.items()}
        shards[id] = [*(name for name in shards[id] if name not in names), merged]
        self._replace(shards, {})
        self._delete_shards(names)

    # ---------------------------------------------------------------------------------------------- shared factors

    def factors(self, id: str) -> SharedFactors | None:
        """What the sketches of a key domain have in common, as its values use it; None where nothing was learned."""
        learned = self.learned(id)
        return None if learned is None else self.factors_named(learned.version)

    def factors_named(self, version: str) -> SharedFactors:
        """Factors by their version, also earlier ones that are still kept."""
        if version not in self._factors:
            try:
                content = self._factor_path(version).read_bytes()
            except OSError:
                raise InvalidInput(
                    f"the corpus {self.folder} has no factors {version[:12]} any more.",
                    hint="They were learned from something that was withdrawn since: search again.",
                ) from None
            self._factors[version] = read_factors(content, version)
        return self._factors[version]

    def learned(self, id: str) -> Learned | None:
        """When a key domain had its last lesson, so to say; None before the first."""
        entry = self._index.get("factors", {}).get(id)
        return None if entry is None else Learned(**entry)

    def adopt(self, shared: SharedFactors) -> None:
        """From now on the values of a key domain are those that these factors help."""
        self.install(self.prepare(shared))

    def prepare(self, shared: SharedFactors) -> PreparedValues:
        """Write the values that these factors give beside those in use; others may change the corpus meanwhile."""
        id = shared.key
        digests = [one for one in self.digests_with(id) if self._sketch_path(one).is_file()]
        write_safely(self._factor_path(shared.version), shared.content)
        self._factors[shared.version] = shared
        files: dict[str, list[str]] = {}
        bare = [(shard, ~np.isin(shard.text["digest"], digests)) for shard in self._of_everybody(id)]  # of experiments
        for group in shared.groups:
            files[variant(id, group)] = [self._write(shard.take(which)) for shard, which in bare if which.any()]
        packed: list[str] = []
        for start in range(0, len(digests), PACKED_TOGETHER):
            sketches = [one for digest in digests[start : start + PACKED_TOGETHER] if (one := self._stored(digest))]
            packed += [sketch.digest for sketch in sketches]
            self._add_packed(files, id, [(sketch, self._plain(sketch)) for sketch in sketches], shared)
        return PreparedValues(id, shared.version, files, tuple(packed))

    def install(self, prepared: PreparedValues) -> None:
        """Put prepared values in the place of those in use, in one step; what changed since is made up for."""
        id, before, shared = prepared.key, self.learned(prepared.key), self.factors_named(prepared.version)
        now, then = set(self.digests_with(id)), set(prepared.digests)
        stale = [name for key, names in self.files.items() if key.split("@")[0] == id for name in names]
        shards = {key: list(names) for key, names in self.files.items() if key.split("@")[0] != id}
        shards |= {key: self._without(names, then - now) for key, names in prepared.files.items()}
        late = [sketch for digest in sorted(now - then) if (sketch := self._stored(digest)) is not None]
        if late:
            self._add_packed(shards, id, [(sketch, self._plain(sketch)) for sketch in late], shared)
        entry = asdict(Learned(shared.version, len(now), bool(set(shared.taught) - now)))
        self._index = self._index | {"factors": self._index.get("factors", {}) | {id: entry}}
        self._replace({key: names for key, names in shards.items() if names}, {})
        self._delete_shards(stale)
        if before is not None and before.withdrawn:
            self._factor_path(before.version).unlink(missing_ok=True)

    def _without(self, names: Iterable[str], gone: set[str]) -> list[str]:
        """Shards without the rows of sketches that were withdrawn while they were written."""
        found = []
        for name in names:
            rows = self._open(name)
            keep = ~np.isin(rows.text["digest"], sorted(gone))
            if keep.all():
                found.append(name)
                continue
            found += [self._write(rows.take(keep))] if keep.any() else []
            self._delete_shards([name])
        return found

    def _stored(self, digest: str) -> Sketch | None:
        with suppress(InvalidSketch, OSError):  # bare values of an experiment, or it is being withdrawn
            return self.sketch(digest)
        return None

    def shared_columns(self, id: str) -> ShardRows | None:
        """What the sketches of a key domain have in common, as columns to join: `shared:DOMAIN.1` and so on."""
        shared = self.factors(id)
        if shared is None or not shared.rank:
            return None
        lists = [self.key_list(part) for part in id.split("+")]
        name = "+".join(domain.id if domain is not None else "keys" for domain in lists)
        return shared_rows(shared, shared.group_of(self._provider), f"{SHARED}{name}")

    def packed(self, sketch: Sketch, shared: SharedFactors | None, group: int | None) -> ShardRows:
        """The rows of a sketch with these factors, which need not be those in use."""
        return pack(sketch, self.domain_of(sketch), shared, group, dtype=self._index["dtype"])

    def domain_of(self, sketch: Sketch) -> KeyDomain | None:
        """The domain with the coarser levels of a sketch's key: one that was given, or is kept with the corpus."""
        key = sketch.header.key
        if key is None or not key.levels:
            return None
        digest = key.parts[0].digest
        if digest not in self._domains:
            folder = self.folder / "domains"
            registry = DomainRegistry(folder) if folder.is_dir() else None
            found = KnownDomains.of(registry=registry).find(key.parts[0])
            if found is None:
                return None
            self._domains[digest] = found
        return self._domains[digest]

    def _plain(self, sketch: Sketch) -> ShardRows:
        return plain_rows(sketch, self.domain_of(sketch), dtype=self._index["dtype"])

    def _add_packed(
        self,
        shards: dict[str, list[str]],
        id: str,
        members: Sequence[tuple[Sketch, ShardRows]],
        shared: SharedFactors | None,
    ) -> None:
        sketches, plain = zip(*members, strict=True)
        rows = pack_for_all(sketches, plain, self.domain_of, shared)
        for group, part in zip((None,) if shared is None else shared.groups, rows, strict=True):
            shards.setdefault(variant(id, group), []).append(self._write(part))

    def _forget_taught(self, digest: str) -> None:
        """What was withdrawn teaches nobody: factors that it taught are kept no longer than their values are in use."""
        learned = {}
        for id in self._index.get("factors", {}):
            entry = self.learned(id)
            assert entry is not None
            learned[id] = asdict(
                replace(entry, withdrawn=entry.withdrawn or digest in self.factors_named(entry.version).taught)
            )
        self._index = self._index | {"factors": learned}
        current = {entry["version"] for entry in learned.values()}
        for path in (self.folder / "factors").glob("*.arrow"):
            if path.stem not in current and digest in self.factors_named(path.stem).taught:
                path.unlink(missing_ok=True)
                self._factors.pop(path.stem, None)

    # ---------------------------------------------------------------------------------------------- inside

    def _of_everybody(self, id: str) -> list[ShardRows]:
        return [self._open(name) for name in self.files.get(id, [])]

    def _delete_shards(self, names: Iterable[str]) -> None:
        for name in names:
            self._shards.pop(name, None)
            (self.folder / "shards" / name).unlink(missing_ok=True)

    def _sketch_path(self, digest: str) -> Path:
        return self.folder / "sketches" / f"{digest}{SUFFIX}"

    def _factor_path(self, version: str) -> Path:
        return self.folder / "factors" / f"{version}.arrow"

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


def variant(id: str, group: int | None) -> str:
    """Where the values of a key domain stand in the index: those for everybody, or those for a group of providers."""
    return id if group is None else f"{id}@{group}"
