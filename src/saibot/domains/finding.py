"""Which keys a sketch's key domain has: one question, put to one source after the other.

A sketch names its domain by id, version and digests. Whoever knows that domain with its coarser levels is a source: domains
that somebody gave, ids that spell their keys out, vocabularies that ship, a registry, a platform. What no source knows, the
sketch itself lists. A card may name a domain by its id alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from saibot.domains.domain import FOUND, KeyDomain, range_name
from saibot.domains.errors import UnknownDomain
from saibot.domains.generated import PREFIXES, generated_domain
from saibot.domains.registry import DomainRegistry
from saibot.domains.vocabularies import catalogue, shipped
from saibot.errors import InvalidDomain
from saibot.home import data_folder


class NamedDomain(Protocol):
    """What is said of a domain where it is only named: a part of a sketch's key."""

    @property
    def domain(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def digest(self) -> str: ...

    @property
    def keys_digest(self) -> str: ...


Source = Callable[[NamedDomain], KeyDomain | None]
"""Gives the very domain that is named, or one with the same keys in the same order; None where it knows of none."""


@dataclass(frozen=True)
class KnownDomains:
    """`find` asks source after source."""

    sources: tuple[Source, ...]

    @classmethod
    def of(cls, given: Iterable[KeyDomain] = (), registry: DomainRegistry | None = None) -> KnownDomains:
        """Domains at hand first, then those that an id spells out, those of a registry, and those that ship.

        What ships comes last because some packages take seconds to read; by its digest it is the same domain anywhere.
        """
        kept = () if registry is None else (registered(registry),)
        return cls((among(tuple(given)), spelled_out, *kept, shipped_vocabulary))

    def find(self, part: NamedDomain) -> KeyDomain | None:
        return next((found for source in self.sources if (found := source(part)) is not None), None)


def among(domains: tuple[KeyDomain, ...]) -> Source:
    """Domains that somebody gave: the very one, or else another with the same keys."""

    def find(part: NamedDomain) -> KeyDomain | None:
        same = [domain for domain in domains if domain.keys_digest == part.keys_digest]
        return next((domain for domain in same if domain.digest == part.digest), same[0] if same else None)

    return find


def spelled_out(part: NamedDomain) -> KeyDomain | None:
    """Days, weeks, months, years and ranges of numbers."""
    found = generated_domain(part.domain, size=part.size)
    return found if found is not None and found.keys_digest == part.keys_digest else None


def shipped_vocabulary(part: NamedDomain) -> KeyDomain | None:
    """Countries, regions, diagnoses and the like, where their package is installed."""
    found = shipped(part.domain, part.version)
    try:
        return found.domain if found is not None and found.domain.keys_digest == part.keys_digest else None
    except InvalidDomain:  # no package, or another edition: the sketch itself still lists the keys
        return None


def registered(registry: DomainRegistry) -> Source:
    """A folder of domain files."""

    def find(part: NamedDomain) -> KeyDomain | None:
        try:
            return registry.find(part.digest)
        except InvalidDomain:  # its file is damaged: the sketch itself still lists the keys
            return None

    return find


def imported_domains() -> DomainRegistry | None:
    """The domains that were imported on this machine (`saibot domains import`), if there are any."""
    folder = data_folder() / "domains"
    return DomainRegistry(folder) if folder.is_dir() else None


def found_domain(registry: DomainRegistry, name: str, version: int) -> KeyDomain | None:
    """The list of keys that was found in rows under this name, if this registry has one."""
    for card in registry.entries():
        if card.id.startswith(FOUND) and card.version == version and range_name(card.id) == name:
            return registry.get(card.id, version)
    return None


def named_domain(id: str, version: int | None = None) -> KeyDomain:
    """The domain that an id alone names: one that it spells out, one that ships, or one imported on this machine."""
    generated = generated_domain(id)
    if generated is not None:
        return generated
    if (vocabulary := shipped(id, version)) is not None:
        return vocabulary.domain
    if (imported := imported_domains()) is not None and any(card.id == id for card in imported.entries()):
        return imported.get(id, version)
    if (other := shipped(id)) is not None:
        raise UnknownDomain(f"{id!r} version {version}", hint=f"Version {other.version} ships with Saibot.")
    raise UnknownDomain(repr(id), hint=_how_to_name(id))


def _how_to_name(id: str) -> str:
    if id.startswith(PREFIXES):
        forms = "dates:2013-01-01:2013-12-31, weeks:2013-W01:2013-W52, months:2013-01:2013-12, years:2010:2019"
        return f"Domains that spell themselves out are written {forms}, range:1:15 or range:department:1:15."
    near = [other for other in catalogue() if id in other or other in id]
    known = f"There is {', '.join(near[:3])}. " if near else ""
    return f"{known}`saibot domains list` shows those that ship, `saibot domains import` adds a list of your own."
