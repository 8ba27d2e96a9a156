"""Expected gains: what a candidate would add as its private values are, and what its *raw* means would add.

A usable gain says what private values explain as they are. It favours tables with many rows, whose values kept their signal,
over better ones with few; and values that shared factors improved look alike, so that it credits the smoothest of them. The
raw means' gain is what a requester gets who asks the provider for more, and must be guessed at: its expectation over what
noise leaves open of both sides (mathematics.md, "Shared factors"), where most tables have little to do with a request and a
few have much. Candidates are ordered by the sum of both: what they give now, and what they would give
(docs/explanation/quality.md).

That needs what a sketch says of each key at every level. Shards of values that factors helped keep it beside them; for other
values, and for those of a provider's own requests, `Expectations` reads it from the sketches. Either way it is done for the
candidates whose usable gain is largest, as far as their lists of keys are not too long: of others it stands for both. Where
nothing was learned of a key domain, the same model has no factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from saibot.errors import InvalidSketch
from saibot.estimate.factors import (
    Factors,
    Readings,
    RequestSums,
    expected_gains,
    variance_within,
)
from saibot.search.candidate import Candidate, Group
from saibot.search.corpus import Corpus
from saibot.search.engine import Best
from saibot.search.key_maps import View
from saibot.search.packed_rows import READINGS
from saibot.search.searched_corpus import SHARED
from saibot.search.shared_factors import key_tree
from saibot.search.state import State

QUANTILE = 1.0  # of the usable gain's lower bound: milder than where it ranks alone
CONSIDERED = 300  # candidates that are looked at so closely
LONGEST = 50_000  # keys of one: with a list of a million it would take 700 MB, and a quarter of a minute
MOST_KEYS = 1_000_000  # of all of them together


@dataclass(frozen=True)
class _Known:
    """What a sketch says of its keys, and the factors that its values were helped by, or none."""

    features: Mapping[str, int]
    readings: Readings
    factors: Factors

    def tau2(self, candidate: Candidate) -> float:
        """The variance of a candidate's values over keys; where it stands for itself, as far as it is told from noise and
        a typical one beyond."""
        if candidate.shard.factors:
            return candidate.number("spread")
        return float(self.readings.first_scales[self.features[candidate.feature]])


class Expectations:
    """Expected gains of a search's best candidates; a sketch that has to be read for it is read once."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._read: dict[tuple[str, str], _Known | None] = {}

    def order(self, best: Best, state: State, *, new_keys: bool) -> list[tuple[int, float]]:
        """The places of the best in order, each with the gain that its raw means are expected to have."""
        raw, usable = self._gains(state, best.groups, best.board.gain)
        # On new keys both are less: a slope fits the keys that it was learned from better than others.
        flattery = 2 * best.board.flattery(np.arange(len(best.groups))) if new_keys else 0.0
        first = np.argsort(-(raw + usable - flattery), kind="stable")
        return [(int(place), float(raw[place])) for place in first]

    def _gains(self, state: State, groups: Sequence[Group], usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of raw means and of values. Of several features together the best one's, or all their values' if that is more."""
        raw, now = np.zeros(len(groups)), np.zeros(len(groups))
        alike: dict[tuple[int, str, tuple[str, ...]], list[tuple[int, Candidate, _Known]]] = {}
        keys = 0
        for place, group in enumerate(groups):
            for candidate in group:
                keys += candidate.view.size
                too_long = candidate.view.size > LONGEST or keys > MOST_KEYS
                known = None if too_long else self._known(candidate)
                if known is None:  # too long a list, bare values, factors themselves, or one hop further
                    raw[place] = now[place] = usable[place]
                    continue
                names = known.readings.tree.names
                alike.setdefault((id(candidate.view), candidate.shard.factors, names), []).append((place, candidate, known))
        sums: dict[int, RequestSums] = {}
        for (view, _, _), members in alike.items():
            if view not in sums:
                sums[view] = request_sums(state, members[0][1].view)
            rows = [np.array([known.features[candidate.feature]]) for _, candidate, known in members]
            found = expected_gains(
                members[0][2].factors,
                Readings.join([known.readings.take(row) for row, (_, _, known) in zip(rows, members, strict=True)]),
                np.array([known.tau2(candidate) for _, candidate, known in members]),
                sums[view],
                values=np.array([candidate.own_values()[:-1] for _, candidate, _ in members]),
            )
            for (place, _, _), gain, value in zip(members, found.raw, found.usable, strict=True):
                raw[place], now[place] = max(raw[place], gain), max(now[place], value)
        several = np.array([len(group) > 1 for group in groups], dtype=bool)
        return np.where(several, np.maximum(raw, usable), raw), np.where(several, usable, now)

    def _known(self, candidate: Candidate) -> _Known | None:
        if candidate.via is not None or candidate.dataset.startswith(SHARED):
            return None
        if (kept := self._of_shard(candidate)) is not None:
            return kept
        name = candidate.digest, candidate.shard.factors
        if name not in self._read:
            try:
                self._read[name] = self._of_sketch(*name)
            except InvalidSketch:  # no file: a corpus of bare values, or it is being withdrawn
                self._read[name] = None
        return self._read[name]

    def _of_shard(self, candidate: Candidate) -> _Known | None:
        """As the shard keeps it beside the values; None where it does not."""
        shard = candidate.shard
        if READINGS not in shard.extra or not shard.factors:
            return None
        shared, group = self._corpus.factors_of(shard.factors)
        readings = Readings.unpacked(shard.extra[READINGS][candidate.row][None], shared.tree)
        return None if readings is None else _Known({candidate.feature: 0}, readings, shared.of_group(group))

    def _of_sketch(self, digest: str, factors: str) -> _Known:
        sketch = self._corpus.sketch(digest)
        domain = self._corpus.domain_of(sketch)
        if factors:
            shared, group = self._corpus.factors_of(factors)
            readings, model = shared.readings(sketch, domain), shared.of_group(group)
        else:
            tree = key_tree([sketch], domain)
            readings, model = Readings.of_sketch(sketch, tree, domain if tree.names else None), Factors.none(tree)
        features = {feature.name: place for place, feature in enumerate(sketch.header.features)}
        return _Known(features, readings, model)


def request_sums(state: State, view: View) -> RequestSums:
    """A request's table over the keys of a domain, without rows outside of it."""
    base = state.base(view.index, view.size)
    residuals, noise = (
        np.bincount(view.index, part, view.size)[:-1] for part in (state.residual_sums(), state.residual_noise())
    )
    counts = base.linear[:-1, 0]
    within = variance_within(counts, residuals, noise, state.tss * (1 - state.r2()))
    return RequestSums(counts, residuals, noise, base.linear[:-1, : base.size], base.inverse, state.tss, within)
