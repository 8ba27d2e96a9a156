"""What all tables of one key domain say of its keys, side by side: the input of everything about shared factors.

A row is one feature of one sketch. Its readings are those that `saibot.estimate.lookup` takes its own values from: at every
key level the noisy sums less M times the shrunk counts, and the variance of their noise. A level that a sketch was not
released at has infinite noise; a table without any noise (open data) has variance 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.lookup import LevelReadings, LookupValues, level_steps, shrunk, sketch_readings
from saibot.estimate.tree import KeyGroups
from saibot.sketch import KeyDomain, Sketch

PRIOR_KEYS = 4.0  # what a typical spread counts for, in keys whose value is known exactly: as in `estimate_spread`
CELLS = 2**16  # numbers in an array of a block of tables: few enough for a processor's cache


@dataclass(frozen=True)
class KeyTree:
    """The keys of a domain and its coarser levels, fine to coarse: `steps[l]` places every key of level l at level l+1."""

    size: int
    names: tuple[str, ...] = ()
    steps: tuple[np.ndarray, ...] = ()

    @classmethod
    def of(cls, domain: KeyDomain, names: Sequence[str] = ()) -> KeyTree:
        """A domain with these levels. The keys of a composite key have no levels: `KeyTree(number of combinations)`."""
        coarser = domain.with_levels(names)
        parents = [coarser.parent_index(level + 1) for level in range(len(names))]
        sizes = [len(coarser.level_values(level)) + 1 for level in range(1 + len(names))]
        return cls(len(domain), tuple(names), tuple(level_steps(sizes, parents)))

    @cached_property
    def up(self) -> list[KeyGroups]:
        return [KeyGroups(step, int(step.max()) + 1) for step in self.steps]

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.size, *(group.size for group in self.up))

    def sums(self, values: np.ndarray) -> list[np.ndarray]:
        """Sums of the last axis, the finest keys, over the keys of every level."""
        found = [values]
        for group in self.up:
            found.append(group.sum(found[-1]))
        return found

    def covariance_times(self, shares: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The tree's covariance times vectors over the finest keys (..., d), for a variance of each level's deviations."""
        found, place = shares[0] * values, np.arange(self.size)
        for share, step, total in zip(shares[1:], self.steps, self.sums(values)[1:], strict=True):
            place = step[place]
            found = found + share * total[..., place]
        return np.asarray(found)


@dataclass(frozen=True)
class Readings:
    """N tables over the d keys of one domain, in the units of `LevelReadings`: each table has a unit of its own."""

    tree: KeyTree
    sums: tuple[np.ndarray, ...]  # per level (N, keys of the level)
    noise: tuple[np.ndarray, ...]  # variances, of the same shapes
    weight: np.ndarray  # (N, d), shrunk counts of the finest keys
    unit: np.ndarray  # (N,), rows that a weight of 1 stands for
    mean: np.ndarray  # (N,), M
    low: np.ndarray  # (N,), public bounds of the values
    high: np.ndarray
    cap: np.ndarray  # (N,), the most that tau^2 can be
    typical: np.ndarray  # (N,), tau^2 that keys usually have
    spreads: np.ndarray  # (N, levels), a first guess at the spread of each level
    plain: np.ndarray  # (N, d), the values that a table gives by itself
    plain_variance: np.ndarray  # (N, d)
    plain_spread: np.ndarray  # (N,)
    sketch: np.ndarray  # (N,), which tables are features of one sketch: they share their counts' noise

    def __len__(self) -> int:
        return len(self.weight)

    @classmethod
    def of_sketch(cls, sketch: Sketch, tree: KeyTree, domain: KeyDomain | None = None) -> Readings:
        """All features of a sketch with this key domain. Its levels are used up to the first that the tree lacks."""
        key = sketch.header.key
        offered = () if key is None or domain is None else key.levels
        names = tuple(takewhile(lambda name: name in tree.names, offered))
        coarser = None if domain is None else domain.with_levels(names)
        parents = [] if coarser is None else [coarser.parent_index(i + 1) for i in range(len(names))]
        found, _ = sketch_readings(sketch, parents)
        return cls.of_levels(found, tree, [0, *(1 + tree.names.index(name) for name in names)])

    @classmethod
    def of_levels(cls, found: LevelReadings, tree: KeyTree, places: Sequence[int] | None = None) -> Readings:
        """One table per row of the readings; `places` says which level of the tree each of their levels is."""
        N, d = found.weight.shape
        if d != tree.size:
            raise InvalidInput("the table's keys are not those of the domain.", hint="Use the domain that it names.")
        where = range(len(found.readings)) if places is None else places
        sums = [np.zeros((N, size)) for size in tree.sizes]
        noise = [np.full((N, size), np.inf) for size in tree.sizes]
        for place, reading, variance in zip(where, found.readings, found.noise, strict=True):
            if place and found.exact:  # sums of what is known exactly already
                break
            sums[place], noise[place] = reading, variance
        values = shrunk(found)
        return cls(
            tree=tree,
            sums=tuple(sums),
            noise=tuple(noise),
            weight=found.weight,
            unit=np.full(N, found.unit),
            mean=found.prior[:, 0],
            low=np.broadcast_to(found.low, (N, 1))[:, 0],
            high=np.broadcast_to(found.high, (N, 1))[:, 0],
            cap=found.cap[:, 0],
            typical=np.broadcast_to(np.sum(found.typical, axis=0), (N, 1))[:, 0],
            spreads=_first_spreads(found, values, len(tree.sizes), where),
            plain=values.values,
            plain_variance=values.posterior_variance,
            plain_spread=values.spread,
            sketch=np.zeros(N, np.intp),
        )

    @classmethod
    def bare(
        cls, tree: KeyTree, sums: Sequence[np.ndarray], noise: Sequence[np.ndarray], weight: np.ndarray, unit: np.ndarray
    ) -> Readings:
        """Tables of which only what was read is known: enough for a posterior whose tau^2 is given."""
        none, open_ended = np.zeros(len(weight)), np.full(len(weight), np.inf)
        return cls(
            tree=tree,
            sums=tuple(sums),
            noise=tuple(noise),
            weight=weight,
            unit=unit,
            mean=none,
            low=-open_ended,
            high=open_ended,
            cap=open_ended,
            typical=none,
            spreads=np.zeros((len(weight), len(tree.sizes))),
            plain=np.zeros_like(weight),
            plain_variance=np.zeros_like(weight),
            plain_spread=none,
            sketch=np.arange(len(weight)),
        )

    @property
    def packed(self) -> np.ndarray:
        """What `bare` needs, as a row of numbers for each table: sums and noise of every level, weights, and the unit."""
        return np.column_stack([*self.sums, *self.noise, self.weight, self.unit]).astype(np.float32)

    @classmethod
    def unpacked(cls, rows: np.ndarray, tree: KeyTree) -> Readings | None:
        """From packed rows, to the precision of 7 digits; None where they are not readings of these keys."""
        widths = np.array([*tree.sizes, *tree.sizes, tree.size, 1])
        if rows.shape[1] != widths.sum():
            return None
        parts = np.split(rows.astype(float), widths.cumsum()[:-1], axis=1)
        levels = len(tree.sizes)
        sums, noise, (weight, unit) = parts[:levels], parts[levels:-2], parts[-2:]
        sound = all(np.isfinite(part).all() for part in (*sums, weight, unit)) and all(
            (part >= 0).all() for part in parts[levels:]
        )
        return cls.bare(tree, sums, noise, weight, unit[:, 0]) if sound else None

    @classmethod
    def join(cls, parts: Sequence[Readings]) -> Readings:
        """The tables of several, each of them the features of one sketch (or of several, told apart already)."""
        if not parts:
            raise InvalidInput("there are no readings to join.")
        starts = np.cumsum([0, *(int(part.sketch.max(initial=-1)) + 1 for part in parts)])
        joined = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)
            if field.name not in ("tree", "sums", "noise", "sketch")
        }
        levels = range(len(parts[0].sums))
        return cls(
            tree=parts[0].tree,
            sums=tuple(np.concatenate([part.sums[level] for part in parts]) for level in levels),
            noise=tuple(np.concatenate([part.noise[level] for part in parts]) for level in levels),
            sketch=np.concatenate([part.sketch + start for part, start in zip(parts, starts, strict=False)]),
            **joined,
        )

    def take(self, which: np.ndarray | slice) -> Readings:
        """Some of the tables."""
        some = {
            field.name: getattr(self, field.name)[which]
            for field in fields(self)
            if field.name not in ("tree", "sums", "noise")
        }
        sums, noise = (tuple(level[which] for level in part) for part in (self.sums, self.noise))
        return replace(self, sums=sums, noise=noise, **some)

    def blocks(self, columns: int) -> Iterator[slice]:
        """Tables that are worked on together, where each has so many columns over its keys."""
        size = max(CELLS // max(columns * self.tree.size, 1), 1)
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))

    @property
    def chance_of_rows(self) -> np.ndarray:
        """How likely each key has any rows at all, (N, d): at most what is expected of their number, and never above 1."""
        return np.asarray(np.minimum(self.weight * self.unit[:, None], 1.0))

    @property
    def first_scales(self) -> np.ndarray:
        """A first guess at each table's tau^2."""
        return np.asarray(np.clip(self.spreads.sum(axis=1), 1e-6 * self.cap, self.cap))


def _first_spreads(found: LevelReadings, values: LookupValues, levels: int, where: Sequence[int] | range) -> np.ndarray:
    """The table's own spreads, with what noise leaves open filled by the typical ones."""
    spreads = np.zeros((len(found.weight), levels))
    if found.exact:
        spreads[:, 0] = values.spread
        return spreads
    for place, level, typical in zip(where, values.levels, found.typical, strict=True):
        sure = (level.reliability**2).sum(axis=1)
        spreads[:, place] = level.spread + PRIOR_KEYS * np.broadcast_to(typical, (len(sure), 1))[:, 0] / (sure + PRIOR_KEYS)
    return spreads
