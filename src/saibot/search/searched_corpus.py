"""A corpus as those see it who search it: sketches, the shards of their values, and what they have in common.

Whoever asks sees it without what they may not know of, and with values that their own sketches did not improve.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from saibot.domains import DomainCard, DomainRegistry, KnownDomains
from saibot.errors import InvalidInput, InvalidSketch
from saibot.search.index import VERSION, CorpusIndex, Learned, SketchEntry
from saibot.search.key_lists import KeyListFiles
from saibot.search.packed_rows import pack, shared_rows
from saibot.search.shard import OPEN, ShardRows, open_shard
from saibot.search.shared_factors import SharedFactors, read_factors
from saibot.sketch import SUFFIX, Header, KeyDomain, Sketch, listed_domain, read_sketch

SHARED = "shared:"  # what the names of shared columns begin with; no dataset's name has a colon
_PARTS = ("keys", "shards", "factors", "sketches", "domains")


class SearchedCorpus:
    """All that can be asked of a `Corpus` without changing it."""

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

    # ---------------------------------------------------------------------------------------------- inside

    def _of_everybody(self, id: str) -> list[ShardRows]:
        return [self.shard(name) for name in self.files.get(id, [])]

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

    def _factor_path(self, version: str) -> Path:
        return self.folder / "factors" / f"{version}.arrow"


def variant(id: str, group: int | None) -> str:
    """Where the values of a key domain stand in the index: those for everybody, or those for a group of providers."""
    return id if group is None else f"{id}@{group}"


def _opened_for(
    kind: type[SearchedCorpus], folder: Path, provider: str | None, hidden: frozenset[str], verified: frozenset[str]
) -> SearchedCorpus:
    return kind(folder).for_provider(provider).without(hidden).with_verified(verified)
