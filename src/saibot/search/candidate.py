"""A candidate: one row of a shard that the request can be joined with, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saibot.search.key_maps import View
from saibot.search.shard import OPEN, ShardRows
from saibot.search.units import Units
from saibot.wire import Identity


@dataclass(frozen=True)
class Candidate:
    """One row of a shard that the request can be joined with."""

    view: View
    shard: ShardRows
    row: int

    @property
    def digest(self) -> str:
        return self.shard.cell("digest", self.row)

    @property
    def dataset(self) -> str:
        return self.shard.cell("dataset", self.row)

    @property
    def feature(self) -> str:
        return self.shard.cell("feature", self.row)

    @property
    def via(self) -> str | None:
        """The digest of the dataset whose counts lead to this one; None where the request's own key does."""
        return self.shard.cell("via", self.row) if "via" in self.shard.text else None

    @property
    def open(self) -> bool:
        """Whether it is of a public table, whose values are exact."""
        return OPEN in self.shard.extra and bool(self.shard.extra[OPEN][self.row, 0] == 1)

    @property
    def units(self) -> Units:
        """Values are deviations from the feature's mean: `original = units.offset + units.scale * deviation`."""
        return Units(self.number("offset") + self.number("scale") * self.number("mean"), self.number("scale"))

    def number(self, name: str) -> float:
        return float(self.shard.numbers[name][self.row])

    def own_values(self) -> np.ndarray:
        """Its value for each key of its own domain: scaled deviations from its mean, float64."""
        row: np.ndarray = self.shard.values[self.row].astype(np.float64)
        return row

    def values(self) -> np.ndarray:
        """The same for each of the request's finest keys."""
        spread: np.ndarray = self.own_values()[self.view.index]
        return spread


Group = tuple[Candidate, ...]  # one feature, or all features of a dataset where whole datasets are asked for


def identity(group: Group) -> Identity:
    first = group[0]
    return Identity(first.digest, first.feature if len(group) == 1 else None, first.view.parts, first.via)
