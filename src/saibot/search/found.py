"""What a search found while it still holds the numbers it computed with; `saibot.search.document` makes a result of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from saibot.search.state import State
from saibot.search.units import Units
from saibot.sketch import Implausible
from saibot.wire import Dropped, Identity
from saibot.wire.result import Pair

if TYPE_CHECKING:
    from saibot.search.corpus import Corpus
    from saibot.search.explain import Table


@dataclass(frozen=True)
class Found:
    """A candidate with its score at one step."""

    kind: Literal["join", "many-to-many", "union"]
    dataset: str
    digest: str
    feature: str | None  # None for a union, and for several features taken together
    key: tuple[tuple[str, str | None], ...]  # the request's parts (and levels) that it was joined on
    gain: float  # usable: with the private values as they are
    lower: float
    upper: float
    coefficient: float | None  # original units of the feature
    reliability: float | None  # how much of the values' spread is signal
    rows: int | None
    note: str
    coefficient_interval: Pair | None = None
    coverage: float | None = None  # share of the request's rows whose key the provider's domain holds
    privacy_share: float | None = None  # of the gain's error: the request's privacy noise, as against sampling
    new_keys: float | None = None  # the gain on keys that training never saw; of a local request
    potential: float | None = None  # what the provider's raw means would give
    potential_interval: Pair | None = None
    expected: float | None = None  # the best guess at the same, where that is what was ranked by
    via: str | None = None  # digest of the dataset whose counts lead to it, one hop further
    features: tuple[str, ...] = ()  # of a join, one or several
    units: tuple[Units, ...] = ()  # of each of them: `original = offset + scale * deviation`
    unit: tuple[str, ...] = ()
    spread: tuple[float, ...] = ()  # variance of the values between keys, scaled
    factors: str = ""  # the shared factors that helped its values, as shards name them
    provider: str | None = None  # whose it is; None where nobody is known to be
    signer: str | None = None  # fingerprint of the key that signed its sketch
    flags: tuple[Implausible, ...] = ()  # what is hard to believe of its sketch

    def rescaled(self, ratio: float) -> Found:
        """The same with all gains as shares of something else."""

        def pair(ends: Pair | None) -> Pair | None:
            return None if ends is None else (ends[0] * ratio, ends[1] * ratio)

        single = {name: getattr(self, name) for name in ("gain", "lower", "upper", "new_keys", "potential")}
        changed = {name: value * ratio for name, value in single.items() if value is not None}
        return replace(self, potential_interval=pair(self.potential_interval), **changed)

    @property
    def identity(self) -> Identity:
        return Identity(self.digest, self.feature, self.key, self.via)


@dataclass(frozen=True)
class TakenStep:
    """One accepted augmentation, and the model after it."""

    found: Found
    train_r2: float
    test_r2: float | None
    test_interval: Pair | None  # of test_r2: privacy noise for a private request, sampling for a local one
    values: np.ndarray | None = field(repr=False, compare=False)  # (features, finest keys), scaled deviations, for joins

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the new columns."""
        return tuple(f"{self.found.dataset}.{feature}" for feature in self.found.features)


@dataclass(frozen=True)
class SearchResult:
    """Base model, accepted steps in order, the ranking of the first step, and what was dropped, with reasons."""

    request: str
    target: str
    private: bool
    base_train_r2: float
    base_test_r2: float | None
    steps: tuple[TakenStep, ...]
    ranked: tuple[Found, ...]
    dropped: tuple[Dropped, ...]
    candidates: int  # joins and unions together
    stopped: str
    unions: int = 0  # of the candidates
    rank: str = "usable"
    interval_confidence: float = 0.9
    join: str = "lookup"
    notes: tuple[str, ...] = ()  # what the numbers rest on, where that is not the same for all searches
    base_test_interval: Pair | None = None
    first: State | None = field(default=None, repr=False, compare=False)  # the training table before the first step
    final: State | None = field(default=None, repr=False, compare=False)  # and after the last
    table: Table | None = field(default=None, repr=False, compare=False)  # the same, as errors are read off it


def with_providers(result: SearchResult, corpus: Corpus) -> SearchResult:
    """The same, naming whose sketch each candidate is, who signed it, and what is hard to believe of it."""
    known = corpus.entries([*(one.digest for one in result.ranked), *(step.found.digest for step in result.steps)])

    def named(found: Found) -> Found:
        entry = known.get(found.digest)  # none of what tables have in common
        if entry is None:
            return found
        return replace(found, provider=entry.provider or None, signer=entry.signer, flags=entry.flags)

    steps = tuple(replace(step, found=named(step.found)) for step in result.steps)
    return replace(result, ranked=tuple(named(one) for one in result.ranked), steps=steps)
