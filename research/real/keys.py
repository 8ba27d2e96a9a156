"""Join keys and their public levels.

A key is a column of text, or a public function of one: a New York school number `01M015` says its district (01) and its
borough (M). Levels are nested: a district that spans boroughs belongs to `citywide`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from saibot.domains import normal_key
from saibot.sketch import KeyDomain

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TableKey:
    """Which column it is read from, how, and the functions from a key to its parents, fine to coarse."""

    name: str
    column: str
    of: Callable[[pd.Series], pd.Series]
    levels: tuple[Callable[[list[str]], list[str]], ...] = ()

    def read(self, table: pd.DataFrame) -> pd.Series:
        """The key of each row in its normal form; missing where the row has none."""
        return self.of(table[self.column]).map(normal_key, na_action="ignore")


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
    "DBN": TableKey("DBN", "DBN", lambda column: column, (lambda keys: [key[:2] for key in keys], _school_borough)),
    "district": TableKey("district", "DBN", lambda column: column.str[:2], (_district_borough,)),
    "geo_key": TableKey("geo_key", "geo_key", lambda column: column, (lambda keys: [key.split(":")[0] for key in keys],)),
}


def key(name: str) -> TableKey:
    """A known key with its levels, or any other column as a key without."""
    return _KEYS.get(name) or TableKey(name, name, lambda column: column)


def domain_of(kind: TableKey, keys: list[str]) -> KeyDomain:
    """The public domain of a task: its keys in order, and those coarser levels that say something of their own."""
    parents: dict[str, list[str]] = {}
    size = len(keys)
    for number, level in enumerate(kind.levels, start=1):
        names = level(keys)
        if 2 <= len(set(names)) < size:  # with as many keys as the finer one, or with a single one, it would not
            parents[f"level{number}"] = names
            size = len(set(names))
    return KeyDomain.of(kind.name, keys, parents=parents).with_levels(tuple(parents))
