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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from saibot.domains import DomainCard, DomainRegistry, KnownDomains
from saibot.errors import InvalidInput, InvalidSketch
from saibot.safe_file import write_safely
from saibot.search.index import NOBODY, VERSION, CorpusIndex, Learned, SketchEntry
from saibot.search.key_lists import KeyListFiles
from saibot.search.key_maps import key_id
from saibot.search.packed_rows import pack, pack_for_all, plain_rows, shared_rows
from saibot.search.shard import OPEN, PROVIDER, ShardRows, concatenate, open_shard, write_shard
from saibot.search.shared_factors import SharedFactors, read_factors
from saibot.sketch import (
    SUFFIX,
    Header,
    KeyDomain,
    Sketch,
    implausible,
    listed_domain,
    payload_of,
    read_sketch,
    signer_of,
    write_sketch,
)

SHARED = "shared:"  # what the names of shared columns begin with; no dataset's name has a colon
_PARTS = ("keys", "shards", "factors", "sketches", "domains")
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


class Corpus:
    """Sketches ready to be searched. Opening one maps files; nothing is read until it is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if any((folder / part).is_symlink() for part in _PARTS):
            raise InvalidInput(
                f"a part of the corpus {folder} lies elsewhere.", hint="Copy the sketches and pack them anew."
            )
        self._index = CorpusIndex(folder)
        self._contents = self._index.contents()
        self._shards: dict[str, ShardRows] = {}
        self.hidden: frozenset[str] = frozenset()  # digests of sketches that whoever asks may not know of
        self.verified: frozenset[str] = frozenset()  # providers that an admin of the platform has verified
        self._factors: dict[str, SharedFactors] = {}
        self._domains: dict[str, KeyDomain] = {}  # by digest, those with coarser levels
        self._provider: str | None = None
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
    def files(self) -> dict[str, list[str]]:
        """The files of all shards, by key domain, and by `key domain@group` for the values of a group of providers."""
        return self._contents.shards

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The key domains that sketches have."""
        return tuple(id for id in self.files if "@" not in id)

    @property
    def stamp(self) -> tuple[str, int]:
        """Another one after every change of the corpus, also by another process, since this was opened."""
        return self._contents.stamp

    def for_provider(self, provider: str | None) -> Self:
        """The same corpus as a provider's own requests must see it: with values that its sketches did not improve."""
        found = object.__new__(type(self))  # not `copy`, which opens the folder anew
        found.__dict__.update(self.__dict__)
        found._provider = provider
        return found

    def without(self, digests: Collection[str]) -> Self:
        """The same corpus for somebody who may not know of these sketches: no row of theirs is in any shard."""
        found = self.for_provider(self._provider)
        found.hidden, found._shards = frozenset(digests), {}
        return found

    def with_verified(self, providers: Collection[str]) -> Self:
        """The same corpus, of which these providers are known to be verified."""
        found = self.for_provider(self._provider)
        found.verified = frozenset(providers)
        return found

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled as the folder that it is: it is opened again, elsewhere too."""
        return _opened_for, (type(self), self.folder, self._provider, self.hidden, self.verified)

    def shards(self, id: str) -> list[ShardRows]:
        """The shards of one key domain, mapped."""
        return [self.shard(name) for name in self.shard_names(id)]

    def readable_shards(self, id: str) -> Iterator[ShardRows]:
        """The same without those that are damaged."""
        for name in self.shard_names(id):
            with suppress(InvalidInput):
                yield self.shard(name)

    def shard_names(self, id: str) -> list[str]:
        """The files of these, as whoever asks must see them."""
        shared = self.factors(id) if self._provider is not None else None
        group = shared.group_of(self._provider) if shared is not None else None
        return self.files.get(variant(id, group), [])

    def shard(self, name: str) -> ShardRows:
        """A shard by the name of its file, mapped."""
        if name not in self._shards:
            self._shards[name] = open_shard(self.shard_path(name)).without(self.hidden)
        return self._shards[name]

    def shard_path(self, name: str) -> Path:
        return self.folder / "shards" / name

    def digests_with(self, id: str) -> list[str]:
        """The sketches with this key domain, in order."""
        return sorted({str(digest) for shard in self._of_everybody(id) for digest in shard.text["digest"]})

    def open_with(self, id: str) -> set[str]:
        """Those of them that are open: exact sketches of public tables."""
        shards = [shard for shard in self._of_everybody(id) if OPEN in shard.extra]
        return {str(digest) for shard in shards for digest in shard.text["digest"][shard.extra[OPEN][:, 0] == 1]}

    def keys_in(self, id: str) -> int:
        """How many keys there are, without the one that stands for all others."""
        return int(self._of_everybody(id)[0].values.shape[1] - 1)

    def key_list(self, part: str) -> KeyDomain | None:
        """The keys behind a part of a key id: from their file, else as a sketch lists them; None where nobody knows them."""
        return self._keys.read(part) or self._listed(part)

    def remember(self, keys: int) -> None:
        """How many keys of lists that were read are kept in memory."""
        self._keys.remembered.most = keys

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
            shard = self.shard(name)
            for digest, share in zip(shard.text["digest"].tolist(), shard.numbers["reliability"].tolist(), strict=True):
                found[digest] = max(found.get(digest, 0.0), share)
        return found

    def name_of(self, digest: str) -> str:
        return self._names[digest]

    @property
    def tells_providers(self) -> bool:
        """Whether its index says whose sketches are; one that an earlier saibot packed does not."""
        return self._index.version() == VERSION

    def entries(self, digests: Iterable[str]) -> dict[str, SketchEntry]:
        """What the index says of these sketches: whose they are, who signed, and what is hard to believe."""
        return self._index.entries(digests)

    @cached_property
    def provider_numbers(self) -> dict[str, int]:
        """The number that shards call each provider by."""
        return self._index.providers()

    def sketches_of(self) -> dict[str, set[str]]:
        """The digests of every provider's sketches that whoever asks may know of."""
        found = {provider: digests - self.hidden for provider, digests in self._index.sketches_of().items()}
        return {provider: digests for provider, digests in found.items() if digests}

    def payloads(self) -> dict[str, str]:
        """The digest of a sketch for every payload that is there: who comes with the same one comes with a copy."""
        return self._index.payloads()

    def sketch(self, digest: str) -> Sketch:
        return read_sketch(self._sketch_path(digest))

    @cached_property
    def headers(self) -> dict[str, Header]:
        """All headers, for schema matching; read once."""
        return {digest: self.sketch(digest).header for digest in self.digests}

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

    def factors_of(self, name: str) -> tuple[SharedFactors, int | None]:
        """Factors as shards and results name them: the version, and the group of providers where it is one's."""
        version, _, group = name.partition("@")
        return self.factors_named(version), int(group) if group.isdigit() else None

    def learned(self, id: str) -> Learned | None:
        """The last time that the factors of a key domain were learned; None before the first."""
        return self._contents.learned.get(id)

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
        return pack(sketch, self.domain_of(sketch), shared, group)

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

    def _of_everybody(self, id: str) -> list[ShardRows]:
        return [self.shard(name) for name in self.files.get(id, [])]

    def _stored(self, digest: str) -> Sketch | None:
        with suppress(InvalidSketch, OSError):  # bare values of an experiment, or it is being withdrawn
            return self.sketch(digest)
        return None

    def _listed(self, part: str) -> KeyDomain | None:
        for id in self.key_ids:
            if part in (parts := id.split("+")):
                digests = (str(shard.text["digest"][0]) for shard in self.readable_shards(id) if len(shard))
                for digest in digests:
                    with suppress(InvalidSketch, OSError):  # bare values of an experiment, or it is being withdrawn
                        return listed_domain(self.sketch(digest), parts.index(part))
        return None

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

    def _factor_path(self, version: str) -> Path:
        return self.folder / "factors" / f"{version}.arrow"


def variant(id: str, group: int | None) -> str:
    """Where the values of a key domain stand in the index: those for everybody, or those for a group of providers."""
    return id if group is None else f"{id}@{group}"


def _entry(sketch: Sketch, providers: Mapping[str, str] | None) -> SketchEntry:
    key = signer_of(sketch.header)
    signer = None if key is None else key.fingerprint
    whose = (signer or NOBODY) if providers is None else providers.get(sketch.digest, NOBODY)
    return SketchEntry(sketch.header.dataset.name, whose, signer, payload_of(sketch), implausible(sketch))


def _opened_for(
    kind: type[Corpus], folder: Path, provider: str | None, hidden: frozenset[str], verified: frozenset[str]
) -> Corpus:
    return kind(folder).for_provider(provider).without(hidden).with_verified(verified)
