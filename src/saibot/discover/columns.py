"""The key columns of a request, and how much of each of them another domain holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from saibot.discover.domain_file import keys_at, names_of
from saibot.discover.domains import DomainSource, generated_domain
from saibot.discover.errors import UnknownDomain
from saibot.discover.index import Answer, DomainIndex
from saibot.errors import InvalidDomain, InvalidInput
from saibot.sketch.domain import KeyDomain, keys_digest
from saibot.sketch.header import Header, KeyPart

Relation = Literal["same", "reordered", "contains", "near"]


@dataclass(frozen=True)
class Column:
    """A part of the request's key (level 0), or one of its parents, numbered as its domain lists them."""

    part: int
    level: int
    label: str


@dataclass(frozen=True)
class RequestKey:
    """The request's key: for each part a name and its public domain, with every parent it has, in use or not."""

    names: tuple[str, ...]
    parts: tuple[KeyDomain, ...]

    def __post_init__(self) -> None:
        if not self.parts or len(self.names) != len(self.parts):
            raise InvalidInput("a request's key needs at least one part, and a name for each.")

    @classmethod
    def of(cls, **parts: KeyDomain) -> RequestKey:
        """`RequestKey.of(origin=airports, day=days)`."""
        return cls(tuple(parts), tuple(parts.values()))

    @classmethod
    def of_header(cls, header: Header, source: DomainSource) -> RequestKey:
        """The key of a private request's sketch. Its domain brings all its parents, also those that were not released."""
        if header.key is None:
            raise InvalidInput("the request's sketch has no key, so nothing can be joined with it.", hint="Give it --key.")
        parts = []
        for part in header.key.parts:
            domain = _resolve(part, source)
            if domain is None:
                raise UnknownDomain(
                    f"{part.domain!r} version {part.version} with digest {part.digest[:12]}…",
                    hint="Register the domain of the request's key.",
                )
            parts.append(domain)
        return cls(tuple(part.name for part in header.key.parts), tuple(parts))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(
            Column(i, level, name if level == 0 else f"{name}.{parent}")
            for i, (name, domain) in enumerate(zip(self.names, self.parts, strict=True))
            for level, parent in enumerate(names_of(domain))
        )

    def keys(self, column: Column) -> tuple[str, ...]:
        """The different keys of a column, in order."""
        return keys_at(self.parts[column.part], column.level)

    def lookups(self, column: Column) -> tuple[str, ...]:
        """For every key of the column's part, what it is in the column."""
        domain = self.parts[column.part]
        return domain.values if column.level == 0 else domain.parents[column.level - 1][1]


@dataclass(frozen=True)
class Overlap:
    """How much of a column's keys another set holds.

    `same` keys in the same order, `reordered`, `contains` more keys than asked for, or `near`: some are missing.
    """

    column: Column
    relation: Relation
    coverage: float
    named_alike: bool  # the two go by one domain name
    hopeless: bool = False  # the samples rule out that it covers enough: the coverage is an estimate


class Columns:
    """Compares domains with the columns of one request, each of them once."""

    def __init__(
        self, request: RequestKey, *, source: DomainSource | None, index: DomainIndex | None, min_coverage: float
    ) -> None:
        self.request = request
        self._source, self._index, self._min_coverage = source, index, min_coverage
        self._keys = {column: frozenset(request.keys(column)) for column in request.columns}
        self._resolved: dict[str, KeyDomain | None] = {}
        self._found: dict[tuple[str, str, str], tuple[Overlap, ...]] = {}
        self._answers: dict[Column, Answer] = {}

    def overlaps(self, part: KeyPart, level_name: str) -> tuple[Overlap, ...]:
        """The sketch's key part, or its coarser level of that name, against every column of the request.

        Empty where nobody can say which keys it has.
        """
        memo = (part.digest, part.domain, level_name)
        if memo not in self._found:
            self._found[memo] = tuple(self._compare(part, level_name))
        return self._found[memo]

    def _compare(self, part: KeyPart, level_name: str) -> list[Overlap]:
        hopeless = self._ruled_out(part, level_name)
        if hopeless is not None:
            return hopeless
        domain = self._domain(part)
        if domain is None or level_name not in names_of(domain):
            return []
        theirs = keys_at(domain, names_of(domain).index(level_name))
        held = frozenset(theirs)
        found = []
        for column in self.request.columns:
            own = self._keys[column]
            shared = len(own & held)
            relation: Relation = "near"
            if shared == len(own):
                same = self.request.keys(column) == theirs
                relation = "same" if same else "reordered" if len(held) == shared else "contains"
            alike = _same_name(self.request.parts[column.part], column.level, part.domain, level_name)
            found.append(Overlap(column, relation, shared / len(own), alike))
        return found

    def _ruled_out(self, part: KeyPart, level_name: str) -> list[Overlap] | None:
        """Estimated overlaps where the samples show that none can be enough; None where the keys must be compared."""
        if self._index is None or self._source is None:
            return None
        card = self._source.entry(part.digest)
        number = None if card is None else self._index.number_of(card.id, card.version, level_name)
        if number is None:
            return None
        estimates = []
        for column in self.request.columns:
            answer = self._answers.get(column) or self._index.ask(self.request.keys(column))
            self._answers[column] = answer
            found = answer.of_number(number)
            if found is None or found.upper >= self._min_coverage:
                return None
            estimates.append(Overlap(column, "near", found.value, False, hopeless=True))
        return estimates

    def _domain(self, part: KeyPart) -> KeyDomain | None:
        if part.digest not in self._resolved:
            own = next((domain for domain in self.request.parts if domain.digest == part.digest), None)
            self._resolved[part.digest] = own or _resolve(part, self._source) or self._own_keys(part)
        return self._resolved[part.digest]

    def _own_keys(self, part: KeyPart) -> KeyDomain | None:
        """The keys of the part, parents unknown, if they are those of one of the request's columns."""
        for column in self.request.columns:
            keys = self.request.keys(column)
            if len(keys) == part.size and keys_digest(keys) == part.keys_digest:
                return KeyDomain(part.domain, part.version, keys)
        return None


def _same_name(mine: KeyDomain, level: int, domain: str, level_name: str) -> bool:
    """Whether a domain and level go by the request's own name. All days are days, from whichever to whichever."""
    days = mine.id.startswith("dates:") and domain.startswith("dates:")
    return (days or mine.id == domain) and names_of(mine)[level] == level_name


def _resolve(part: KeyPart, source: DomainSource | None) -> KeyDomain | None:
    """The keys of a part: days and ranges say themselves which they are, others are looked up by their digest."""
    generated = generated_domain(part.domain)
    if generated is not None and generated.digest == part.digest:
        return generated
    if source is None:
        return None
    try:
        found = source.find(part.digest) or source.find(part.keys_digest)
    except InvalidDomain:  # its file is damaged: the registry says so to whoever keeps it
        return None
    if found is not None and found.digest != part.digest:
        return replace(found, parents=(), level_names=())  # the same keys; what their parents are is not known
    return found
