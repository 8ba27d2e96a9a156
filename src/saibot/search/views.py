"""Which rows of a provider's domain the request's keys belong to.

A request has one finest key, possibly composite. A provider whose key is that key, some of its parts, or a coarser level of
a part, can be joined: its key is a public function of the request's. A view is that function, as an index array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from saibot.sketch import Key, KeyDomain
from saibot.sketch.domain import keys_digest


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

    `parts` says how: for each part of the provider's key the request's part, and its level where it is a coarser one.
    """

    parts: tuple[tuple[str, str | None], ...]
    index: np.ndarray  # (D,), values in 0..size-1, the last for keys outside
    size: int

    @property
    def name(self) -> str:
        """For people: `day`, `school.district`, or several with commas."""
        return ", ".join(part if level is None else f"{part}.{level}" for part, level in self.parts)


def view_id(digests: Sequence[str]) -> str:
    """The identity of a (composite) key domain in a corpus: its parts' key digests, in order."""
    return "+".join(digest[:32] for digest in digests)


def key_id(key: Key) -> str:
    return view_id([part.keys_digest for part in key.parts])


class Views:
    """Finds the view for a provider's key, if there is one."""

    def __init__(self, key: RequestKey) -> None:
        self._key = key
        self._simple: dict[str, tuple[tuple[str, str | None], np.ndarray, int]] = {}
        for column, (name, domain) in enumerate(key.parts):
            place = key.places[:, column]
            self._simple.setdefault(domain.keys_digest, ((name, None), place, len(domain)))
            for level, _ in domain.parents:
                coarse = domain.with_levels([level])
                values = coarse.level_values(1)
                self._simple.setdefault(keys_digest(values), ((name, level), coarse.parent_index(1)[place], len(values)))
        self._short = {digest[:32]: entry for digest, entry in self._simple.items()}

    def find(self, id: str) -> View | None:
        """The view for a corpus's key id, or None: some part of that key is no function of the request's."""
        parts = [self._short.get(digest) for digest in id.split("+")]
        if any(part is None for part in parts):
            return None
        known = [part for part in parts if part is not None]
        total = int(np.prod([size for _, _, size in known]))
        index = np.zeros(len(self._key), np.int64)
        outside = np.zeros(len(self._key), bool)
        for _, place, size in known:
            outside |= place >= size
            index = index * size + np.minimum(place, size - 1)
        return View(tuple(part for part, _, _ in known), np.where(outside, total, index), total + 1)

    def all_of(self, ids: Mapping[str, object]) -> dict[str, View]:
        return {id: view for id in ids if (view := self.find(id)) is not None}
