"""Which public key domains a corpus speaks of, and which of them a column's values belong to.

Days and ranges of numbers spell themselves out in their id, and some vocabularies ship. Other domains come from a file that
someone gave (kept beside the corpus) or imported on this machine, and at the least their keys are written in every sketch;
what a sketch does not say is which coarser keys they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from saibot.client.keys import places_of
from saibot.domains import (
    DomainRegistry,
    KnownDomains,
    UnknownDomain,
    doubt,
    imported_domains,
    keys_digest,
    level_domain,
    named_domain,
)
from saibot.domains.domain import range_name
from saibot.domains.finding import registered
from saibot.domains.generated import PREFIXES
from saibot.domains.meaning import meaning
from saibot.domains.vocabularies import catalogue, shipped
from saibot.errors import InvalidDomain, InvalidSketch
from saibot.home import data_folder
from saibot.privatize.domain_file import read_domain
from saibot.search import Corpus
from saibot.search.from_sketches import domain_of_part
from saibot.search.key_maps import view_id
from saibot.search.units import KeyColumn
from saibot.sketch import KeyDomain, Sketch

LOOKED_AT = 1000  # of a column's commonest keys: a domain that has none of them is not looked at any further
FEW = 0.5  # a further domain must hold this share of the rows that the best one holds


@dataclass(frozen=True)
class DomainFit:
    """A domain that a column's values belong to: the share of rows it covers, and how many key domains it opens."""

    domain: KeyDomain
    coverage: float
    opens: frozenset[str]


class Domains:
    """The domains that are known where a corpus is searched: given ones, the corpus's own, and what its sketches list."""

    def __init__(self, corpus: Corpus | None, given: Iterable[KeyDomain] = ()) -> None:
        self._corpus = corpus
        self._given = tuple(given)

    @cached_property
    def registry(self) -> DomainRegistry | None:
        folder = self._corpus.folder / "domains" if self._corpus is not None else None
        return DomainRegistry(folder) if folder is not None and folder.is_dir() else None

    def of_part(self, sketch: Sketch, number: int = 0) -> KeyDomain:
        """The domain of a sketch's key part, with its coarser levels where anyone knows them."""
        return domain_of_part(sketch, number, self.known)

    @cached_property
    def known(self) -> KnownDomains:
        """Where the domain that a sketch names is looked for, beyond the sketch itself."""
        imported = imported_domains()
        known = KnownDomains.of(self._given, self.registry)
        return known if imported is None else KnownDomains((*known.sources, registered(imported)))

    def named(self, id: str) -> KeyDomain:
        """The domain with this id, the latest version of it."""
        found = [domain for domain in self.all if domain.id == id]
        if found:
            return max(found, key=lambda domain: domain.version)
        try:
            return named_domain(id)
        except UnknownDomain as problem:
            have = ", ".join(sorted({domain.id for domain in self.all})[:5])
            hint = f"The corpus speaks of {have}. {problem.hint}" if have else problem.hint
            raise InvalidDomain(f"no key domain {id!r} is known here.", hint=hint) from None

    @cached_property
    def all(self) -> tuple[KeyDomain, ...]:
        """Every domain, and every coarser level as one of its own; one for each list of keys, the richest."""
        found: dict[str, KeyDomain] = {}
        whole = tuple(self._whole())
        for domain in (*whole, *_finer({domain.id for domain in whole})):
            for one in (domain, *(level_domain(domain, name) for name, _ in domain.parents)):
                known = found.get(one.keys_digest)
                if known is None or len(known.parents) < len(one.parents):
                    found[one.keys_digest] = one
        return tuple(found.values())

    def _whole(self) -> Iterable[KeyDomain]:
        yield from self._given
        if self.registry is not None:
            for card in self.registry.entries():
                yield self.registry.get(card.id, card.version)
        if self._corpus is None:
            return
        for id in self._corpus.key_ids:
            for shard in islice(self._corpus.readable_shards(id), 1):
                digest = shard.cell("digest", 0) if len(shard) else ""
                try:
                    sketch = self._corpus.sketch(digest)
                except InvalidSketch:  # damaged since it was packed; its shard may still be searched with a card
                    continue
                for number in range(len(sketch.header.key.parts) if sketch.header.key else 0):
                    yield self.of_part(sketch, number)

    @cached_property
    def _ids_by_part(self) -> dict[str, frozenset[str]]:
        """For every part of a key in the corpus, the key domains that it is a part of."""
        found: dict[str, set[str]] = {}
        for id in self._corpus.key_ids if self._corpus is not None else ():
            for part in id.split("+"):
                found.setdefault(part, set()).add(id)
        return {part: frozenset(ids) for part, ids in found.items()}

    def fits(self, texts: Sequence[str], rows: np.ndarray) -> list[DomainFit]:
        """The domains that hold any of a column's keys, best first; `rows` counts the rows of each key text."""
        total = max(int(rows.sum()), 1)
        common = [texts[i] for i in np.argsort(-rows)[:LOOKED_AT]]
        found = []
        for domain in self.all:
            if len(texts) > LOOKED_AT and (places_of(common, domain) == len(domain)).all():
                continue
            places = places_of(texts, domain)
            coverage = float(rows[places < len(domain)].sum()) / total
            if coverage > 0:
                found.append(DomainFit(domain, coverage, opened(domain, self._ids_by_part)))
        return sorted(found, key=lambda fit: (not fit.opens, -fit.coverage, -len(fit.opens), len(fit.domain)))


def _finer(ids: Iterable[str]) -> Iterable[KeyDomain]:
    """The shipped vocabularies with a level that one of these domains lists: counties, where states are published."""
    published = {meaning(id) for id in ids}
    for vocabulary in catalogue().values():
        if vocabulary.id not in published and published & set(vocabulary.levels.values()):
            with suppress(InvalidDomain):  # its package is not installed
                yield vocabulary.domain


def import_domain_file(
    path: Path, *, id: str, version: int = 1, key: str | None = None, levels: Sequence[str] | None = None
) -> KeyDomain:
    """Check a file of keys and keep its domain on this machine, under an id that means these keys for good."""
    if id.startswith(PREFIXES) or shipped(id) is not None:
        raise InvalidDomain(
            f"{id!r} is a key domain that everybody knows already.", hint="Use it as it is, or choose another id."
        )
    domain = read_domain(path, id=id, version=version, key=key, levels=levels)
    DomainRegistry(data_folder() / "domains").register(domain)
    return domain


def doubt_of_guess(column: KeyColumn, domain: KeyDomain) -> str:
    """What to ask where a column's bare numbers were taken for those of a domain that is not called like it."""
    told = meaning(domain.id)
    names = (column.name.casefold(), column.column.casefold())
    if told is not None and any(told in name or name in told for name in names):
        return ""
    return doubt(column.name, domain.id, domain.values)


def opened(domain: KeyDomain, ids_by_part: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The key domains of a corpus that this one is part of the way to: some part of their key is a function of it."""
    levels = (domain.with_levels([name]).level_values(1) for name, _ in domain.parents)
    own = {view_id([domain.keys_digest]), *(view_id([keys_digest(values)]) for values in levels)}
    return frozenset().union(*(ids_by_part.get(part, frozenset()) for part in own))


def best_domains(name: str, column: str, fits: Sequence[DomainFit]) -> KeyColumn | None:
    """The domain that covers most of a column, then others of weight that open something new; None where none opens any.

    Where a range of numbers has the column's name, ranges of other names are something else.
    """
    names = {name.casefold(), column.casefold()}
    if any(range_name(fit.domain.id) in names for fit in fits):
        fits = [fit for fit in fits if range_name(fit.domain.id) in (None, *names)]
    chosen: list[KeyDomain] = []
    seen: set[str] = set()
    for fit in fits:
        if fit.opens - seen and fit.coverage >= FEW * fits[0].coverage:
            chosen.append(fit.domain)
            seen |= fit.opens
    return KeyColumn(name, column, tuple(chosen)) if chosen else None
