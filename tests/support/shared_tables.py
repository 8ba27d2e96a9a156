"""Tables whose means by key have causes in common, as sketches; and what the means truly are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from research.releases import Release
from research.seeded import Seeded
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.privatize.noise import OpenDPNoise
from saibot.search import Corpus
from saibot.sketch import KeyDomain, Sketch

KEYS, ROWS, TABLES, SHARED = 60, 3000, 24, 2
DOMAIN = KeyDomain.of("place", [f"k{i:02d}" for i in range(KEYS)])


@dataclass(frozen=True)
class World:
    """Tables whose means by key have two causes in common, beside a cause of their own; and what the means truly are."""

    sketches: tuple[Sketch, ...]
    truth: dict[str, np.ndarray]

    def agreement(self, corpus: Corpus) -> float:
        """The median over sketches of the R2 between the values of a corpus and the truth."""
        found = [
            np.corrcoef(values[:-1], self.truth[str(digest)])[0, 1] ** 2
            for id in corpus.key_ids
            for shard in corpus.shards(id)
            for digest, values in zip(shard.text["digest"], shard.values, strict=True)
        ]
        return float(np.median(found))


@cache
def world(
    shared: float = 0.8,
    tables: int = TABLES,
    seed: int = 3,
    *,
    real: bool = False,
    domain: KeyDomain = DOMAIN,
    rows_per_table: int = ROWS,
    name: str = "table",
) -> World:
    """`real` noise cannot be drawn again, and is what a platform accepts."""
    rng = np.random.default_rng(seed)
    keys = len(domain)
    causes = rng.normal(size=(keys, SHARED))
    sketches, truth = [], {}
    for number in range(tables):
        common = causes @ rng.normal(size=SHARED) / np.sqrt(SHARED)
        means = 0.35 * (np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=keys))
        place = rng.integers(0, keys, rows_per_table)
        rows = np.clip(means[place] + 0.3 * rng.normal(size=rows_per_table), -1, 1)
        card = Card.parse({"dataset": {"name": f"{name}{number}"}, "features": {"x": {"bounds": [-1, 1]}}})
        sketch = Release(card, rows[:, None], place, domain, Budget("1", "1e-6")).sketch(
            OpenDPNoise() if real else Seeded((seed, number))
        )
        sketches.append(sketch)
        truth[sketch.digest] = means
    return World(tuple(sketches), truth)


def providers_of(world: World) -> dict[str, str]:
    return {sketch.digest: f"provider{number % 8}" for number, sketch in enumerate(world.sketches)}
