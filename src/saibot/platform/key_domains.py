"""Key domains as people look them up: what the keys are, who says so, which datasets have them, and what those share.

A domain is found by its id, as sketches name it. One id may stand for several lists of keys: versions, or lists that
providers made up by themselves. Each has its own factors, so one of them is shown and the others are named.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from saibot.discover.joins import part_id
from saibot.domains import KeyDomain, KnownDomains, Vocabulary, generated_domain, spelled_size
from saibot.domains.vocabularies import of_domain
from saibot.errors import InvalidDomain
from saibot.platform.accounts import Caller
from saibot.platform.catalog import Catalog, Filter
from saibot.platform.domains import RegisteredDomains
from saibot.platform.errors import NotFound
from saibot.platform.opened_corpus import OpenedCorpus, Stamp
from saibot.search.packed_rows import Loading, shared_rows, strongest
from saibot.search.shared_factors import SharedFactors
from saibot.wire import Domain, JoinKeyPart

LOOKED_AT = 300  # datasets at most that tell which lists of keys an id stands for
LISTED = 20
SAMPLED = 60  # keys shown
LOADED = 400  # features for each factor, of which people see those that they may
REMEMBERED = 16
SPELLED_OUT = 10_000  # keys of a list that no dataset has and whose id spells it out, for anybody who makes one up
REMEMBERED_LISTS = 300  # spelled out, their first keys alone


@dataclass(frozen=True)
class KeySample:
    """The first keys of a list, each with its parents at the coarser levels that anybody knows."""

    levels: tuple[tuple[str, int], ...]  # by name, and how many keys each has
    rows: list[list[str]]


@dataclass(frozen=True)
class KeyDomainFacts:
    """One list of keys under an id, and where it comes from."""

    part: JoinKeyPart
    keys: KeySample | None  # None until the first sketch with it is packed
    vocabulary: Vocabulary | None  # it ships with Saibot
    registered: Domain | None  # a provider registered it here
    others: tuple[JoinKeyPart, ...]  # further lists under the same id
    datasets: tuple[dict[str, Any], ...]  # the newest of those that the caller may know of
    total: int

    @property
    def levels(self) -> tuple[tuple[str, int], ...]:
        """Coarser levels on offer, and how many keys each has."""
        return self.keys.levels if self.keys is not None else ()


@dataclass(frozen=True)
class SharedKnowledge:
    """What the corpus knows of one (composite) key: its factors, and how much they explain."""

    shared: SharedFactors
    names: tuple[str, ...]  # ids of the domains of its parts
    sketches: int  # with this key, taught or not

    @property
    def columns(self) -> np.ndarray:
        """The factors as searches join them: one row each, a variance of 1 over keys."""
        return shared_rows(self.shared, None, "").values[:, :-1]


class KeyDomains:
    """Reads only."""

    def __init__(self, catalog: Catalog, registered: RegisteredDomains, corpus: OpenedCorpus) -> None:
        self._catalog, self._registered, self._corpus = catalog, registered, corpus
        self._strongest = lru_cache(REMEMBERED)(self._most_loaded)

    def find(self, caller: Caller, id: str, keys: str | None = None) -> KeyDomainFacts:
        """`keys` names one list among several under one id, as `JoinKeyPart.keys_digest` begins."""
        page = self._catalog.list(caller, Filter(domain=id), limit=LOOKED_AT)
        documents = [json.loads(text) for text in page.items]
        named = [
            JoinKeyPart.model_validate(part)
            for document in documents
            for part in document["key"]["parts"]
            if part["domain"] == id
        ]
        lists = [part for part, _ in Counter(_unnamed(part) for part in named).most_common()]
        lists = list(dict.fromkeys([*lists, *_spelled_out(id), *self._without_datasets(id)]))
        chosen = next((part for part in lists if keys is None or part.keys_digest.startswith(keys)), None)
        if chosen is None:
            raise NotFound(
                "there is no key domain with this id.", hint="The page of key domains lists those that are there."
            )
        own = [document for document in documents if chosen in map(_unnamed, _parts(document))]
        return KeyDomainFacts(
            part=chosen,
            keys=self._sample(chosen),
            vocabulary=_vocabulary(chosen),
            registered=self._registration(chosen),
            others=tuple(part for part in lists if part != chosen),
            datasets=tuple(own[:LISTED]),
            total=self._catalog.facets(caller, Filter(domain=id))["total"] if documents else 0,
        )

    def in_use(self) -> list[SharedKnowledge]:
        """What the corpus knows of all keys that share anything."""
        corpus = self._corpus.now()
        found = []
        for id in corpus.key_ids if corpus else ():
            shared = corpus.factors(id) if corpus else None
            if corpus is not None and shared is not None and shared.rank:
                lists = [corpus.key_list(each) for each in id.split("+")]
                names = tuple(domain.id if domain is not None else "keys" for domain in lists)
                found.append(SharedKnowledge(shared, names, len(corpus.digests_with(id))))
        return found

    def knowledge(self, part: JoinKeyPart) -> list[SharedKnowledge]:
        """What the corpus knows of keys that this list is all or part of, the list by itself first."""
        wanted = part_id(part.keys_digest)
        found = [one for one in self.in_use() if wanted in one.shared.key.split("+")]
        return sorted(found, key=lambda one: len(one.names))

    def named(self, version: str) -> SharedKnowledge:
        """The factors of this version, which are in use."""
        found = next((one for one in self.in_use() if one.shared.version == version), None)
        if found is None:
            hint = "The page of their key domain has the new ones."
            raise NotFound("these shared factors are not in use any more.", hint=hint)
        return found

    def keys_of(self, shared: SharedFactors) -> list[tuple[str, ...]] | None:
        """The keys that factors are over, one text for each part of a composite key; None where nobody knows them."""
        corpus = self._corpus.now()
        lists = [corpus.key_list(part) for part in shared.key.split("+")] if corpus else [None]
        known = [domain.values for domain in lists if domain is not None]
        return list(product(*known)) if len(known) == len(lists) else None

    def loaded(
        self, caller: Caller, shared: SharedFactors, factor: int, *, most: int
    ) -> list[tuple[Loading, dict[str, Any]]]:
        """The features that load on a factor most, each with its dataset, among those that the caller may know of."""
        found: Sequence[Loading] = self._strongest(shared.version, self._corpus.stamp())[factor]
        documents = {one["digest"]: one for one in self._catalog.latest(caller, [each.digest for each in found])}
        return [(one, documents[one.digest]) for one in found if one.digest in documents][:most]

    # -------------------------------------------------------------------------------------------- inside

    def _most_loaded(self, version: str, stamp: Stamp) -> list[list[Loading]]:
        corpus = self._corpus.at(stamp)
        if corpus is None:
            return []
        shared = corpus.factors_named(version)
        return strongest(corpus.shards(shared.key), shared, most=LOADED)

    def _without_datasets(self, id: str) -> list[JoinKeyPart]:
        """The list that an id names by itself: shipped, or registered, the latest version first."""
        ships = of_domain(id)
        domain = None if ships is None else _readable(ships)
        found = [] if domain is None else [_named(domain)]
        cards = [card for card in self._registered.registry.entries() if card.id == id]
        cards = sorted(cards, key=lambda card: -card.version)
        return found + [_part_of(card.id, card.version, card.size, card.keys_digest) for card in cards]

    def _sample(self, part: JoinKeyPart) -> KeySample | None:
        """Of a registered list from its file, whose keys may be millions; of others from the list itself."""
        found = self._registered.registry.sample(part.keys_digest, most=SAMPLED)
        if found is not None:
            return KeySample(tuple((parent.name, parent.size) for parent in found[0].parents), found[1])
        spelled = _spelled_sample(part.domain, part.size)
        if spelled is not None and spelled[0] == part.keys_digest:
            return spelled[1]
        corpus = self._corpus.now()
        domain = KnownDomains.of().find(part) if spelled is None else None
        domain = domain or (corpus.key_list(part_id(part.keys_digest)) if corpus is not None else None)
        return None if domain is None else _first_keys(domain)

    def _registration(self, part: JoinKeyPart) -> Domain | None:
        try:
            found = self._registered.show(part.domain, part.version)
        except NotFound:
            return None
        return found if found.keys_digest == part.keys_digest else None


def _parts(document: dict[str, Any]) -> list[JoinKeyPart]:
    return [JoinKeyPart.model_validate(part) for part in document["key"]["parts"]]


def _unnamed(part: JoinKeyPart) -> JoinKeyPart:
    """Providers call the column what they like, and know the levels that they know: it is one list of keys."""
    return part.model_copy(update={"name": "", "digest": part.keys_digest})


@lru_cache(REMEMBERED_LISTS)
def _spelled_out(id: str) -> tuple[JoinKeyPart, ...]:
    """The list that an id spells out, unless it is so long that whoever has a dataset with it has to say so."""
    domain = generated_domain(id) if (spelled_size(id) or 0) <= SPELLED_OUT else None
    return () if domain is None else (_named(domain),)


@lru_cache(REMEMBERED_LISTS)
def _spelled_sample(id: str, size: int) -> tuple[str, KeySample] | None:
    """The first keys of a list that an id spells out, and the digest of all."""
    domain = generated_domain(id, size=size)
    return None if domain is None else (domain.keys_digest, _first_keys(domain))


def _first_keys(domain: KeyDomain) -> KeySample:
    columns = (domain.values[:SAMPLED], *(keys[:SAMPLED] for _, keys in domain.parents))
    levels = tuple((name, len(set(keys))) for name, keys in domain.parents)
    return KeySample(levels, [list(row) for row in zip(*columns, strict=True)])


def _named(domain: KeyDomain) -> JoinKeyPart:
    return _part_of(domain.id, domain.version, len(domain), domain.keys_digest)


def _part_of(id: str, version: int, size: int, digest: str) -> JoinKeyPart:
    return JoinKeyPart(name="", domain=id, version=version, size=size, digest=digest, keys_digest=digest)


def _readable(vocabulary: Vocabulary) -> KeyDomain | None:
    try:
        return vocabulary.domain
    except InvalidDomain:  # its package is not installed here
        return None


def _vocabulary(part: JoinKeyPart) -> Vocabulary | None:
    ships = of_domain(part.domain)
    found = None if ships is None else _readable(ships)
    return ships if found is not None and found.keys_digest == part.keys_digest else None
