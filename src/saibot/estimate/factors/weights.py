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
COMPARED = 16  # different tables of one bucket that all others of it are compared with


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
    x = readings.sums[0]
    N, d = x.shape
    length = np.sqrt((x**2).sum(axis=1))
    if d < FEWEST_KEYS:
        return np.unique(np.round(x / np.maximum(length, 1e-300)[:, None], 9), axis=0, return_inverse=True)[1].reshape(N)
    sides = np.random.default_rng(0).normal(size=(d, BANDS * BITS))  # any fixed hyperplanes will do
    codes = np.empty((N, BANDS), np.int64)
    for block in readings.blocks(4):
        codes[block] = (x[block] @ sides > 0).reshape(-1, BANDS, BITS) @ (1 << np.arange(BITS))
    pairs = [np.zeros((0, 2), np.intp)]
    for band in codes.T:
        order = np.argsort(band, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(band[order]) != 0)) if N else np.zeros(1, np.intp)
        for bucket in np.split(order, starts[1:]):
            rest = bucket
            for _ in range(COMPARED):
                if len(rest) < 2:
                    break
                first, rest = rest[0], rest[1:]
                alike = x[rest] @ x[first] > ALIKE * length[rest] * length[first]
                pairs.append(np.column_stack([rest[alike], np.full(int(alike.sum()), first)]))
                rest = rest[~alike]
    one, other = np.concatenate(pairs).T
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(N, N))
    return np.asarray(connected_components(graph, directed=False)[1]) if N else np.zeros(0, np.intp)


def capped(weights: np.ndarray, information: np.ndarray, provider: np.ndarray) -> np.ndarray:
    """The same weights (N,) with those of too large providers scaled down.

    `information` is what each table would contribute at weight 1. Of fewer than five providers nobody can have a fifth or
    less, and all get the same.
    """
    totals = np.bincount(provider, weights * information)
    scale = np.minimum(1.0, np.divide(most_of_one(totals), totals, out=np.ones_like(totals), where=totals > 0))
    return np.asarray(weights * scale[provider])


def most_of_one(totals: np.ndarray) -> float:
    """What a provider's total may be so that, with all cut at it, none is more than a fifth of their sum."""
    ordered = np.sort(totals[totals > 0])[::-1]
    share = max(MOST_OF_A_PROVIDER, 1 / max(len(ordered), 1))
    rest = float(ordered.sum())
    for above, total in enumerate(ordered):
        left = 1 - share * above
        if left <= 1e-12:
            return float(total)
        if total <= (level := share * rest / left):
            return max(level, float(total))
        rest -= float(total)
    return float(ordered[-1]) if len(ordered) else 0.0
