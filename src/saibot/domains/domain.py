"""Public key domains: which keys there are, in which order, and which coarser keys they belong to.

A domain is public by definition. It is written down before any row is read, every key of it is released whether it occurs
or not, and rows with any other key go to one catch-all. That a key occurs at all is thereby protected.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property

import numpy as np

from saibot.domains.spelling import folded, normal_key, spellings
from saibot.domains.times import reading, week_of
from saibot.errors import InvalidDomain

OTHER = "__other__"
_SEPARATOR = "\x1f"
MAX_KEYS = 5_000_000
LARGE = 100_000  # keys
FOUND = "found:"
RANGE_NAME = "[a-z][a-z0-9_-]{0,39}"  # what the numbers of a range count: `department`
_NAMED = re.compile(rf"range:({RANGE_NAME}):-?[0-9]+:-?[0-9]+|{FOUND}({RANGE_NAME}):[0-9a-f]{{8}}")
_WEEK = "week"
_YEARS = re.compile(r"years:[0-9]{4}:[0-9]{4}")


@dataclass(frozen=True)
class KeyDomain:
    """A named, versioned, ordered set of keys, with the coarser keys that each belongs to.

    `parents` lists every coarser level on offer; `level_names` those in use, fine to coarse, which must be nested.
    """

    id: str
    version: int
    values: tuple[str, ...]
    parents: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (level name, parent of every key)
    level_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidDomain(f"the key domain {self.id!r} is empty.")
        if len(self.values) > MAX_KEYS:
            raise InvalidDomain(f"the key domain {self.id!r} has more than {MAX_KEYS:,} keys.")
        if not self.id or self.version < 1:
            raise InvalidDomain("a key domain needs an id and a version of at least 1.")
        if OTHER in self.values or "" in self.values:
            raise InvalidDomain(f"the key domain {self.id!r} holds an empty key or the reserved key {OTHER!r}.")
        if len(set(self.values)) != len(self.values):
            raise InvalidDomain(f"the key domain {self.id!r} holds a key twice.", hint="Each key stands in it once.")
        if any(_SEPARATOR in text for _, texts in (("", self.values), *self.parents) for text in texts):
            raise InvalidDomain(f"the key domain {self.id!r} holds the control character that its digest separates keys by.")
        for level, parents in self.parents:
            if len(parents) != len(self.values) or OTHER in parents or "" in parents:
                raise InvalidDomain(f"level {level!r} of the key domain {self.id!r} does not give every key a parent.")
        finer = self.values
        for level in self.level_names:
            parents = self._parents_at(level)
            _check_nested(self.id, level, finer, parents)
            finer = parents

    @classmethod
    def of(
        cls, id: str, values: Sequence[str], *, version: int = 1, parents: Mapping[str, Sequence[str]] | None = None
    ) -> KeyDomain:
        """A domain from lists; keys and parents are brought to their normal form."""
        coarser = tuple((name, tuple(map(normal_key, column))) for name, column in (parents or {}).items())
        return cls(id, version, tuple(map(normal_key, values)), coarser)

    @classmethod
    def of_dates(cls, first: date, last: date) -> KeyDomain:
        """All days from first to last, with month, year and (ISO) week as coarser levels on offer."""
        if last < first or (last - first).days >= MAX_KEYS:
            raise InvalidDomain(f"the dates {first} to {last} are no range of days.")
        dates = [first + timedelta(n) for n in range((last - first).days + 1)]
        days, weeks = tuple(day.isoformat() for day in dates), tuple(map(week_of, dates))
        seen: dict[str, str] = {}  # each text once in memory, not once for every day
        months, years, weeks = (tuple(seen.setdefault(text, text) for text in column) for column in (
            (d[:7] for d in days), (d[:4] for d in days), weeks
        ))  # fmt: skip
        return cls(f"dates:{first}:{last}", 1, days, (("month", months), ("year", years), (_WEEK, weeks)))

    @classmethod
    def of_range(cls, first: int, last: int, *, of: str | None = None) -> KeyDomain:
        """All whole numbers from first to last; `of` says what they count, and sets them apart from other numbers."""
        if last < first or last - first >= MAX_KEYS:
            raise InvalidDomain(f"{first} to {last} is no range of whole numbers.")
        if of is not None and not re.fullmatch(RANGE_NAME, of):
            raise InvalidDomain(
                f"a range of whole numbers cannot be called {of!r}.",
                hint="Name what is counted in small letters, digits, dashes or underscores, such as `department`.",
            )
        name = "" if of is None else f"{of}:"
        return cls(f"range:{name}{first}:{last}", 1, tuple(str(n) for n in range(first, last + 1)))

    @classmethod
    def of_found(cls, name: str, values: Sequence[str], *, version: int = 1) -> KeyDomain:
        """Keys that were found in the rows of a table. Others find other keys, so the id tells the list as well."""
        keys = tuple(sorted(values))
        return cls(f"{FOUND}{name}:{keys_digest(keys)[:8]}", version, keys)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def index(self) -> dict[str, int]:
        return {value: i for i, value in enumerate(self.values)}

    @cached_property
    def _other_spellings(self) -> dict[str, int]:
        return self._spelled(None)

    @cached_property
    def _folded(self) -> dict[str, int]:
        return self._folds(None)

    def _spelled(self, wanted: Set[str] | None) -> dict[str, int]:
        """Spellings of keys that are no key themselves and belong to one key only; if only some are `wanted`, only those.

        Wanted are texts that are no key.
        """
        found: dict[str, int] = {}
        shared: set[str] = set()
        for i, value in enumerate(self.values):
            for form in spellings(value):
                strange = form not in self.index if wanted is None else form in wanted
                if strange and found.setdefault(form, i) != i:
                    shared.add(form)
        return {form: i for form, i in found.items() if form not in shared}

    def _folds(self, wanted: Set[str] | None) -> dict[str, int]:
        """The keys with case and zeros in front left out, where that leaves one key only; those of `wanted` folds."""
        found: dict[str, int] = {}
        shared: set[str] = set()
        for i, value in enumerate(self.values):
            form = folded(value)
            if (wanted is None or form in wanted) and found.setdefault(form, i) != i:
                shared.add(form)
        return {form: i for form, i in found.items() if form not in shared}

    def places(self, texts: Sequence[str], *, once: bool = False) -> np.ndarray:
        """For every key text its place in the domain, -1 outside it. What one text means depends on no other.

        The key itself comes first, then another spelling of exactly one key, then one that differs from exactly one key in
        case or in zeros in front alone, and of a day or a time, where the keys are months or the like, the one it lies in.
        `once`: of a large domain nothing is kept for the next call. All spellings of a million keys take a gigabyte.
        """
        read, passing = reading(self.id), once and len(self) > LARGE
        if passing:
            asked = {*texts, *(map(read, texts) if read is not None else ())}
            index = {value: i for i, value in enumerate(self.values) if value in asked}
        else:
            index = self.index
        found = [index.get(text, -1) for text in texts]
        missed = [i for i, place in enumerate(found) if place < 0 and texts[i]]
        others, folds = dict[str, int](), dict[str, int]()
        if missed and passing:
            strange = {texts[i] for i in missed}
            others, folds = self._spelled(strange), self._folds(set(map(folded, strange)))
        elif missed:
            others, folds = self._other_spellings, self._folded
        for i in missed:
            place = others.get(texts[i], -1)
            found[i] = place if place >= 0 else folds.get(folded(texts[i]), -1)
        if read is not None:
            for i in missed:
                found[i] = found[i] if found[i] >= 0 else index.get(read(texts[i]), -1)
        return np.array(found, np.int64)

    @cached_property
    def digest(self) -> str:
        """sha256 of values and all parents in order: the same file gives the same digest, whatever levels are in use.

        Days had digests before they had weeks, which follow from them.
        """
        sha = hashlib.sha256()
        parents = [one for one in self.parents if one[0] != _WEEK or not self.id.startswith("dates:")]
        for name, column in (("", self.values), *parents):
            sha.update(f"{name}\x1f{len(column)}\x1e".encode())
            sha.update(_SEPARATOR.join(column).encode())
        return sha.hexdigest()

    @cached_property
    def keys_digest(self) -> str:
        """sha256 of the keys alone, in order: two domains with the same one join key by key.

        Numbers of a named range are keys of that name: departments 1 to 15 are not communes 1 to 15.
        """
        name = range_name(self.id)
        return keys_digest(self.values if name is None else (f"range:{name}", *self.values))

    def with_levels(self, names: Sequence[str]) -> KeyDomain:
        """The same keys with these coarser levels in use, fine to coarse."""
        return replace(self, level_names=tuple(names))

    def level_values(self, level: int) -> tuple[str, ...]:
        """The keys of a level: 0 the domain itself, 1 its first parents in order of appearance, and so on."""
        return self.values if level == 0 else tuple(dict.fromkeys(self._parents_at(self.level_names[level - 1])))

    def parent_index(self, level: int) -> np.ndarray:
        """For every key of level 0, then the catch-all: its row among `level_values(level)`, then the catch-all's."""
        keys = self.level_values(level)
        if level == 0:
            return np.arange(len(keys) + 1)
        position = {key: i for i, key in enumerate(keys)}
        return np.array([*(position[parent] for parent in self._parents_at(self.level_names[level - 1])), len(keys)])

    def _parents_at(self, level: str) -> tuple[str, ...]:
        for name, parents in self.parents:
            if name == level:
                return parents
        have = ", ".join(name for name, _ in self.parents) or "none"
        raise InvalidDomain(f"the key domain {self.id!r} has no level {level!r}.", hint=f"It has {have}.")


def level_domain(domain: KeyDomain, level: str) -> KeyDomain:
    """A coarser level as a domain of its own, with the levels above it."""
    names = [name for name, _ in domain.parents]
    columns = dict(domain.parents)
    first = {parent: i for i, parent in reversed(list(enumerate(columns[level])))}
    values = tuple(dict.fromkeys(columns[level]))
    above = []
    for name in names[names.index(level) + 1 :]:
        if all(columns[name][i] == columns[name][first[parent]] for i, parent in enumerate(columns[level])):
            above.append((name, tuple(columns[name][first[value]] for value in values)))
    return KeyDomain(f"{domain.id}.{level}", domain.version, values, tuple(above))


def range_name(id: str) -> str | None:
    """What the numbers of a range count: `department` of `range:department:1:15`; None of `range:1:15` and other ids.

    Years are a range as well, `years:2010:2019`. Keys that were found in rows are called by their provider in the same way.
    """
    match = _NAMED.fullmatch(id)
    return match[1] or match[2] if match is not None else "year" if _YEARS.fullmatch(id) else None


def keys_digest(values: Sequence[str]) -> str:
    return hashlib.sha256(_SEPARATOR.join(values).encode()).hexdigest()


def _check_nested(id: str, level: str, finer: tuple[str, ...], parents: tuple[str, ...]) -> None:
    chosen: dict[str, str] = {}
    for key, parent in zip(finer, parents, strict=True):
        if chosen.setdefault(key, parent) != parent:
            raise InvalidDomain(
                f"level {level!r} of the key domain {id!r} is not nested: a key of the finer level has two parents.",
                hint="Name the levels from fine to coarse; each key belongs to exactly one parent.",
            )
