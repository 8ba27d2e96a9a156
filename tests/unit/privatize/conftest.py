"""Shared by the tests of `privatize`: a ledger, exact statistics of any table, and noise sources that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from research.seeded import Seeded
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Prepared, ReleaseRequest, prepare
from saibot.privatize.aggregate import ExactStatistics, aggregate
from tests.support.noise import NoNoise

BUDGET, REPLACE_ONE = Budget("1", "1e-6"), Neighbours.REPLACE_ONE


@pytest.fixture
def ledger(saibot_home: Path) -> Ledger:
    return Ledger(saibot_home)


@pytest.fixture
def seeded() -> Callable[[int], Seeded]:
    return Seeded


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
