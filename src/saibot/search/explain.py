"""What is said of a candidate that is shown: its gain with an honest interval, and what stands behind it.

The sweep scores thousands in one pass, with an error that is good enough to rank by. The few that are shown get the exact
form (`saibot.estimate.intervals`; mathematics.md, "Gains and their errors"), each against the table as it is at that step.
What an interval is about:

* the usable gain of a *private* request: of this very table. The request's privacy noise is the only error; the values
  are public, and used as they are, so the provider's noise is no error of them.
* the usable gain of a *local* request: of keys and rows like these. Sampling is the only error.
* the *potential* gain, what the provider's raw means would give: the same, and the provider's noise besides.

They hold for a candidate by itself. The first of a long ranking is there because it looks good, and so tends to be a little
worse than it looks; the rule that stops the search allows for that, an interval does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from saibot.estimate.intervals import GainInterval, coefficient_interval, gain_interval, new_key_gain
from saibot.estimate.quadratic import Sampling
from saibot.search.candidate import Candidate
from saibot.search.found import Found
from saibot.search.key_maps import View
from saibot.search.parts import silent
from saibot.search.potential import signal_share
from saibot.semiring import Fit, Moments
from saibot.wire import SearchOptions
from saibot.wire.result import Pair

UNTOLD = 0.5  # relative variance of the share of signal: beyond it, what raw means would give is anybody's guess


@dataclass(frozen=True)
class Table:
    """The training table at some step: moments over the finest keys, and the columns that were joined so far."""

    moments: Moments
    target: str
    lookups: tuple[np.ndarray, ...]
    private: bool

    @property
    def own(self) -> tuple[str, ...]:
        return tuple(name for name in self.moments.features if name != self.target)

    @cached_property
    def _by_view(self) -> dict[int, tuple[View, Moments]]:
        return {}

    def grouped(self, view: View) -> Moments:
        """The moments by the keys of one domain, own features first and the target last; made once for all candidates."""
        if id(view) not in self._by_view:
            found = self.moments.onto(view.index, view.size).select((*self.own, self.target))
            self._by_view[id(view)] = view, found  # the view, too: while it lives, its id is its own
        return self._by_view[id(view)][1]

    @cached_property
    def fit(self) -> Fit:
        """The model before any candidate; solved once for all of them."""
        names = [f"z{i}" for i in range(len(self.lookups))]
        values = np.column_stack(self.lookups) if self.lookups else None
        return self.moments.gram(values, names).fit((*self.own, *names), self.target, ridge=0.0)

    @property
    def sampling(self) -> Sampling | None:
        return None if self.private else "keys"


def describe(
    table: Table, candidates: Sequence[Candidate], options: SearchOptions, *, expected: float | None = None
) -> Found:
    """A feature of a dataset, or several of its features taken together."""
    first, alone = candidates[0], len(candidates) == 1
    problem = _Regression.of(table, candidates)
    gain = problem.gain(options.interval, table.sampling)
    slope = problem.slope(options.interval, table.sampling) if alone else None
    potential = problem.potential(candidates, gain, options.interval, table.private)
    scale = max(first.number("scale"), 1e-300)
    rows = first.number("rows")
    return Found(
        kind="join",
        dataset=first.dataset,
        digest=first.digest,
        feature=first.feature if alone else None,
        key=first.view.parts,
        gain=gain.value,
        lower=max(gain.lower, 0.0),
        upper=gain.upper,
        coefficient=float(problem.full[-1]) / scale if alone else None,
        coefficient_interval=None if slope is None else (slope[0] / scale, slope[1] / scale),
        reliability=float(np.mean([candidate.number("reliability") for candidate in candidates])),
        rows=None if math.isnan(rows) else int(rows),
        coverage=_coverage(table.moments, first),
        privacy_share=problem.privacy_share() if table.private else 0.0,
        new_keys=None if table.private else problem.on_new_keys(),
        potential=None if potential is None else potential[0],
        potential_interval=None if potential is None else potential[1:],
        expected=expected,
        note=_note(candidates, gain, told=potential is not None),
        via=first.via,
        features=tuple(candidate.feature for candidate in candidates),
        units=tuple(candidate.units for candidate in candidates),
        unit=tuple(candidate.shard.cell("unit", candidate.row) for candidate in candidates),
        spread=tuple(candidate.number("spread") for candidate in candidates),
        factors=candidates[0].shard.factors,
    )


def _note(candidates: Sequence[Candidate], gain: GainInterval, *, told: bool) -> str:
    numbers = np.array([[candidate.number(name) for name in ("spread", "reliability")] for candidate in candidates])
    if silent(numbers[:, 0], numbers[:, 1]).all():
        doubt = "its values are all noise at this key"
    else:
        doubt = "its gain is not clear of its noise" if gain.lower <= 0 else ""
    untold = "" if told else "too little of its values is signal to say what raw means would give"
    exact = "an open table: its values are exact" if candidates[0].open else ""
    return "; ".join(part for part in (doubt, untold, exact, candidates[0].view.note) if part)


def _coverage(moments: Moments, candidate: Candidate) -> float:
    """The share of the request's rows whose key is in the provider's domain."""
    inside = float(moments.counts[candidate.view.index < candidate.view.size - 1].sum())
    return min(max(inside / max(moments.count, 1.0), 0.0), 1.0)


@dataclass(frozen=True)
class _Regression:
    """The target on own features and looked-up values, the last `added` of them new: coefficients without and with those."""

    moments: Moments
    own: tuple[str, ...]
    target: str
    values: np.ndarray  # (keys, columns)
    added: int
    clusters: np.ndarray | None  # keys among the candidate's own, where the moments are over finer ones
    base: np.ndarray
    full: np.ndarray
    tss: float

    @classmethod
    def of(cls, table: Table, candidates: Sequence[Candidate]) -> _Regression:
        view, added = candidates[0].view, len(candidates)
        clusters: np.ndarray | None
        if table.lookups:
            moments, clusters = table.moments, view.index
            values = np.column_stack([*table.lookups, *(candidate.values() for candidate in candidates)])
        else:  # the candidate's own keys are as fine as need be, and fewer
            moments, clusters = table.grouped(view), None
            values = np.column_stack([candidate.own_values() for candidate in candidates])
        names = [f"z{i}" for i in range(values.shape[1])]
        gram = moments.select((*table.own, table.target)).gram(values, names)
        wide = gram.fit((*table.own, *names), table.target, ridge=0.0)
        base = np.concatenate([table.fit.theta, np.zeros(added)])
        return cls(moments, table.own, table.target, values, added, clusters, base, wide.theta, wide.tss)

    def gain(self, confidence: float, sampling: Sampling | None) -> GainInterval:
        return gain_interval(
            self.moments,
            own=self.own,
            target=self.target,
            values=self.values,
            base=self.base,
            full=self.full,
            confidence=confidence,
            sampling=sampling,
            clusters=self.clusters,
            added=self.added,
        )

    def on_new_keys(self) -> float:
        return new_key_gain(
            self.moments,
            own=self.own,
            target=self.target,
            values=self.values,
            base=self.base,
            full=self.full,
            clusters=self.clusters,
            added=self.added,
        )

    def slope(self, confidence: float, sampling: Sampling | None) -> Pair | None:
        """The interval of the last coefficient, None where noise leaves it open."""
        found = coefficient_interval(
            self.moments,
            own=self.own,
            target=self.target,
            values=self.values,
            index=len(self.full) - 1,
            confidence=confidence,
            sampling=sampling,
            clusters=self.clusters,
        )
        return (found.lower, found.upper) if math.isfinite(found.lower) and math.isfinite(found.upper) else None

    @cached_property
    def whole_error(self) -> GainInterval:
        """The gain with both its errors, as of keys like these."""
        return self.gain(0.9, "keys")

    def privacy_share(self) -> float:
        """How much of the gain's variance is the request's own privacy noise."""
        whole = self.whole_error.error**2
        return self.whole_error.privacy_error**2 / whole if 0 < whole < math.inf else 1.0 if whole else 0.0

    def potential(
        self, candidates: Sequence[Candidate], gain: GainInterval, confidence: float, private: bool
    ) -> tuple[float, float, float] | None:
        """The gain with the provider's true means, and its interval: see `saibot.search.potential`. None where too little
        of the values is signal to say: that gain is the usable one over a share which may then be anything.

        Of several features, each part of the gain is scaled by its own share of signal. A private request's gain is about
        this very table, so its error leaves out chance; but the provider's noise meets what the values do not explain of
        each key by chance all the same, in proportion to its part of their spread.

        Values that shared factors helped show more of what tables have in common than of what is a table's own, and a
        request may depend on the two differently. So the slope on what noise hides is as uncertain as it is large.
        """
        counts = np.maximum(self.moments.counts, 0.0)
        keys = max(int(np.count_nonzero(counts > 0)), 1)
        parts, shares, variances, hidden = [], [], [], []
        for i, candidate in enumerate(candidates):
            column, slope = self.values[:, i - self.added], float(self.full[i - self.added])
            deviation = column - counts @ column / max(counts.sum(), 1e-300)
            known = candidate.via is not None  # a mean over many keys: what is unknown of each is nearly averaged out
            share, variance = signal_share(np.array(1.0 if known else candidate.number("reliability")), keys)
            parts.append(slope**2 * float(counts @ deviation**2))
            shares.append(float(share))
            variances.append(float(variance))
            hidden.append((1 - float(share)) ** 2 if candidate.shard.factors else 0.0)
        if max(variances) > UNTOLD:
            return None
        if not gain.value > 0 or self.tss <= 0:
            return 0.0, 0.0, gain.upper
        weights = np.array(parts) / max(sum(parts), 1e-300)
        ratio = max(float(weights @ (1 / np.array(shares) / (1 + np.array(variances)))), 1.0)
        provider = float(weights**2 @ (np.array(variances) / 4 + np.array(hidden)))  # relative variance of the root
        request = _root_variance(gain.value, gain.error)
        if private:
            request += (1 - float(weights @ np.array(shares))) * _root_variance(gain.value, self.whole_error.sampling_error)
        value = gain.value * ratio
        spread = math.sqrt(ratio * request + value * provider)
        if not math.isfinite(spread):
            return min(value, 1.0), 0.0, 1.0
        z = float(ndtri((1 + confidence) / 2))
        low, high = max(math.sqrt(value) - z * spread, 0.0) ** 2, (math.sqrt(value) + z * spread) ** 2
        return min(value, 1.0), min(low, 1.0), min(high, 1.0)


def _root_variance(gain: float, error: float) -> float:
    """From the error of g to the variance of its root: 4 g v + 2 v^2 = error^2."""
    return math.sqrt(gain**2 + error**2 / 2) - gain if math.isfinite(error) else math.inf
