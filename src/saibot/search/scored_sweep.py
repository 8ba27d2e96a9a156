"""One pass over a shard's values that ends in scores: each block of candidates is swept and scored by one thread.

A block's moments never leave the core's cache. Without numba the moments of all candidates are taken first and scored then,
by numpy (`sweep.py`, `scoring.py`), which gives the same numbers to rounding.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from saibot.search.scoring import LEAST_SHARE, MOST_EXPLAINED, Base, Scores, score
from saibot.search.sweep import LEAST_BLOCK, MOST_BLOCK, cores, normal_weights, on_threads, sweep

CHUNK = 64  # candidates, far apart, of which the best one is compared first


@dataclass(frozen=True)
class RankedScores(Scores):
    """Scores, and what candidates are ordered by: 1 + the lower bound where that is above 0, else the gain."""

    rank: np.ndarray


def scored_sweep(values: np.ndarray, base: Base, *, quantile: float) -> RankedScores:
    """The scores of all candidates of a shard, one feature each."""
    try:
        from saibot.search import kernel
    except ImportError:  # numba is an extra
        found = score(*sweep(values, base.linear, base.square), base, quantile=quantile)
        return RankedScores(**vars(found), rank=order_by(found.gain, found.lower))
    values = values.view()
    values.flags.writeable = False  # mapped values are read-only anyway; so one compiled kernel serves all
    linear, linear_size = normal_weights(base.linear, kernel.rows(base.linear.shape[1]), values.dtype)
    square, square_size = normal_weights(base.square, base.square.shape[1], values.dtype)
    weight = max(base.weight_total, 1e-300)
    facts = [max(base.count, 1.0), base.residual_total, base.weight_total, base.rows_per_key / weight]
    facts += [max(base.tss, 1e-300), quantile, LEAST_SHARE, MOST_EXPLAINED]
    known = np.array(facts)
    inverse, theta = np.ascontiguousarray(base.inverse, np.float64), np.ascontiguousarray(base.theta, np.float64)
    scores = np.empty((5, len(values)))
    size = min(max(-(-len(values) // (4 * cores())), LEAST_BLOCK), MOST_BLOCK)

    def block(start: int) -> None:
        stop = min(start + size, len(values))
        kernel.swept_and_scored(
            values, linear, square, linear_size.ravel(), square_size.ravel(), inverse, theta, known, scores, start, stop
        )

    on_threads(block, range(0, len(values), size))
    return RankedScores(*scores)


def compile_sweep() -> None:
    """Compile now what the first sweep would, or load it from where an earlier process kept it; nothing is kept later."""
    one = np.ones(1)
    base = Base(np.eye(1), one, 1.0, 1.0, 0.0, 1.0, 1.0, 1, np.ones((1, 3)), np.ones((1, 2)))
    values = np.ones((1, 1), np.float32)
    scored_sweep(values, base, quantile=1.0)
    sweep(values, base.linear, base.square)
    with suppress(ImportError):
        from saibot.search import kernel

        kernel.keep_no_more()


def order_by(gain: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Larger is better: by lower bound, and by gain among those whose bound is 0."""
    return np.where(lower > 0, 1 + lower, gain * (1 - 1e-9))


def best(rank: np.ndarray, most: int) -> np.ndarray:
    """The numbers of the `most` largest, largest first, the earlier first among equals.

    The largest of every CHUNK are compared first: `most` of them are at least as large as the `most`-th of these, so nothing
    below that is among the best, and few are left to be sorted. Those of a chunk lie far apart, so that a vector instruction
    compares neighbours of different chunks.
    """
    whole = len(rank) // CHUNK * CHUNK
    if most * CHUNK >= whole:
        return np.argsort(-rank, kind="stable")[:most]
    largest = rank[:whole].reshape(CHUNK, -1).max(axis=0)
    least = np.partition(largest, len(largest) - most)[len(largest) - most]
    left = np.flatnonzero(rank >= least)
    return left[np.argsort(-rank[left], kind="stable")][:most]
