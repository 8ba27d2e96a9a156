"""What a search found, why, and what it left aside. Values only: rows and data frames belong to the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from saibot.search.state import State
from saibot.search.terms import Units

Pair = tuple[float, float]
UNCLEAR = 0.5  # a held-out R2 whose interval is wider than this is not worth showing as a number


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
    potential: float | None = None  # what the provider's raw means would give
    potential_interval: Pair | None = None
    expected: float | None = None  # the best guess at the same, where that is what was ranked by
    via: str | None = None  # digest of the dataset whose counts lead to it, one hop further
    features: tuple[str, ...] = ()  # of a join, one or several
    units: tuple[Units, ...] = ()  # of each of them: `original = offset + scale * deviation`
    unit: tuple[str, ...] = ()
    spread: tuple[float, ...] = ()  # variance of the values between keys, scaled

    @property
    def identity(self) -> tuple[str, str | None, tuple[tuple[str, str | None], ...], str | None]:
        return self.digest, self.feature, self.key, self.via

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "dataset": self.dataset,
            "digest": self.digest,
            "feature": self.feature,
            "features": list(self.features),
            "key": [{"part": part, "level": level} for part, level in self.key],
            "gain": self.gain,
            "interval": [self.lower, self.upper],
            "potential": self.potential,
            "potential_interval": None if self.potential_interval is None else list(self.potential_interval),
            "expected": self.expected,
            "coefficient": self.coefficient,
            "coefficient_interval": None if self.coefficient_interval is None else list(self.coefficient_interval),
            "reliability": self.reliability,
            "coverage": self.coverage,
            "privacy_share": self.privacy_share,
            "rows": self.rows,
            "note": self.note,
            "via": self.via,
        }


@dataclass(frozen=True)
class Step:
    """One accepted augmentation, and the model after it."""

    found: Found
    train_r2: float
    test_r2: float | None
    test_interval: tuple[float, float] | None  # of test_r2: privacy noise for a private request, sampling for a local one
    values: np.ndarray | None = field(repr=False, compare=False)  # (features, finest keys), scaled deviations, for joins

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the new columns."""
        return tuple(f"{self.found.dataset}.{feature}" for feature in self.found.features)

    def to_json(self) -> dict[str, Any]:
        column = ", ".join(self.columns) or self.found.dataset
        return self.found.to_json() | {
            "train_r2": self.train_r2,
            "test_r2": self.test_r2,
            "test_interval": None if self.test_interval is None else list(self.test_interval),
            "column": column,
        }


@dataclass(frozen=True)
class Dropped:
    """Candidates left aside for one reason: how many, and which for example."""

    reason: str
    count: int
    examples: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.reason, "count": self.count, "examples": list(self.examples)}


@dataclass(frozen=True)
class SearchResult:
    """Base model, accepted steps in order, the ranking of the first step, and what was dropped, with reasons."""

    request: str
    target: str
    private: bool
    base_train_r2: float
    base_test_r2: float | None
    steps: tuple[Step, ...]
    ranked: tuple[Found, ...]
    dropped: tuple[Dropped, ...]
    candidates: int  # joins and unions together
    stopped: str
    unions: int = 0  # of the candidates
    rank: str = "usable"
    join: str = "lookup"
    notes: tuple[str, ...] = ()  # what the numbers rest on, where that is not the same for all searches
    base_test_interval: tuple[float, float] | None = None
    final: State | None = field(default=None, repr=False, compare=False)  # the training table after the last step

    def to_json(self) -> dict[str, Any]:
        return {
            "format": "saibot-result",
            "version": 1,
            "request": self.request,
            "target": self.target,
            "private": self.private,
            "base": {
                "train_r2": self.base_train_r2,
                "test_r2": self.base_test_r2,
                "test_interval": None if self.base_test_interval is None else list(self.base_test_interval),
            },
            "steps": [step.to_json() for step in self.steps],
            "ranked": [found.to_json() for found in self.ranked],
            "dropped": [dropped.to_json() for dropped in self.dropped],
            "candidates": self.candidates,
            "unions": self.unions,
            "rank": self.rank,
            "join": self.join,
            "stopped": self.stopped,
        }
