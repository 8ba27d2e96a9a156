"""Which rows of a provider's domain the request's keys belong to.

A request has one finest key, possibly composite. A provider whose key is that key, some of its parts, or a coarser level of
a part, can be joined: its key is a public function of the request's. A view is that function, as an index array. Keys are
the same where their texts are: two lists of them may differ in order, in length and in spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from saibot.discover.joins import KeyLists, Meeting, Meetings, OwnKeys, part_id
from saibot.sketch import Key, KeyDomain


@dataclass(frozen=True)
class RequestKey:
    """The request's finest keys: for each of D keys its place in every part's domain (the domain's size: outside it)."""

    parts: tuple[tuple[str, KeyDomain], ...]
    places: np.ndarray  # (D, parts)

    @classmethod
    def product(cls, parts: Sequence[tuple[str, KeyDomain]]) -> RequestKey:
        """All combinations of the parts' keys, then one catch-all: the rows of a sketch with this key."""
        sizes = [len(domain) for _, domain in parts]
        grid = np.indices(sizes).reshape(len(sizes), -1).T
        return cls(tuple(parts), np.vstack([grid, sizes]))

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True)
class View:
    """A domain that the request can be joined on, and the place of each finest key in it.

    `parts` says how: for each part of the provider's key the request's part, and its level where it is a coarser one. `note`
    says what people should know: the provider lists other keys than the request, or writes them otherwise.
    """

    parts: tuple[tuple[str, str | None], ...]
    index: np.ndarray  # (D,), values in 0..size-1, the last for keys outside
    size: int
    note: str = ""

    @property
    def name(self) -> str:
        """For people: `day`, `school.district`, or several with commas."""
        return ", ".join(part if level is None else f"{part}.{level}" for part, level in self.parts)


def view_id(digests: Sequence[str]) -> str:
    """The identity of a (composite) key domain in a corpus: its parts' key digests, in order."""
    return "+".join(map(part_id, digests))


def key_id(key: Key) -> str:
    return view_id([part.keys_digest for part in key.parts])


@dataclass(frozen=True)
class _Column:
    """A part of the request's key, or a coarser level of one: its label, and the place of each finest key in its domain."""

    label: tuple[str, str | None]
    place: np.ndarray
    size: int
    note: str = ""


class Views:
    """Finds the views that a request has on a provider's key. Two parts with one domain (from, to) give a view each.

    Lists of keys that differ from the request's meet it as far as `lists` knows them (see `saibot.discover.joins`): keys
    that they do not have are looked up as outside.
    """

    def __init__(self, key: RequestKey, lists: KeyLists | None = None) -> None:
        self._key = key
        own: list[OwnKeys] = []
        self._places: list[np.ndarray] = []  # of each finest key in each of them
        for number, (name, domain) in enumerate(key.parts):
            place = key.places[:, number]
            own += OwnKeys.of(name, domain)
            self._places.append(place)
            self._places += [domain.with_levels([level]).parent_index(1)[place] for level, _ in domain.parents]
        self._meetings = Meetings(own, lists)
        self._columns: dict[str, tuple[_Column, ...]] = {}

    def find(self, id: str) -> View | None:
        """The first view on a corpus's key id, or None: some part of that key is no function of the request's."""
        return next(iter(self.find_all(id)), None)

    def find_all(self, id: str) -> list[View]:
        """Every view on a key id: each part of that key looked up with another column of the request's."""
        options = [self._met(part) for part in id.split("+")]
        return [self._view(chosen) for chosen in product(*options) if len({c.label for c in chosen}) == len(chosen)]

    def all_of(self, ids: Iterable[str]) -> dict[str, list[View]]:
        return {id: found for id in ids if (found := self.find_all(id))}

    def why_not(self, id: str) -> str:
        """Why there is no view on a key id, for people."""
        reasons = dict.fromkeys(self._meetings.why_not(part) for part in id.split("+") if not self._met(part))
        return "; ".join(reasons) or "it has two parts that only one column of the request's fits"

    # -------------------------------------------------------------------------------------------- inside

    def _met(self, part: str) -> tuple[_Column, ...]:
        """The request's columns that can be looked up in a list of keys, one for each part of its key."""
        if part not in self._columns:
            self._columns[part] = tuple(self._column(meeting, part) for meeting in self._meetings.meet(part))
        return self._columns[part]

    def _column(self, meeting: Meeting, part: str) -> _Column:
        own, place, met = self._meetings.own[meeting.own], self._places[meeting.own], meeting.alignment
        if met is None:
            return _Column(own.label, place, len(own.keys), self._meetings.doubt(meeting, part))
        return _Column(own.label, np.append(met.places, met.size)[place], met.size, self._meetings.explain(meeting, part))

    def _view(self, columns: tuple[_Column, ...]) -> View:
        total = int(np.prod([column.size for column in columns]))
        index = np.zeros(len(self._key), np.int64)
        outside = np.zeros(len(self._key), bool)
        for column in columns:
            outside |= column.place >= column.size
            index = index * column.size + np.minimum(column.place, column.size - 1)
        note = "; ".join(column.note for column in columns if column.note)
        return View(tuple(column.label for column in columns), np.where(outside, total, index), total + 1, note)
