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
`rank_by_both` orders candidates by the product of both gains: on real tables it beat either alone (docs/quality.md). With
factors the expected gain alone did: values that were improved look alike, and the usable gain favours the smoothest.

Where shared factors helped the values, the expectation is over what those leave open (mathematics.md, "Shared factors").

Shards keep no levels, so `Expectations` reads them from the sketches, of the candidates whose usable gain is largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from saibot.errors import InvalidSketch
from saibot.estimate.factors import Readings, RequestSums, expected_raw_gains, variance_within
from saibot.estimate.lookup import LevelValues, level_steps, lookup_values
from saibot.search.corpus import SHARED, Corpus
from saibot.search.engine import Board, Candidate, Engine, Group
from saibot.search.key_maps import RequestKey, View
from saibot.search.state import State
from saibot.sketch import KeyDomain, Sketch

PRIOR = 0.3  # omega: correlations of a half are common among tables that share a key
QUANTILE = 1.0  # of the usable gain's lower bound: milder than where it ranks alone
CONSIDERED = 300  # candidates whose sketches are read: the product of both gains is small where the usable one is


@dataclass(frozen=True)
class _Level:
    """The request's residuals at one key level: rows n_k, shrunk deviations ê_k, and their spread s^2."""

    rows: np.ndarray
    deviations: np.ndarray
    spread: float


def expected_gains(
    state: State,
    levels: Sequence[LevelValues],
    parents: Sequence[np.ndarray],
    *,
    view: View | None = None,
    prior: float = PRIOR,
) -> np.ndarray:
    """The expected gain in R2 of every candidate, over the request's finest keys, or those of a view on them.

    `levels` are the candidates' (one row each), finest first; `parents[l]` gives every key of level l its place at l+1.
    """
    total, spread = np.zeros(len(levels[0].deviations)), np.zeros(len(levels[0].deviations))
    for asked, given in zip(_residual_levels(state, parents, view), levels, strict=True):
        tau = np.sqrt(np.maximum(given.spread, 1e-12))
        s, e, n = np.sqrt(asked.spread), asked.deviations, asked.rows
        rho = given.deviations @ e / (s * tau) / (1 / prior + given.reliability @ (e / s) ** 2)
        total += given.deviations @ (n * e) + rho * tau * ((1 - given.reliability) @ (n * e**2)) / s
        spread += tau**2
    gains: np.ndarray = total**2 / (state.count * state.tss * np.maximum(spread, 1e-300))
    return np.asarray(np.minimum(gains, 1.0))


def rank_by_both(lower: np.ndarray, gain: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """A score to order candidates by: expected times usable gain, the latter by its lower bound where that is above 0."""
    score: np.ndarray = np.where(lower > 0, lower, gain * 1e-9) * expected
    return score


class Expectations:
    """Expected gains of a search's best candidates, from their sketches, each of which is read once."""

    def __init__(self, corpus: Corpus, key: RequestKey) -> None:
        self._corpus = corpus
        self._domains = {domain.keys_digest: domain for _, domain in key.parts}
        self._known: dict[str, _Parts | None] = {}
        self._readings: dict[tuple[str, str], tuple[tuple[str, ...], Readings]] = {}

    def order(self, engine: Engine, board: Board, state: State, most: int) -> list[tuple[int, float]]:
        """The numbers of the first candidates, each with its expected gain; orders by the root of both are of its size."""
        numbers = np.array(engine.first(board, max(most, CONSIDERED)), dtype=np.intp)
        expected = self._gains(state, [engine.group(int(i)) for i in numbers], board.gain[numbers])
        both = rank_by_both(board.lower[numbers], board.gain[numbers], expected)
        helped = np.array([bool(engine.candidate(int(i)).shard.factors) for i in numbers], dtype=bool)
        best = np.argsort(-np.where(helped, expected, np.sqrt(both)), kind="stable")[:most]
        return [(int(numbers[i]), float(expected[i])) for i in best]

    def _gains(self, state: State, groups: Sequence[Group], usable: np.ndarray) -> np.ndarray:
        """Of values that factors helped, what those say of the raw means too; of others, what their sketches say alone."""
        found = np.array([np.nan] * len(groups))
        helped: dict[tuple[int, str], list[tuple[int, Candidate]]] = {}
        for place, group in enumerate(groups):
            first = group[0]
            if first.via is None and first.shard.factors and not first.dataset.startswith(SHARED):
                some = helped.setdefault((id(first.view), first.shard.factors), [])
                some += [(place, candidate) for candidate in group]
            else:
                found[place] = self._gain(state, group, float(usable[place]))
        for (_, factors), members in helped.items():
            try:
                gains = self._with_factors(state, factors, [candidate for _, candidate in members])
            except InvalidSketch:  # one of them is being withdrawn
                gains = np.array([usable[place] for place, _ in members])
            for (place, _), gain in zip(members, gains, strict=True):
                found[place] = np.fmax(found[place], gain)
        several = np.array([len(group) > 1 for group in groups], dtype=bool)
        return np.where(several, np.fmax(found, usable), found)

    def _with_factors(self, state: State, factors: str, candidates: Sequence[Candidate]) -> np.ndarray:
        """The expected raw gains of candidates of one view, by the factors that helped their values."""
        shared, group = self._corpus.factors_of(factors)
        readings = []
        for candidate in candidates:
            known = self._readings.get((factors, candidate.digest))
            if known is None:
                sketch = self._corpus.sketch(candidate.digest)
                known = sketch.features, shared.readings(sketch, self._corpus.domain_of(sketch))
                self._readings[factors, candidate.digest] = known
            features, of_sketch = known
            readings.append(of_sketch.take(np.array([features.index(candidate.feature)])))
        view = candidates[0].view
        tau2 = np.array([candidate.number("spread") for candidate in candidates])
        sums = request_sums(state, view.index, view.size)
        return expected_raw_gains(shared.of_group(group), Readings.join(readings), tau2, sums)

    def _gain(self, state: State, group: Group, usable: float) -> float:
        """Of several features together that of the best; where nothing is known of the levels, the usable gain."""
        first = group[0]
        parts = None if first.via is not None else self._parts(first.digest)
        if parts is None:
            return usable
        gains = expected_gains(state, parts.levels, parts.steps, view=first.view)
        best = max(float(gains[parts.features[candidate.feature]]) for candidate in group)
        return max(best, usable) if len(group) > 1 else best

    def _parts(self, digest: str) -> _Parts | None:
        if digest not in self._known:
            try:
                self._known[digest] = _Parts.of(self._corpus.sketch(digest), self._domains)
            except InvalidSketch:  # no file: a corpus of bare values, or it is being withdrawn
                self._known[digest] = None
        return self._known[digest]


@dataclass(frozen=True)
class _Parts:
    """What the values of a sketch are made of, level by level, and where its features are among them."""

    features: Mapping[str, int]
    levels: tuple[LevelValues, ...]
    steps: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, sketch: Sketch, domains: Mapping[str, KeyDomain]) -> _Parts | None:
        key = sketch.header.key
        assert key is not None
        domain = domains.get(key.parts[0].keys_digest) if len(key.parts) == 1 else None
        known = {name for name, _ in domain.parents} if domain is not None else set()
        parents: list[np.ndarray] = []
        if domain is not None and key.levels and known.issuperset(key.levels):
            coarser = domain.with_levels(key.levels)
            parents = [coarser.parent_index(i + 1) for i in range(len(key.levels))]
        found = lookup_values(sketch, parents, typical_spread=True)
        if not found.levels:
            return None
        steps = level_steps([len(level.values) for level in sketch.levels[: len(found.levels)]], parents)
        return cls({feature.name: i for i, feature in enumerate(sketch.header.features)}, found.levels, tuple(steps))


def request_sums(state: State, place: np.ndarray, size: int) -> RequestSums:
    """A request's table over the keys of a domain, the last of which is outside of it."""
    base = state.base(place, size)
    residuals, noise = (np.bincount(place, part, size)[:-1] for part in (state.residual_sums(), state.residual_noise()))
    counts = base.linear[:-1, 0]
    within = variance_within(counts, residuals, noise, state.tss * (1 - state.r2()))
    return RequestSums(counts, residuals, noise, base.linear[:-1, : base.size], base.inverse, state.tss, within)


def _residual_levels(state: State, parents: Sequence[np.ndarray], view: View | None) -> list[_Level]:
    sums, rows, noise = state.residual_sums(), state.counts, state.residual_noise()
    if view is not None:  # without the keys outside the provider's domain, of which it says nothing
        sums, rows, noise = (np.bincount(view.index, part, view.size)[:-1] for part in (sums, rows, noise))
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
