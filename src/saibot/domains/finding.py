"""Which keys a sketch's key domain has: one question, put to one source after the other.

A sketch names its domain by id, version and digests. Whoever knows that domain with its coarser levels is a source: domains
that somebody gave, ids that spell their keys out, a registry, a platform. What no source knows, the sketch itself lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from saibot.domains.domain import KeyDomain
from saibot.domains.generated import generated_domain
from saibot.domains.registry import DomainRegistry
from saibot.errors import InvalidDomain


class NamedDomain(Protocol):
    """What is said of a domain where it is only named: a part of a sketch's key."""

    @property
    def domain(self) -> str: ...

    @property
    def version(self) -> int: ...

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
        """Domains at hand first, then those that an id spells out (days, ranges of numbers), then those of a registry."""
        return cls((among(tuple(given)), spelled_out, *(() if registry is None else (registered(registry),))))

    def find(self, part: NamedDomain) -> KeyDomain | None:
        return next((found for source in self.sources if (found := source(part)) is not None), None)


def among(domains: tuple[KeyDomain, ...]) -> Source:
    """Domains that somebody gave: the very one, or else another with the same keys."""

    def find(part: NamedDomain) -> KeyDomain | None:
        same = [domain for domain in domains if domain.keys_digest == part.keys_digest]
        return next((domain for domain in same if domain.digest == part.digest), same[0] if same else None)

    return find


def spelled_out(part: NamedDomain) -> KeyDomain | None:
    """Days and ranges of numbers."""
    found = generated_domain(part.domain)
    return found if found is not None and found.keys_digest == part.keys_digest else None


def registered(registry: DomainRegistry) -> Source:
    """A folder of domain files."""

    def find(part: NamedDomain) -> KeyDomain | None:
        try:
            return registry.find(part.digest)
        except InvalidDomain:  # its file is damaged: the sketch itself still lists the keys
            return None

    return find
