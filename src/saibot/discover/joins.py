"""Which sketches can be joined with a request, and through which of its key columns.

A request's key has parts, and each part has public coarser levels. A sketch can be joined where every part of its key is a
public function of the request's: the same domain, a part of a composite key, a level of a part, or, by values, a domain that
holds enough of the request's keys although it goes by another name or version. A sketch offers its own coarser levels, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from math import prod

import numpy as np

from saibot.discover.columns import Column, Columns, Relation, RequestKey
from saibot.discover.domains import DomainSource
from saibot.discover.index import DomainIndex
from saibot.errors import InvalidInput
from saibot.sketch.domain import OTHER
from saibot.sketch.header import Header, KeyPart

MIN_COVERAGE = 0.5
MAX_OPTIONS = 100


@dataclass(frozen=True)
class ColumnMatch:
    """One key part of a sketch, and the column of the request that it is looked up with.

    `coverage`: the share of the column's keys that the sketch's domain has.
    """

    column: Column
    part: str
    domain: str
    relation: Relation
    coverage: float
    named_alike: bool

    @property
    def by_values(self) -> bool:
        """Nothing but some equal values speaks for the match: not the name, nor the whole list."""
        return not self.named_alike and self.relation != "same"

    def explain(self) -> str:
        how = {
            "same": "the same keys",
            "reordered": "the same keys in another order",
            "contains": "all keys and more",
            "near": f"{self.coverage:.1%} of the keys",
        }[self.relation]
        by = "" if self.named_alike else f" of {self.domain}"
        check = "; matched by values only: check that they mean the same" if self.by_values else ""
        return f"{self.column.label} ↔ {self.part} ({how}{by}{check})"


@dataclass(frozen=True)
class Join:
    """One way to join a sketch: its table of this key level, each key part looked up with a column of the request."""

    level: int
    level_name: str
    columns: tuple[ColumnMatch, ...]

    @property
    def coverage(self) -> float:
        """The share of the request's keys, over all combinations of parts, that the sketch has."""
        return prod(match.coverage for match in self.columns)

    @property
    def exact(self) -> bool:
        return all(match.relation != "near" for match in self.columns)

    @property
    def rank(self) -> tuple[bool, int, float, int]:
        """Smaller is better: by more than values, at a fine level of the sketch, with many of the request's keys."""
        by_values = any(match.by_values for match in self.columns)
        return by_values, self.level, -self.coverage, sum(match.column.level for match in self.columns)

    def explain(self) -> str:
        at = f" at its level {self.level_name}" if self.level else ""
        return " and ".join(match.explain() for match in self.columns) + at


@dataclass(frozen=True)
class Joinable:
    """A sketch with every way to join it, best first."""

    dataset: str
    digest: str | None
    joins: tuple[Join, ...]

    def explain(self) -> str:
        return f"{self.dataset}: {self.joins[0].explain()}"


@dataclass(frozen=True)
class NotJoinable:
    """A sketch that cannot be joined, and why."""

    dataset: str
    digest: str | None
    reason: str

    def explain(self) -> str:
        return f"{self.dataset}: {self.reason}"


class JoinFinder:
    """Matches sketches with one request; what is found out about a domain is remembered for the next sketch.

    `source` knows registered domains: without it, only domains that follow from the request's own, and days and ranges, can
    be matched. With `index`, domains that cannot reach `min_coverage` are not even read.
    """

    def __init__(
        self,
        request: RequestKey,
        *,
        source: DomainSource | None = None,
        index: DomainIndex | None = None,
        min_coverage: float = MIN_COVERAGE,
    ) -> None:
        if not 0 < min_coverage <= 1:
            raise InvalidInput(f"the least coverage of a join is a share in (0, 1], not {min_coverage}.")
        self.request = request
        self.min_coverage = min_coverage
        self._columns = Columns(request, source=source, index=index, min_coverage=min_coverage)

    def find(self, header: Header) -> Joinable | NotJoinable:
        """Every way to join this sketch, or the reason why there is none."""
        name, digest, key = header.dataset.name, header.digest, header.key
        if key is None:
            return NotJoinable(name, digest, "it has no key: it can be added to a table, not joined with one.")
        joins = [
            Join(level, level_name, columns)
            for level, level_name in enumerate(("", *key.levels))
            for columns in islice(self._assignments(key.parts, level_name), MAX_OPTIONS)
        ]
        good = sorted((join for join in joins if join.coverage >= self.min_coverage), key=lambda join: join.rank)
        if good:
            return Joinable(name, digest, tuple(good))
        return NotJoinable(name, digest, self._reason(key.parts, key.levels, joins))

    def _assignments(self, parts: tuple[KeyPart, ...], level_name: str) -> Iterator[tuple[ColumnMatch, ...]]:
        """Every way to give each key part of the sketch a column, no two of them from one part of the request."""
        for columns in product(*(self._matches(part, level_name) for part in parts)):
            if len({match.column.part for match in columns}) == len(parts):
                yield columns

    def _matches(self, part: KeyPart, level_name: str) -> list[ColumnMatch]:
        found = []
        for overlap in self._columns.overlaps(part, level_name):
            if overlap.coverage > 0 and not overlap.hopeless:
                label = f"{part.domain} v{part.version}" + (f", level {level_name}" if level_name else "")
                match = ColumnMatch(
                    overlap.column, part.name, label, overlap.relation, overlap.coverage, overlap.named_alike
                )
                found.append(match)
        return sorted(found, key=lambda match: (match.by_values, -match.coverage, match.column.level))

    def _reason(self, parts: tuple[KeyPart, ...], levels: tuple[str, ...], joins: list[Join]) -> str:
        if joins:
            closest = max(joins, key=lambda join: join.coverage)
            return f"{closest.explain()}: below the {self.min_coverage:.0%} that a join needs."
        mine = ", ".join(f"{part.id} v{part.version}" for part in self.request.parts)
        for part in parts:
            theirs = f"its key {part.name!r} ({part.domain} v{part.version})"
            seen = [overlap for name in ("", *levels) for overlap in self._columns.overlaps(part, name)]
            best = max(seen, key=lambda overlap: overlap.coverage, default=None)
            if best is None:
                return f"{theirs} is not the request's ({mine}), and nobody has registered which keys it has."
            if best.coverage == 0:
                return f"{theirs} shares no key with the request's ({mine})."
            if best.hopeless:
                about = f"about {best.coverage:.1%} of the keys of {best.column.label}"
                return f"{theirs} has {about}: below the {self.min_coverage:.0%} that a join needs."
        if len(parts) > len(self.request.parts):
            return (
                f"its key has {len(parts)} parts and the request's {len(self.request.parts)}: it is finer than the request."
            )
        return "two parts of its key would have to be looked up with one part of the request's."


def find_joins(
    request: RequestKey,
    headers: Iterable[Header],
    *,
    source: DomainSource | None = None,
    index: DomainIndex | None = None,
    min_coverage: float = MIN_COVERAGE,
) -> list[Joinable | NotJoinable]:
    """For every sketch, in order, how it can be joined, or why not."""
    finder = JoinFinder(request, source=source, index=index, min_coverage=min_coverage)
    return [finder.find(header) for header in headers]


def row_index(join: Join, request: RequestKey, keys: tuple[np.ndarray, ...]) -> np.ndarray:
    """For every key of the request, then its catch-all: the row of the sketch's level table that it meets.

    `keys` are the key columns of that table. A composite key's first part varies slowest, on both sides. Keys that the
    sketch does not have, and the request's catch-all, meet the sketch's catch-all, its last row.
    """
    if len(keys) != len(join.columns) or any(len(column) == 0 or column[-1] != OTHER for column in keys):
        raise InvalidInput("these are not the key columns of the sketch's table.")
    other = len(keys[0]) - 1
    shape = [len(part) for part in request.parts]
    size = 1
    rows = np.zeros([1] * len(shape), np.int64)
    missing = np.zeros([1] * len(shape), bool)
    for match, column in zip(join.columns, keys, strict=True):
        own = {key: i for i, key in enumerate(dict.fromkeys(column[:-1].tolist()))}
        looked = request.lookups(match.column)
        places = np.array([own.get(key, -1) for key in looked], np.int64)
        along = [len(places) if axis == match.column.part else 1 for axis in range(len(shape))]
        size *= len(own)
        rows = rows * len(own) + np.maximum(places, 0).reshape(along)
        missing = missing | (places < 0).reshape(along)
    if size != other:
        raise InvalidInput("the sketch's table does not hold every combination of its key parts.")
    flat = np.broadcast_to(np.where(missing, other, rows), shape).ravel()
    return np.append(flat, other)
