"""Who teaches how much. Loadings are an average over tables, and nobody may own it.

* Each sketch weighs as one table: its features share the noise of its counts, which they would teach as a cause.
* Payloads that are the same, or nearly, teach once: released twice, a table has new noise, and exact tables that agree in
  all keys say nothing new.
* A provider's weight is the information that its tables have about their factors, sum tr(I - V), and no provider has more
  than a fifth of all. Neither hundreds of tables nor noise that is claimed to be smaller than it is can exceed that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from saibot.estimate.factors.readings import Readings

MOST_OF_A_PROVIDER = 0.2
ALIKE = 0.99  # cosine of two tables' readings beyond which they are one table
FEWEST_KEYS = 16  # below, tables are alike by chance, and only equal ones are one table
BANDS, BITS = 6, 24


def numbered(providers: Sequence[Hashable] | np.ndarray | None, readings: Readings) -> np.ndarray:
    """A number for the provider of each table (N,), from 0; without providers each sketch has one of its own."""
    names = readings.sketch.tolist() if providers is None else list(providers)
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names], dtype=np.intp)


def teaching_weights(readings: Readings) -> np.ndarray:
    """What each table weighs before anything is known of its provider, (N,): at most 1 for all features of a sketch."""
    if not len(readings):
        return np.zeros(0)
    features = np.bincount(readings.sketch)[readings.sketch]
    group = near_identical(readings)
    pairs = np.unique(np.column_stack([group, readings.sketch]), axis=0)
    copies = np.bincount(pairs[:, 0])[group]  # sketches that hold this very table
    return np.asarray(1.0 / (features * copies))


def near_identical(readings: Readings) -> np.ndarray:
    """A number for each table (N,), the same for tables whose readings of the finest keys are alike up to a factor.

    Linear in tables: readings on the same side of many hyperplanes are compared, those of different ones are not. Two
    tables with a cosine of 0.999 are missed once in two thousand times.
    """
    N, d = readings.weight.shape
    if N < 2:
        return np.arange(N)
    sides = np.random.default_rng(0).normal(size=(d, BANDS * BITS))  # any fixed hyperplanes will do
    codes = np.empty((N, BANDS), np.int64)
    length = np.empty(N)
    for block in readings.blocks(4):
        x = readings.sums[0][block]
        bits = (x @ sides > 0).reshape(len(x), BANDS, BITS)
        codes[block] = bits @ (1 << np.arange(BITS))
        length[block] = np.sqrt((x**2).sum(axis=1))
    least = ALIKE if d >= FEWEST_KEYS else 1 - 1e-12
    pairs = [np.zeros((0, 2), np.intp)]
    for band in codes.T:
        order = np.argsort(band, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(band[order]) != 0))
        for some in np.split(order, starts[1:]):
            if len(some) > 1:
                first, rest = some[0], some[1:]
                cosine = readings.sums[0][rest] @ readings.sums[0][first]
                alike = rest[cosine > least * length[rest] * length[first]]
                pairs.append(np.column_stack([alike, np.full(len(alike), first)]))
    one, other = np.concatenate(pairs).T
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(N, N))
    return np.asarray(connected_components(graph, directed=False)[1])


def capped(weights: np.ndarray, information: np.ndarray, provider: np.ndarray) -> np.ndarray:
    """The same weights (N,) with those of too large providers scaled down.

    `information` is what each table would contribute at weight 1. Of fewer than five providers nobody can have a fifth or
    less, and all get the same.
    """
    totals = np.bincount(provider, weights * information)
    taught = totals > 0
    share = max(MOST_OF_A_PROVIDER, 1 / max(int(taught.sum()), 1))
    most = _water_level(totals[taught], share)
    scale = np.minimum(1.0, np.divide(most, totals, out=np.ones_like(totals), where=taught))
    return np.asarray(weights * scale[provider])


def _water_level(totals: np.ndarray, share: float) -> float:
    """The largest h with h <= share * sum(min(totals, h))."""
    ordered = np.sort(totals)[::-1]
    rest = float(ordered.sum())
    for above, total in enumerate(ordered):
        left = 1 - share * above
        if left <= 1e-12:
            return float(total)
        if total <= (level := share * rest / left):
            return max(level, float(total))
        rest -= float(total)
    return float(ordered[-1]) if len(ordered) else 0.0
