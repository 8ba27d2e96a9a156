"""The cost model of a search step: what it is fitted to comes back, and a plan adds up."""

from __future__ import annotations

import numpy as np
import pytest

from research.benchmarks.capacity import SIZES, fitted, planned
from saibot.search.scored_sweep import scored_sweep


def seconds(candidates: int, keys: int, own: int) -> float:
    return 1e-4 + 2e-9 * candidates + 1e-11 * candidates * keys * (1 + 0.1 * (own - 2))


def test_a_cost_that_follows_the_model_is_found_again() -> None:
    cost = fitted("threads", [(*size, seconds(*size)) for size in SIZES])
    assert cost.worst < 1e-6
    assert cost.seconds(3_000_000, 1000, 5) == pytest.approx(seconds(3_000_000, 1000, 5))


def test_a_cost_that_does_not_follow_it_says_by_how_much() -> None:
    cost = fitted("threads", [(*size, seconds(*size) * (2 if size[1] == 10_000 else 1)) for size in SIZES])
    assert cost.worst > 0.1


def test_a_plan_has_as_many_machines_as_hold_the_values() -> None:
    cost = fitted("threads", [(*size, seconds(*size)) for size in SIZES])
    rows = planned([cost]).splitlines()
    assert len(rows) == 5
    assert "| 10^9 | 5,000,000,000 | 20,000 GB | 100, " in rows[-1]


def test_own_features_of_any_number_can_be_measured() -> None:
    from research.benchmarks.gpu import synthetic_base

    values = np.random.default_rng(0).standard_normal((300, 20), np.float32)
    assert len(scored_sweep(values, synthetic_base(20, own=8), quantile=2.0).gain) == 300
