"""Shared by the tests of `estimate`: tables with keys, the moments a private request would have of them, and sketches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.semiring import Moments
from saibot.sketch import Sketch
from tests.support.moments import add_noise
from tests.support.noise import simulated


def without_noise(sketch: Sketch) -> Sketch:
    """The same sketch with a plan that says what its numbers are: exact."""
    plan = replace(sketch.plan, blocks=tuple(replace(block, sigma=0.0) for block in sketch.plan.blocks))
    copy = Sketch(sketch.header, sketch.levels)
    copy.__dict__["plan"] = plan
    return copy


@pytest.fixture
def sketch_of(saibot_home: Path) -> Callable[..., Sketch]:
    """sketch_of(frame, card, key, ...): a sketch with simulated noise of a seed, or exact when there is none."""

    def make(
        frame: pd.DataFrame,
        card: dict[str, Any],
        key: str | None,
        *,
        epsilon: str = "1",
        seed: int | None = None,
        **options: Any,
    ) -> Sketch:
        facts = {"budget": {"cap": {"epsilon": "1000000", "delta": "1e-4"}}} | card
        terms = {"neighbours": Neighbours.REPLACE_ONE} | options
        request = ReleaseRequest(Card.parse(facts), Budget(epsilon, "1e-6"), key=key, **terms)
        sketch = privatize(frame, request, Ledger(saibot_home), noise=simulated(seed)).sketch
        return without_noise(sketch) if seed is None else sketch

    return make


@pytest.fixture
def noisy() -> Callable[..., Moments]:
    """noisy(moments, rng, ...): what a lookup sketch of these rows would say, with noise of these sizes."""
    return add_noise
