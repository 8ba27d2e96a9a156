"""How far a looked-up value may be from the mean of its key's rows: what a page tells beside it.

The posterior variance is that of a known spread. But tau^2 is estimated, and where noise hides it the estimate is often 0:
then every key gets the overall mean, with a variance of 0, however much keys differ. So the error is taken over what tau^2
may be, with all values equally likely before: at every level, the others as they were estimated,

    error_k^2 = V_k + sum over levels of E_t[ V_k(t) + (z_k(t) - z_k)^2 ] - V_k,

the expectation by the likelihood of all readings. For a search this makes no difference: values, their weights and gains
are those of the likeliest spread, and what that costs is in the intervals of gains. Of sketches so large that this would
take seconds, with many levels, the error is that of a spread two standard errors above the likeliest: rather too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saibot.estimate.lookup import LevelReadings, LookupValues, joined, shrunk, sketch_readings, with_others
from saibot.estimate.totals import totals
from saibot.estimate.tree import KeyGroups, Smoother
from saibot.sketch import Sketch

# Of tau^2, in standard errors around its likeliest value; between the bounds of what it can be.
STEPS = np.array([-3.0, -2.0, -1.2, -0.6, 0.0, 0.6, 1.2, 2.0, 3.0, 4.5])

AT_MOST = 2.0  # standard errors

TOGETHER = 1 << 17  # values that are computed at a time, with each of these
MOST_WORK = 1 << 22  # readings of all levels, times levels, times steps: about half a second


def values_and_errors(sketch: Sketch, domain_parents: Sequence[np.ndarray] = ()) -> tuple[LookupValues, np.ndarray]:
    """The lookup values of all features of a keyed sketch, and their errors (f, d+1); of the catch-all that of any key."""
    keys = len(sketch.levels[0]) if sketch.levels else 1
    together = max(TOGETHER // keys, 1)
    steps = affordable(len(sketch.features) * sum(map(len, sketch.levels)), len(sketch.levels))
    whole = totals(sketch) if sketch.levels else None
    blocks, errors = [], []
    for first in range(0, len(sketch.features), together):
        found, outside = sketch_readings(sketch, domain_parents, features=slice(first, first + together), whole=whole)
        inside = shrunk(found)
        squared = squared_errors(found, inside, steps)
        errors.append(np.sqrt(np.column_stack([squared, squared.max(axis=1)])))
        blocks.append(with_others(inside, found.prior[:, 0], outside))
    return blocks[0] if len(blocks) == 1 else joined(blocks), np.concatenate(errors)


def affordable(readings: int, levels: int) -> np.ndarray | None:
    """The values of tau^2 that are gone through, in standard errors; None where that would take too long."""
    return STEPS if readings * levels * len(STEPS) <= MOST_WORK else None


def squared_errors(found: LevelReadings, values: LookupValues, steps: np.ndarray | None = STEPS) -> np.ndarray:
    """Of the values (f, d) that `shrunk` made of these readings; the catch-all is not among them."""
    keys = found.readings[0].shape[1]
    known = values.posterior_variance[:, :keys]
    if found.exact:
        return known
    # What uncertain counts may add to the noise is left out of the likelihood: it is an upper bound, and leaving it in would
    # take spread for noise.
    likely = [np.broadcast_to(level, reading.shape) for level, reading in zip(found.sum_noise, found.readings, strict=True)]
    tree = Tree(found.readings, found.weight, found.noise, found.up, found.cap)
    spreads, mean = [level.spread[:, None] for level in values.levels], values.values[:, :keys] - found.prior
    if steps is None:
        return _at_most(tree, spreads, mean, known)
    return open_errors(tree, spreads, mean, known, likely, steps)


@dataclass(frozen=True)
class Tree:
    """Readings of keys and of groups of them, with weights, noise and the most that tau^2 can be, as `Smoother` has them."""

    readings: list[np.ndarray]
    weight: np.ndarray
    noise: list[np.ndarray]
    up: list[KeyGroups]
    cap: np.ndarray


def open_errors(
    tree: Tree,
    spreads: list[np.ndarray],
    mean: np.ndarray,
    variance: np.ndarray,
    likely: list[np.ndarray] | None = None,
    steps: np.ndarray = STEPS,
) -> np.ndarray:
    """Squared errors of posterior means and variances that were found with these spreads; `likely`: the noise that the
    likelihood of others is told by."""
    extra = np.zeros_like(variance)
    for level in range(len(spreads)):
        around = _around(tree, level, spreads[level], steps)
        likelihoods, errors = [], []
        for t in around:
            tried = [t if i == level else spread for i, spread in enumerate(spreads)]
            likelihoods.append(_likelihood(tree, tree.noise if likely is None else likely, tried))
            smoother = Smoother(tree.weight, tree.noise, tree.up, tried)
            moved = smoother.means(smoother.sweep(tree.readings)).values[0] - mean
            errors.append(np.maximum(smoother.variances.values[0], 0) + moved**2)
        share = _shares(np.array(likelihoods), around[:, :, 0])
        expected = np.einsum("gf,gfd->fd", share, np.array(errors))
        extra += np.maximum(expected - variance, 0)
    return np.asarray(variance + extra)


def _at_most(tree: Tree, spreads: list[np.ndarray], mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The same where tau^2 of every level is as large as it can well be."""
    large = [_around(tree, level, spread, np.array([AT_MOST]))[0] for level, spread in enumerate(spreads)]
    smoother = Smoother(tree.weight, tree.noise, tree.up, large)
    moved = smoother.means(smoother.sweep(tree.readings)).values[0] - mean
    return np.asarray(np.maximum(smoother.variances.values[0] + moved**2, variance))


def _likelihood(tree: Tree, noise: list[np.ndarray], spreads: list[np.ndarray]) -> np.ndarray:
    """Of all readings (f,), in logarithms."""
    smoother = Smoother(tree.weight, noise, tree.up, spreads)
    swept = smoother.sweep([reading[None] for reading in tree.readings])
    return np.asarray(-0.5 * (smoother.products(swept)[:, 0, 0] + smoother.log_determinant))


def _around(tree: Tree, level: int, spread: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Values of tau^2 (grid, f, 1) that cover what it may be at a level."""
    weight = tree.weight
    for group in tree.up[:level]:
        weight = group.sum(weight)
    # The information in a level's own readings; what the other levels are uncertain about is in their noise.
    u = weight**2 / (spread * weight**2 + tree.noise[level])
    error = np.sqrt(2 / np.maximum((u**2).sum(axis=1, keepdims=True), 1e-300))
    return np.asarray(np.clip(spread + error * steps[:, None, None], 0, tree.cap))


def _shares(likelihoods: np.ndarray, around: np.ndarray) -> np.ndarray:
    """Of the grid's values (grid, f), which add up to 1: likelihood times the width that each of them stands for."""
    edges = np.concatenate([around[:1], (around[1:] + around[:-1]) / 2, around[-1:]])
    width = edges[1:] - edges[:-1]
    with np.errstate(divide="ignore"):
        weight = likelihoods + np.log(width)
    weight = np.where((width > 0).any(axis=0), weight, likelihoods)  # there is one value alone
    weight = np.exp(weight - weight.max(axis=0))
    return np.asarray(weight / weight.sum(axis=0))
