"""What a private request's model leaves unexplained, key by key, as far as the request's own noise lets anyone see it.

A sketch has no rows, but the sums by key of the target and of every feature: what a linear model leaves of them is a sum by
key, too, with noise of known size. Its mean over the key's rows is a posterior mean like a looked-up value
(`saibot.estimate.lookup`): drawn to 0 as far as it is noise. Sums over keys are sums again, so a composite key is shown part
by part. Post-processing of what the requester sent: it costs nothing and tells nothing that was not sent.
"""

from __future__ import annotations

import numpy as np

from saibot.estimate.tree import estimate_spread, smooth
from saibot.estimate.value_errors import Tree, open_errors
from saibot.search.key_maps import RequestKey
from saibot.search.state import State
from saibot.sketch import KeyDomain
from saibot.wire import KeyResiduals

MOST_KEYS = 20_000  # of a longer list those that stand out; a result stays below a few megabytes


def key_residuals(key: RequestKey, first: State, final: State, *, scale: float) -> tuple[KeyResiduals, ...]:
    """For every part of the key, before any column was added and after the last; `scale` is the target's."""
    return tuple(
        _of_part(name, domain, key.places[:, number], first, final, scale) for number, (name, domain) in enumerate(key.parts)
    )


def _of_part(name: str, domain: KeyDomain, place: np.ndarray, first: State, final: State, scale: float) -> KeyResiduals:
    size = len(domain)
    before, before_error = _means(first, place, size)
    after, after_error = _means(final, place, size)
    rows = _grouped(final.counts, place, size)
    errors = np.maximum(np.minimum(before_error, after_error), 1e-300)
    shown = np.arange(size)
    if size > MOST_KEYS:
        striking = np.argsort(-np.maximum(np.abs(before), np.abs(after)) / errors, kind="stable")
        shown = np.sort(striking[:MOST_KEYS])

    def told(column: np.ndarray, factor: float = scale) -> tuple[float, ...]:
        return tuple(float(f"{factor * value:.6g}") for value in column[shown].tolist())

    return KeyResiduals(
        key=name,
        domain=domain.id,
        keys=tuple(domain.values[i] for i in shown.tolist()),
        rows=told(rows, 1.0),
        before=told(before),
        before_error=told(before_error),
        after=told(after),
        after_error=told(after_error),
        left_out=size - len(shown),
    )


def _means(state: State, place: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean of each key's mean residual, scaled, and its error: nobody knows how much means of keys differ."""
    sums, variance = (_grouped(part, place, size)[None] for part in (state.residual_sums(), state.residual_noise()))
    rows = np.maximum(_grouped(state.counts, place, size), 0.0)[None]
    unit = max(float(rows.max()), 1.0)  # numbers near 1, whatever the table's size
    readings, weight, noise = [sums / unit], rows / unit, [np.maximum(variance / unit**2, 1e-24)]
    # Means over rows hardly vary more than the rows themselves, of which the model's own fit says how much is left.
    cap = np.full((1, 1), max(state.tss * (1 - state.r2()) / max(state.count, 1.0), 1e-12))
    spread = estimate_spread(readings, weight, noise, [], cap)
    found = smooth(readings, weight, noise, [], spread)
    squared = open_errors(Tree(readings, weight, noise, [], cap), spread, found.mean, np.maximum(found.variance, 0.0))
    return found.mean[0], np.sqrt(squared[0])


def _grouped(column: np.ndarray, place: np.ndarray, size: int) -> np.ndarray:
    """Sums over the keys of one part; rows outside its domain are no key."""
    return np.bincount(place, column, size + 1)[:-1]
