"""Shared by the tests of `estimate`: tables with keys, the moments a private request would have of them, and sketches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.semiring import Moments
from saibot.sketch import Sketch


class SimulatedNoise:
    """Seeded noise; without a seed, none at all."""

    simulated = True

    def __init__(self, seed: int | None) -> None:
        self._rng = None if seed is None else np.random.default_rng(seed)

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        if self._rng is None:
            return values
        return values + np.rint(self._rng.normal(0, scale, values.shape)).astype(np.int64)

    laplace = gaussian

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        return int(scores.argmin())


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
        sketch = privatize(frame, request, Ledger(saibot_home), noise=SimulatedNoise(seed)).sketch
        return without_noise(sketch) if seed is None else sketch

    return make


@pytest.fixture
def noisy() -> Callable[..., Moments]:
    """noisy(moments, rng, ...): what a lookup sketch of these rows would say, with noise of these sizes."""
    return add_noise


def add_noise(exact: Moments, rng: np.random.Generator, *, counts: float, sums: float, products: float) -> Moments:
    d, m = exact.sums.shape
    c, s = exact.counts + rng.normal(size=d) * counts, exact.sums + rng.normal(size=(d, m)) * sums
    # The global block has the noise of one key's sums; the total is the inverse-variance average of both readings.
    reading = exact.total + rng.normal(size=m) * sums
    weight = d / (d + 1)
    noise = rng.normal(size=(m, m)) * products / np.sqrt(2)
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(rng.normal(size=m) * products)
    return replace(
        exact,
        counts=c,
        sums=s,
        products=exact.products + noise,
        total=weight * reading + (1 - weight) * s.sum(axis=0),
        count_noise=np.full(d, counts),
        sum_noise=np.full(d, sums),
        product_noise=np.where(np.eye(m, dtype=bool), products, products / np.sqrt(2)),
        total_noise=np.full(m, sums * np.sqrt(weight)),
        key_products=None,
        key_product_noise=None,
    )
