"""Shared by the tests of `privatize`: a ledger, exact statistics of any table, and noise sources that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Prepared, ReleaseRequest, prepare
from saibot.privatize.aggregate import ExactStatistics, aggregate

BUDGET, REPLACE_ONE = Budget("1", "1e-6"), Neighbours.REPLACE_ONE


class SeededNoise:
    """Simulated noise, the same for the same seed."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return values + np.rint(self._rng.normal(0, scale, values.shape)).astype(np.int64)

    def laplace(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return values + np.rint(self._rng.laplace(0, scale, values.shape)).astype(np.int64)

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        return int((scores - self._rng.gumbel(0, 2 * sensitivity / epsilon, scores.shape)).argmin())


class NoNoise:
    """Adds nothing: what comes out is what went in. Keeps the scales it was asked for."""

    simulated = True

    def __init__(self) -> None:
        self.scales: list[float] = []
        self.drawn = 0

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        self.scales.append(scale)
        self.drawn += values.size
        return values

    laplace = gaussian

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        self.scales.append(2 * sensitivity / epsilon)
        return int(scores.argmin())


@pytest.fixture
def ledger(saibot_home: Path) -> Ledger:
    return Ledger(saibot_home)


@pytest.fixture
def seeded() -> Callable[[int], SeededNoise]:
    return SeededNoise


@pytest.fixture
def no_noise() -> NoNoise:
    return NoNoise()


@pytest.fixture
def ready(ledger: Ledger) -> Callable[..., Prepared]:
    """ready(table, card, **request): the request checked against its table, nothing spent."""

    def build(table: Any, card: dict[str, Any], **options: Any) -> Prepared:
        terms = {"budget": BUDGET, "neighbours": REPLACE_ONE} | options
        if terms.get("mechanism", "joint") == "joint":
            terms.setdefault("allocation", "equal")  # the quickest to plan; nothing here depends on it
        return prepare(table, ReleaseRequest(Card.parse(card), **terms), ledger)

    return build


@pytest.fixture
def exact(ready: Callable[..., Prepared]) -> Callable[..., ExactStatistics]:
    """exact(table, card, **request): the integer sums that a release would add noise to."""

    def build(table: Any, card: dict[str, Any], **options: Any) -> ExactStatistics:
        checked = ready(table, card, **options)
        return aggregate(checked.rows, checked.grid, order=checked.request.order)

    return build
