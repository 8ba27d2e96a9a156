"""Expected gains: what a candidate's *raw* means would add, given what noise has left of both sides.

A usable gain says what private values explain as they are. It favours tables with many rows, whose values kept their
signal, over better ones with few. To find the best raw table, the lost part must be guessed at. Level by level, with ê_k
how the request's residual of key k differs from its parent's (its posterior mean, spread s^2), and m_k, tau^2, L_k mean,
spread and reliability of the candidate's deviations: if their correlation rho has the prior N(0, omega),

    rho^ = sum_k m_k ê_k / (s tau) / (1/omega + sum_k L_k ê_k^2/s^2)

is its posterior mean, and the covariance expected of raw means is that of the private ones plus what rho^ says of the rest:

    A = sum_levels [ sum_k n_k ê_k m_k + rho^ tau sum_k (1 - L_k) n_k ê_k^2 / s ],    gain = A^2 / (n TSS sum tau^2).

With omega = 0 nothing is guessed; with omega infinite the attenuation is undone in full, which noise then dominates. The
spreads must not be 0 where noise hides them: `shrink(..., typical_spread=True)`.
`rank_by_both` orders candidates by the product of both gains: on real tables it beat either alone (docs/quality.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saibot.estimate.lookup import LevelValues
from saibot.search.state import State

PRIOR = 0.3  # omega: correlations of a half are common among tables that share a key


@dataclass(frozen=True)
class _Level:
    """The request's residuals at one key level: rows n_k, shrunk deviations ê_k, and their spread s^2."""

    rows: np.ndarray
    deviations: np.ndarray
    spread: float


def expected_gains(
    state: State, levels: Sequence[LevelValues], parents: Sequence[np.ndarray], *, prior: float = PRIOR
) -> np.ndarray:
    """The expected gain in R2 of every candidate, over the request's finest keys.

    `levels` are the candidates' (one row each), finest first; `parents[l]` gives every key of level l its place at l+1.
    """
    total, spread = np.zeros(len(levels[0].deviations)), np.zeros(len(levels[0].deviations))
    for asked, given in zip(_residual_levels(state, parents), levels, strict=True):
        tau = np.sqrt(np.maximum(given.spread, 1e-12))
        s, e, n = np.sqrt(asked.spread), asked.deviations, asked.rows
        rho = given.deviations @ e / (s * tau) / (1 / prior + given.reliability @ (e / s) ** 2)
        total += given.deviations @ (n * e) + rho * tau * ((1 - given.reliability) @ (n * e**2)) / s
        spread += tau**2
    gains: np.ndarray = total**2 / (state.count * state.gram()[2] * np.maximum(spread, 1e-300))
    return np.asarray(np.minimum(gains, 1.0))


def rank_by_both(lower: np.ndarray, gain: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """A score to order candidates by: expected times usable gain, the latter by its lower bound where that is above 0."""
    score: np.ndarray = np.where(lower > 0, lower, gain * 1e-9) * expected
    return score


def _residual_levels(state: State, parents: Sequence[np.ndarray]) -> list[_Level]:
    sums, rows, noise = state.residual_sums(), state.counts, _residual_noise(state)
    found: list[_Level] = []
    for step in (*parents, np.zeros(0 if not parents else int(parents[-1].max()) + 1, dtype=np.intp)):
        if not len(step):  # a single level: its parent is the whole table
            step = np.zeros(len(sums), dtype=np.intp)
        size = int(step.max()) + 1
        above = [np.bincount(step, part, size) for part in (sums, rows, noise)]
        here, there = (total / np.maximum(count, 1.0) for total, count in ((sums, rows), (above[0], above[1])))
        deviations, variance = here - there[step], noise / np.maximum(rows, 1.0) ** 2
        weight = rows / max(float(rows.sum()), 1.0)
        spread = max(float(weight @ (deviations**2 - variance)), 1e-12)
        found.append(_Level(rows, deviations * spread / (spread + variance), spread))
        sums, rows, noise = above
    return found


def _residual_noise(state: State) -> np.ndarray:
    """The variance of the privacy noise in the residual sums, before any lookup was added."""
    y = state.features.index(state.target)
    own = [i for i in range(state.own) if i != y]
    theta = state.theta()[: len(own)]
    level = float(state.origin[y] - theta @ state.origin[own])
    variance: np.ndarray = state.key_noise[1] * (1 + theta @ theta) + state.key_noise[0] * level**2
    return variance
