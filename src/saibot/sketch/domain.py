"""Public key domains: which keys there are, in which order, and which coarser keys they belong to.

A domain is public by definition. It is written down before any row is read, every key of it is released whether it occurs
or not, and rows with any other key go to one catch-all. That a key occurs at all is thereby protected.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property

import numpy as np

from saibot.errors import InvalidDomain

OTHER = "__other__"
MAX_KEYS = 5_000_000


def normal_key(text: str) -> str:
    """Keys are NFC text without surrounding white space; case is kept."""
    return unicodedata.normalize("NFC", text).strip()


@dataclass(frozen=True)
class KeyDomain:
    """A named, versioned, ordered set of keys with their nested parents (finest level first)."""

    id: str
    version: int
    values: tuple[str, ...]
    parents: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())  # (level name, parent of every key)

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
        finer = self.values
        for level, parents in self.parents:
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
        """All days from first to last, with the month and the year as coarser levels on offer."""
        if last < first or (last - first).days >= MAX_KEYS:
            raise InvalidDomain(f"the dates {first} to {last} are no range of days.")
        days = tuple((first + timedelta(n)).isoformat() for n in range((last - first).days + 1))
        parents = (("month", tuple(d[:7] for d in days)), ("year", tuple(d[:4] for d in days)))
        return cls(f"dates:{first}:{last}", 1, days, parents)

    @classmethod
    def of_range(cls, first: int, last: int) -> KeyDomain:
        """All whole numbers from first to last."""
        if last < first or last - first >= MAX_KEYS:
            raise InvalidDomain(f"{first} to {last} is no range of whole numbers.")
        return cls(f"range:{first}:{last}", 1, tuple(str(n) for n in range(first, last + 1)))

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def index(self) -> dict[str, int]:
        return {value: i for i, value in enumerate(self.values)}

    @cached_property
    def digest(self) -> str:
        """sha256 of values and parents in order: two parties with the same digest mean the same keys in the same order."""
        sha = hashlib.sha256()
        for name, column in (("", self.values), *self.parents):
            sha.update(f"{name}\x1f{len(column)}\x1e".encode())
            sha.update("\x1f".join(column).encode())
        return sha.hexdigest()

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.parents)

    def with_levels(self, names: Sequence[str]) -> KeyDomain:
        """The same keys with only these coarser levels, fine to coarse."""
        known = dict(self.parents)
        missing = [name for name in names if name not in known]
        if missing:
            raise InvalidDomain(
                f"the key domain {self.id!r} has no level {missing[0]!r}.",
                hint=f"It has {', '.join(known) or 'none'}.",
            )
        return KeyDomain(self.id, self.version, self.values, tuple((name, known[name]) for name in names))

    def level_values(self, level: int) -> tuple[str, ...]:
        """The keys of a level: 0 the domain itself, 1 its first parents in order of appearance, and so on."""
        return self.values if level == 0 else tuple(dict.fromkeys(self.parents[level - 1][1]))

    def parent_index(self, level: int) -> np.ndarray:
        """For every key of level 0, then the catch-all: its row among `level_values(level)`, then the catch-all's."""
        keys = self.level_values(level)
        if level == 0:
            return np.arange(len(keys) + 1)
        position = {key: i for i, key in enumerate(keys)}
        return np.array([*(position[parent] for parent in self.parents[level - 1][1]), len(keys)])


def _check_nested(id: str, level: str, finer: tuple[str, ...], parents: tuple[str, ...]) -> None:
    if len(parents) != len(finer):
        raise InvalidDomain(f"level {level!r} of the key domain {id!r} does not give every key a parent.")
    if OTHER in parents or "" in parents:
        raise InvalidDomain(f"level {level!r} of the key domain {id!r} holds an empty or reserved parent.")
    chosen: dict[str, str] = {}
    for key, parent in zip(finer, parents, strict=True):
        if chosen.setdefault(key, parent) != parent:
            raise InvalidDomain(
                f"level {level!r} of the key domain {id!r} is not nested: a key of the finer level has two parents.",
                hint="Name the levels from fine to coarse; each key belongs to exactly one parent.",
            )
