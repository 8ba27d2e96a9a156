"""What the chosen columns would be worth if their providers had spent another budget, and a private request another of its
own: from sketches that are public and from the result, at no cost.

How much of a column's values would be signal is `saibot.estimate.other_budget`'s to say. A gain goes with it: private values
are posterior means, so the slope on them stays, and their spread grows with the share that is signal (see `potential`).
Between now and no noise at all, the gain moves from the usable one to the potential one in proportion; towards more noise it
shrinks to nothing. Where too little is known of the values to tell a potential gain, no gain is told either.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from saibot.errors import InvalidInput, InvalidSketch
from saibot.estimate.other_budget import EPSILONS, Signal, helped_signal, noise_ratio, own_signal
from saibot.search.corpus import Corpus
from saibot.search.found import Found, SearchResult
from saibot.search.request import SearchRequest
from saibot.search.searched_corpus import SHARED
from saibot.sketch import Sketch
from saibot.wire import OtherBudgets, WhatIf
from saibot.wire.dataset import Cost
from saibot.wire.result import Pair

SHOWN = 5  # columns: those that were taken, then the best of the others


@dataclass(frozen=True)
class _Considered:
    found: Found
    name: str
    taken: bool


def what_if(found: SearchResult, request: SearchRequest, corpus: Corpus) -> WhatIf | None:
    """None where nothing was joined, or could be."""
    considered = _considered(found)
    if found.join != "lookup" or (not considered and request.plan is None):
        return None
    sketches: dict[str, Sketch | None] = {}
    columns = tuple(_column(one, corpus, sketches) for one in considered)
    noise: tuple[float | None, ...] = ()
    cost = None
    if request.plan is not None:
        budget = request.plan.request.budget
        cost = Cost(**budget.to_json())
        noise = tuple(noise_ratio(request.plan, epsilon, now=budget.epsilon) for epsilon in EPSILONS)
    return WhatIf(epsilons=EPSILONS, columns=columns, request=cost, request_noise=noise)


def _considered(found: SearchResult) -> list[_Considered]:
    taken = [_Considered(step.found, ", ".join(step.columns), True) for step in found.steps if step.found.kind == "join"]
    there = {one.found.identity for one in taken}
    others = [one for one in found.ranked if one.kind == "join" and one.identity not in there]
    named = [_Considered(one, ", ".join(f"{one.dataset}.{feature}" for feature in one.features), False) for one in others]
    return (taken + named)[: max(SHOWN, len(taken))]


def _column(one: _Considered, corpus: Corpus, sketches: dict[str, Sketch | None]) -> OtherBudgets:
    found = one.found
    if found.digest not in sketches:
        sketches[found.digest] = _sketch(corpus, found)
    sketch = sketches[found.digest]
    untold = _untold(found, sketch)
    told = None if untold or sketch is None else _signal(found, sketch, corpus)
    gains = [_gain(found, told.now, share) for share in told.share] if told is not None else []
    return OtherBudgets(
        name=one.name,
        dataset=found.dataset,
        digest=found.digest,
        taken=one.taken,
        budget=None if sketch is None or sketch.header.open else Cost(**sketch.header.budget),
        kept=() if told is None else told.share,
        kept_interval=() if told is None else told.interval,
        kept_now=None if told is None else told.now,
        gain=tuple(None if gain is None else gain[0] for gain in gains),
        gain_interval=tuple(None if gain is None else gain[1] for gain in gains),
        gain_now=found.gain,
        gain_interval_now=(found.lower, found.upper),
        untold=untold,
    )


def _sketch(corpus: Corpus, found: Found) -> Sketch | None:
    try:
        return None if found.dataset.startswith(SHARED) or found.via is not None else corpus.sketch(found.digest)
    except (InvalidSketch, InvalidInput, OSError):  # a corpus of bare values, or it is being withdrawn
        return None


def _untold(found: Found, sketch: Sketch | None) -> str:
    if found.dataset.startswith(SHARED):
        return "it is what many tables share, and no single budget's"
    if found.via is not None:
        return "it is reached through another table, over whose keys its noise is averaged"
    if sketch is None:
        return "its sketch is not at hand"
    return "an open table: its values are exact" if sketch.plan is None else ""


def _signal(found: Found, sketch: Sketch, corpus: Corpus) -> Signal:
    plan = sketch.plan
    assert plan is not None
    now = Decimal(sketch.header.budget["epsilon"])
    ratios = [noise_ratio(plan, epsilon, now=now) for epsilon in EPSILONS]
    rows = np.array([sketch.features.index(feature) for feature in found.features])
    domain = corpus.domain_of(sketch)
    if found.factors:
        shared, group = corpus.factors_of(found.factors)
        return helped_signal(shared.of_group(group), shared.readings(sketch, domain).take(rows), ratios)
    key = sketch.header.key
    levels = domain.with_levels(key.levels) if domain and key and key.levels else None
    parents = [levels.parent_index(i + 1) for i in range(len(levels.level_names))] if levels else []
    return own_signal(sketch, parents, rows, ratios)


def _gain(found: Found, now: float, share: float | None) -> tuple[float, Pair] | None:
    """The usable gain with its interval where the values kept such a share of the true ones' spread, and not that of now."""
    ends = found.lower, found.upper
    if share is None or not now or found.potential is None or found.potential_interval is None:
        return None
    if share <= now:
        part = share / now
        return found.gain * part, (ends[0] * part, ends[1] * part)
    part = (share - now) / max(1 - now, 1e-12)

    def moved(usable: float, potential: float) -> float:
        return usable + (potential - usable) * min(part, 1.0)

    low, high = (moved(*pair) for pair in zip(ends, found.potential_interval, strict=True))
    return moved(found.gain, max(found.potential, found.gain)), (low, high)
