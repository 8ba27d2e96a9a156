"""Join keys and their public levels.

A key is a column of text, or a public function of one: a New York school number `01M015` says its district (01) and its
borough (M). Levels are nested: a district that spans boroughs belongs to `citywide`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Key:
    """Which column it is read from, how, and the functions from a key to its parents, fine to coarse."""

    name: str
    column: str
    of: Callable[[pd.Series], pd.Series]
    levels: tuple[Callable[[list[str]], list[str]], ...] = ()

    def read(self, table: pd.DataFrame) -> pd.Series:
        """The key of each row; missing where the row has none."""
        return self.of(table[self.column])


def _borough_of_district(districts: list[str], letters: list[str]) -> list[str]:
    seen: dict[str, set[str]] = {}
    for district, letter in zip(districts, letters, strict=True):
        seen.setdefault(district, set()).add(letter)
    return [next(iter(seen[district])) if len(seen[district]) == 1 else "citywide" for district in districts]


def _school_borough(schools: list[str]) -> list[str]:
    return _borough_of_district([school[:2] for school in schools], [school[2:3] for school in schools])


# Which borough a school district lies in is public knowledge; districts above 32 are citywide programmes.
_BOROUGHS = (("M", 1, 6), ("X", 7, 12), ("K", 13, 23), ("Q", 24, 30), ("R", 31, 31), ("K", 32, 32))


def _district_borough(districts: list[str]) -> list[str]:
    def borough(text: str) -> str:
        number = int(text) if text.isdigit() else 0
        return next((letter for letter, first, last in _BOROUGHS if first <= number <= last), "citywide")

    return [borough(district) for district in districts]


_KEYS = {
    "DBN": Key("DBN", "DBN", lambda column: column, (lambda keys: [key[:2] for key in keys], _school_borough)),
    "district": Key("district", "DBN", lambda column: column.str[:2], (_district_borough,)),
    "geo_key": Key("geo_key", "geo_key", lambda column: column, (lambda keys: [key.split(":")[0] for key in keys],)),
}


def key(name: str) -> Key:
    """A known key with its levels, or any other column as a key without."""
    return _KEYS.get(name) or Key(name, name, lambda column: column)


@dataclass(frozen=True)
class Domain:
    """The keys of a task in order, and each level's keys with the place of every finer key among them."""

    keys: tuple[str, ...]
    parents: tuple[np.ndarray, ...]  # parents[l] gives every key of level l its place at level l+1

    @classmethod
    def of(cls, kind: Key, keys: list[str]) -> Domain:
        parents, labels = [], keys
        below = np.arange(len(keys))
        for level in kind.levels:
            names = level(keys)
            places = {name: place for place, name in enumerate(sorted(set(names)))}
            if len(places) >= len(labels) or len(places) < 2:
                continue  # a level with as many keys, or with one, says nothing of its own
            step = np.zeros(below.max() + 1, dtype=np.intp)
            step[below] = above = np.array([places[name] for name in names])
            parents.append(step)
            labels, below = sorted(set(names)), above
        return cls(tuple(keys), tuple(parents))

    @cached_property
    def place(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.keys)}

    @property
    def sizes(self) -> tuple[int, ...]:
        return (len(self.keys), *(int(step.max()) + 1 for step in self.parents))

    def up(self, values: np.ndarray) -> list[np.ndarray]:
        """Per-key totals (..., d) at every level, finest first."""
        found = [values]
        for step, size in zip(self.parents, self.sizes[1:], strict=True):
            member = np.zeros((len(step), size))
            member[np.arange(len(step)), step] = 1.0
            found.append(found[-1] @ member)
        return found
