"""Which rows of a provider's domain the request's keys belong to.

A request has one finest key, possibly composite. A provider whose key is that key, some of its parts, or a coarser level of
a part, can be joined: its key is a public function of the request's. A view is that function, as an index array. Keys are
the same where their texts are: two lists of them may differ in order, in length and in spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from saibot.domains import align, keys_digest
from saibot.domains.minhash import most_shared, signature
from saibot.search.key_lists import KeyLists, part_id
from saibot.sketch import Key, KeyDomain

LEAST = 0.1  # of the request's keys: below, a list of keys is somebody else's


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


@dataclass(frozen=True)
class _Own:
    """The same with the keys that it stands for."""

    column: _Column
    name: str  # of the domain, for people
    keys: tuple[str, ...]

    @cached_property
    def signature(self) -> np.ndarray:
        return signature(self.keys)


class Views:
    """Finds the views that a request has on a provider's key. Two parts with one domain (from, to) give a view each.

    The same keys in the same order are the same domain. Other lists of keys are met key by key, by their text, as far as
    `lists` knows them and they have at least a tenth of the request's keys: what they do not have is looked up as outside.
    """

    def __init__(self, key: RequestKey, lists: KeyLists | None = None) -> None:
        self._key, self._lists = key, lists
        self._own: list[_Own] = []
        self._options: dict[str, dict[str, _Column]] = {}  # by the digest of the domain's keys, then by part
        self._strange: dict[str, str] = {}  # why nothing of the request meets a list of keys
        for number, (name, domain) in enumerate(key.parts):
            place = key.places[:, number]
            self._offer(domain.keys_digest, _Own(_Column((name, None), place, len(domain)), domain.id, domain.values))
            for level, _ in domain.parents:
                coarse = domain.with_levels([level])
                values = coarse.level_values(1)
                column = _Column((name, level), coarse.parent_index(1)[place], len(values))
                self._offer(keys_digest(values), _Own(column, f"{domain.id}.{level}", values))
        self._met: dict[str, tuple[_Column, ...]] = {}

    def _offer(self, digest: str, own: _Own) -> None:
        self._own.append(own)
        self._options.setdefault(part_id(digest), {}).setdefault(own.column.label[0], own.column)

    def find(self, id: str) -> View | None:
        """The first view on a corpus's key id, or None: some part of that key is no function of the request's."""
        return next(iter(self.find_all(id)), None)

    def find_all(self, id: str) -> list[View]:
        """Every view on a key id: each part of that key looked up with another column of the request's."""
        options = [self._columns(part) for part in id.split("+")]
        return [self._view(chosen) for chosen in product(*options) if len({c.label for c in chosen}) == len(chosen)]

    def all_of(self, ids: Iterable[str]) -> dict[str, list[View]]:
        return {id: found for id in ids if (found := self.find_all(id))}

    def why_not(self, id: str) -> str:
        """Why there is no view on a key id, for people."""
        parts = [part for part in id.split("+") if not self._columns(part)]
        reasons = dict.fromkeys(self._strange.get(part, "its keys are not known here") for part in parts)
        return "; ".join(reasons) or "it has two parts that only one column of the request's fits"

    # -------------------------------------------------------------------------------------------- inside

    def _columns(self, part: str) -> tuple[_Column, ...]:
        """The request's columns that can be looked up in a list of keys, one for each part of its key."""
        if part not in self._met:
            same = self._options.get(part, {})
            others = {label: column for label, column in self._aligned(part).items() if label not in same}
            self._met[part] = (*same.values(), *others.values())
        return self._met[part]

    def _aligned(self, part: str) -> dict[str, _Column]:
        """For each part of the request's key the column, it or a level of it, with the largest share of its keys there."""
        best: dict[str, tuple[float, _Column]] = {}
        nearest: tuple[int, str] | None = None
        known = self._lists.key_signature(part) if self._lists is not None else None
        for own in self._own:
            if known is not None:
                card, theirs = known
                if most_shared(own.signature, len(own.keys), theirs, card.size) < LEAST * len(own.keys):
                    self._strange.setdefault(part, f"{card.id} has few or none of the keys of {own.name}")
                    continue
            listed = self._lists.key_list(part) if self._lists is not None else None
            if listed is None:
                return {}
            met = align(own.keys, listed)
            if met.share >= LEAST:
                name = own.column.label[0]
                if name not in best or best[name][0] < met.share:
                    places = np.append(met.places, met.size)[own.column.place]
                    column = _Column(own.column.label, places, met.size, met.explain(own.name, listed.id))
                    best[name] = met.share, column
            elif nearest is None or met.shared > nearest[0]:
                nearest = met.shared, f"{listed.id} has {met.shared:,} of the {len(own.keys):,} keys of {own.name}"
                self._strange[part] = nearest[1]
        return {name: column for name, (_, column) in best.items()}

    def _view(self, columns: tuple[_Column, ...]) -> View:
        total = int(np.prod([column.size for column in columns]))
        index = np.zeros(len(self._key), np.int64)
        outside = np.zeros(len(self._key), bool)
        for column in columns:
            outside |= column.place >= column.size
            index = index * column.size + np.minimum(column.place, column.size - 1)
        note = "; ".join(column.note for column in columns if column.note)
        return View(tuple(column.label for column in columns), np.where(outside, total, index), total + 1, note)
