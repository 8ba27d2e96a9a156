"""A task's request in its two forms, private and local, and what the table that a search selects is worth to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from research.judging import r2_with
from research.real.publishing import X, Y
from research.real.world import World
from research.searching import Choice
from saibot.client.exact_request import local_request
from saibot.domains import KnownDomains
from saibot.search import SearchRequest
from saibot.search.from_sketches import search_request
from saibot.sketch import Sketch

TEST_SHARE = 0.25


@dataclass(frozen=True)
class Ask:
    """A task's request, split into a training part that is searched with and a held-out part that judges."""

    world: World
    train: np.ndarray  # mask of the request's rows

    @classmethod
    def of(cls, world: World, rng: np.random.Generator) -> Ask:
        return cls(world, rng.random(world.rows) >= TEST_SHARE)

    @classmethod
    def by_keys(cls, world: World, rng: np.random.Generator) -> Ask:
        """All rows of a quarter of the keys held out: what a table is worth for keys that training never saw."""
        return cls(world, (rng.random(len(world.domain)) >= TEST_SHARE)[world.place])

    @cached_property
    def local(self) -> SearchRequest:
        """The training rows themselves, which stay at home: exact, whatever the providers' noise."""
        world = self.world
        keys = np.array(world.domain.values, dtype=object)[world.place[self.train]]
        columns = {X: world.x[self.train], Y: world.y[self.train], world.domain.id: pa.array(keys, pa.string())}
        return local_request(pa.table(columns), target=Y, features=(X,), keys={world.domain.id: world.domain})

    def private(self, sketch: Sketch) -> SearchRequest:
        return search_request(sketch, target=Y, domains=KnownDomains.of([self.world.domain]))

    @cached_property
    def ceiling(self) -> float:
        """Held-out R2 of the raw values of the table that is best in training: what no privacy would give."""
        world, table = self.world, self.world.table
        in_training = [r2_with(table[self.train], values[world.place[self.train]]) for values in world.raw_values]
        return r2_with(table, world.raw_values[int(np.argmax(in_training))][world.place], train=self.train)

    def materialised(self, choice: Choice) -> float:
        """Held-out R2 of private values joined to the request's own rows."""
        return r2_with(self.world.table, choice.values[self.world.place], train=self.train)
