"""Every kind of plan held against rows: no pair of neighbouring rows moves a release further than its plan says."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from saibot.privacy.budget import Budget
from saibot.privacy.events import PureEvent
from saibot.privacy.mechanisms import joint, make_plan
from tests.support.plans import ADD, SHAPES, TERMS, claimed_distance, request, with_noise, worst_rows


@pytest.mark.parametrize("features, bound_squared", [(1, "1"), (2, "25"), (4, "0.5")])
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("mechanism, layout, extra", SHAPES)
def test_no_pair_of_rows_moves_a_release_further_than_its_plan_says(
    mechanism: str, layout: str, extra: dict[str, Any], pure: bool, features: int, bound_squared: str
):
    budget = Budget("1", 0 if pure else "1e-6")
    for terms in TERMS:
        facts = extra | terms | {"features": features, "bound_squared": Decimal(bound_squared), "budget": budget}
        plan = make_plan(request(mechanism, layout, **facts))
        found = worst_rows(plan)
        assert found <= claimed_distance(plan) * (1 + 1e-9), terms
        if mechanism == "joint" and not pure:  # the joint plan wastes nothing
            assert found >= claimed_distance(plan) * 0.99, terms
        if mechanism == "joint" and layout == "semiring" and pure:  # nor does its Laplace form, exact up to order 2
            assert found >= claimed_distance(plan) * (0.999 if plan.request.order == 2 else 0.9), terms


@pytest.mark.parametrize("mechanism, layout, extra", [SHAPES[6], SHAPES[9], SHAPES[10], SHAPES[11]])
@pytest.mark.parametrize("terms", TERMS)
def test_rows_would_tell_a_plan_with_two_per_cent_less_noise(
    mechanism: str, layout: str, extra: dict[str, Any], terms: dict[str, Any]
):
    plan = make_plan(request(mechanism, layout, **(extra | terms)))
    assert worst_rows(with_noise(plan, 0.98)) > claimed_distance(plan)


# ------------------------------------------------------------------------------------------------ Laplace


@pytest.mark.parametrize("features", [1, 2, 3, 6])
@pytest.mark.parametrize("mechanism, layout, extra", [s for s in SHAPES if s[2].get("order", 2) == 2 and s[1] != "union"])
def test_a_laplace_plan_spends_epsilon_exactly_by_the_formula_of_a_moved_key(
    mechanism: str, layout: str, extra: dict[str, Any], features: int
):
    """mathematics.md, "Sensitivity": 2/b0 + 2 sqrt(m) B/b1 + (m+1) B^2/b2, levels summed; a global one as in a union."""
    plan = make_plan(request(mechanism, layout, **(extra | {"features": features, "budget": Budget("0.7")})))
    assert plan.noise == plan.calibration == "laplace" and plan.mu is None
    b = 5.0
    union2 = b**2 * {1: 1.0, 2: math.sqrt(16 + 4) / 2, 3: math.sqrt(25 + 8) / 2, 6: 7.0}[features]
    moved = {0: 2.0, 1: 2 * math.sqrt(features) * b, 2: (features + 1) * b**2}
    in_place = {1: 2 * math.sqrt(features) * b, 2: union2}
    costs = [(moved if x.scope == "key" else in_place)[x.order] / (x.sigma / math.sqrt(2)) for x in plan.blocks]
    assert sum(costs) == pytest.approx(0.7, rel=1e-9)
    assert plan.events == (PureEvent(Decimal("0.7")),)


@pytest.mark.parametrize("mechanism, layout, extra", [s for s in SHAPES if s[2].get("order", 2) == 2])
def test_a_laplace_plan_spends_epsilon_exactly_when_a_row_is_added(mechanism: str, layout: str, extra: dict[str, Any]):
    """mathematics.md, "Sensitivity": 1/b0 + sqrt(m) B/b1 + (m+1) B^2/(2 b2), levels summed."""
    plan = make_plan(request(mechanism, layout, **(extra | {"features": 3, "budget": Budget("2"), "neighbours": ADD})))
    added = {0: 1.0, 1: math.sqrt(3) * 5, 2: 4 * 25 / 2}
    assert sum(added[x.order] / (x.sigma / math.sqrt(2)) for x in plan.blocks) == pytest.approx(2, rel=1e-9)


def test_a_laplace_union_plan_spends_epsilon_exactly():
    for mechanism in ("fpm", "joint"):
        plan = make_plan(request(mechanism, "union", budget=Budget("1"), features=4))
        parts = {1: 2 * math.sqrt(4) * 5, 2: 25 * math.sqrt(36 + 16) / 2}
        assert sum(parts[x.order] / (x.sigma / math.sqrt(2)) for x in plan.blocks) == pytest.approx(1, rel=1e-9)


def test_laplace_noise_has_no_gain_off_the_diagonal():
    """The multinomial weight is not free in l1."""
    for block in make_plan(request(budget=Budget("1"))).blocks:
        assert not block.weighted and block.noise_of(2) == block.sigma


# ------------------------------------------------------------------------------------------------ Laplace with key levels


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("features", [1, 4])
def test_a_pure_plan_with_key_levels_and_the_default_proportions_is_finite(
    levels: int, features: int, terms: dict[str, Any]
):
    """Minimising its predicted error used to send a block's noise off to where floats end."""
    keys = (1000, 50, 5)[:levels]
    for facts in ({}, {"keys": keys, "rows": 100_000}):
        plan = make_plan(request(layout="lookup", levels=levels, features=features, budget=Budget("1"), **terms, **facts))
        for block in plan.blocks:
            assert math.isfinite(block.sigma) and 0 < block.sigma < 1e10
        assert plan.mu is None and joint.affordable(plan, tolerance=1e-9)
        finest = [block for block in plan.blocks if block.scope == "key" and block.level == 0]
        equal = make_plan(replace(plan.request, allocation="equal"))
        for block in finest:  # what the regression reads most has no more noise than it would have without any thought
            own = equal.block("key", block.order)
            assert own is not None and block.sigma < 2 * own.sigma
