"""Which published datasets a dataset joins or unions with, and why: for its page and for `GET /v1/datasets/{id}/related`.

The shards know which lists of keys there are, the catalogue who may see what. A list of keys is looked at once for all the
datasets that share it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any

from saibot.discover import Addable, Joinable, Meetings, OwnKeys, match_union
from saibot.discover.related import label_text
from saibot.domains import DomainRegistry, KnownDomains
from saibot.domains.naming import domain_name
from saibot.domains.vocabularies import finer_lists
from saibot.errors import InvalidSketch
from saibot.platform.accounts import Caller
from saibot.platform.catalog import Catalog, Filter
from saibot.platform.describe import letters_of
from saibot.platform.errors import NotFound
from saibot.platform.opened_corpus import OpenedCorpus, Stamp
from saibot.platform.shown_sketches import TooLargeToShow, shown_feature, stored_header
from saibot.platform.storage.files import FileStore
from saibot.search.corpus import Corpus
from saibot.search.from_sketches import domain_of_part
from saibot.sketch import Header
from saibot.wire import JoinsWith, Related, UnionsWith

LOOKED_AT = 300  # datasets at most, of those that could be related
PRODUCTS = 2_000_000  # of two features, in all the headers that are read for one answer: four of the largest there are
REMEMBERED = 2  # each has all keys of a sketch


class Relatives:
    """Reads only."""

    def __init__(self, catalog: Catalog, files: FileStore, registry: DomainRegistry, corpus: OpenedCorpus) -> None:
        self._catalog, self._files, self._registry, self._corpus = catalog, files, registry, corpus
        self._meetings = lru_cache(REMEMBERED)(self._met)

    def of(self, caller: Caller, id: str, *, limit: int) -> Related:
        """The datasets that the caller may know of, the largest share of keys first."""
        dataset = self._catalog.show(caller, id)
        header = stored_header(self._files, dataset["digest"])
        joins, unions = self._joins(caller, dataset)[:limit], self._unions(caller, dataset, header, limit)
        return Related(id=id, joins=tuple(joins), unions=tuple(unions))

    # -------------------------------------------------------------------------------------------- joins

    def _joins(self, caller: Caller, dataset: dict[str, Any]) -> list[JoinsWith]:
        if dataset["key"] is None:
            return []
        corpus, meetings = self._meetings(dataset["digest"], self._corpus.stamp())
        others: dict[str, dict[str, Any]] = {}
        for part in dataset["key"]["parts"]:  # these are listed at once, also before they are packed
            page = self._catalog.list(caller, Filter(domain=part["domain"]), limit=LOOKED_AT)
            others |= {other["id"]: other for other in map(json.loads, page.items)}
        signal = self._reachable(corpus, meetings)
        others |= {other["id"]: other for other in self._catalog.latest(caller, list(signal))}
        found = []
        for other in others.values():
            if other["id"] == dataset["id"]:
                continue
            join = meetings.join([(part["keys_digest"], part["domain"]) for part in other["key"]["parts"]])
            if isinstance(join, Joinable):
                found.append(
                    JoinsWith(
                        **_facts(other),
                        why=join.why,
                        on=tuple(map(label_text, join.labels)),
                        share=join.share,
                        features=tuple(feature["name"] for feature in other["features"]),
                        signal=signal.get(other["digest"]),
                    )
                )
        return sorted(found, key=lambda one: (-one.share, one.name, one.id))

    def _reachable(self, corpus: Corpus | None, meetings: Meetings) -> dict[str, float]:
        """Packed sketches whose key can be looked up, those with the largest shares first, and their signal at that key."""
        if corpus is None:
            return {}
        ids = [(id, [meetings.meet(part) for part in id.split("+")]) for id in corpus.key_ids]
        joined = [(sum(max(one.share for one in met) for met in parts), id) for id, parts in ids if all(parts)]
        found: dict[str, float] = {}
        with suppress(FileNotFoundError):  # a shard was rewritten meanwhile: the next one who asks sees it
            for _, id in sorted(joined, reverse=True):
                found |= corpus.signal(id, most=LOOKED_AT)
                if len(found) >= LOOKED_AT:
                    break
        return dict(islice(found.items(), LOOKED_AT))

    def _met(self, digest: str, stamp: Stamp) -> tuple[Corpus | None, Meetings]:
        corpus = self._corpus.at(stamp)
        try:
            sketch, known = shown_feature(self._files, digest, None), KnownDomains.of(registry=self._registry)
        except TooLargeToShow:
            return corpus, Meetings([], corpus)
        parts = sketch.header.key.parts if sketch.header.key else ()
        own = [one for i, part in enumerate(parts) for one in OwnKeys.of(part.name, domain_of_part(sketch, i, known))]
        return corpus, Meetings(own, corpus)

    def finer(self, caller: Caller, dataset: dict[str, Any], *, limit: int) -> list[dict[str, Any]]:
        """Datasets whose keys lie within this one's, of lists that ship: by county, for one by state. Each with its reason.

        A request with such keys can look this dataset up; the other way round a key would have many values.
        """
        found: dict[str, dict[str, Any]] = {}
        for part in dataset["key"]["parts"] if dataset["key"] else ():
            for id in finer_lists(part["domain"]):
                why = f"its keys are {domain_name(id)}, which lie in those of {domain_name(part['domain'])}"
                listed = self._catalog.list(caller, Filter(domain=id), limit=limit)
                found |= {other["id"]: other | {"why": why} for other in map(json.loads, listed.items)}
        found.pop(dataset["id"], None)
        return [_facts(other) | {"why": other["why"]} for other in list(found.values())[:limit]]

    # -------------------------------------------------------------------------------------------- unions

    def _unions(self, caller: Caller, dataset: dict[str, Any], header: Header, limit: int) -> Iterator[UnionsWith]:
        """Datasets with the same features in the same units, whatever their key: their rows can be added."""
        wanted = {letters_of(feature.name) for feature in header.features}
        alike = self._catalog.addable(header.features[0].name)[:LOOKED_AT]
        found = read = 0
        for other in self._catalog.latest(caller, alike):
            has = {letters_of(feature["name"]) for feature in other["features"]}
            if not wanted <= has or other["id"] == dataset["id"] or found == limit:
                continue
            read += len(has) * (len(has) + 1) // 2
            if read > PRODUCTS:
                continue  # a smaller one may follow, but not for everybody to wait for
            with suppress(NotFound, InvalidSketch):
                union = match_union(
                    header.features,
                    stored_header(self._files, other["digest"]),
                    neighbours=header.protected_under,
                    keys=[part.keys_digest for part in header.key.parts] if header.key else None,
                )
                if isinstance(union, Addable):
                    found += 1
                    yield UnionsWith(**_facts(other), why=union.explain().removeprefix(f"{union.dataset}: "))


def _facts(other: dict[str, Any]) -> dict[str, Any]:
    facts = {name: other[name] for name in ("id", "provider", "name", "title", "rows", "digest")}
    return facts | {"key": None if other["key"] is None else other["key"]["name"]}
