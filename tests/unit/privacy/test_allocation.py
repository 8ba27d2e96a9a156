"""The proportions of the noise: `auto` comes close to the best of a slow search, and predicted errors add up by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from itertools import product as cartesian
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from saibot.privacy.budget import Budget
from saibot.privacy.mechanisms import ALLOCATIONS, Plan, PlanRequest, joint, make_plan
from saibot.privacy.mechanisms.allocation import predicted_error
from saibot.privacy.neighbours import Neighbours
from tests.support.plans import ADD, REPLACE, request, sigmas


def best_on_a_grid(plan: Plan) -> float:
    """The least predicted error that a grid over all proportions finds: coarse first, then finer around the best."""
    ask, blocks = plan.request, plan.blocks

    def error(logs: np.ndarray) -> float:
        scales = [1.0, *np.exp(logs)]
        reached = joint.cost(blocks, scales, ask)
        return predicted_error(ask, blocks, [s * reached for s in scales])

    typical = [(ask.bound / math.sqrt(3 * ask.features)) ** b.order for b in blocks]
    centre = np.log(np.array(typical[1:]) / typical[0])
    free, width = len(blocks) - 1, 4.0
    points = 17 if free <= 2 else 9
    best = math.inf
    for _ in range(7):
        axes = np.linspace(-width, width, points)
        for offset in cartesian(axes, repeat=free):
            if (found := error(centre + np.array(offset))) < best:
                best, winner = found, centre + np.array(offset)
        centre, width = winner, width * 2.5 / (points - 1)
    return best


def lost_against_a_grid(ask: PlanRequest) -> float:
    plan = make_plan(ask)
    reached = joint.cost(plan.blocks, sigmas(plan), ask)
    return predicted_error(ask, plan.blocks, [s * reached for s in sigmas(plan)]) / best_on_a_grid(plan) - 1


@pytest.mark.parametrize("features", [1, 2, 3, 6])
@pytest.mark.parametrize("bound_squared", ["1", "25"])
def test_auto_loses_at_most_half_a_per_cent_against_a_grid_semiring(features: int, bound_squared: str):
    assert lost_against_a_grid(request(features=features, bound_squared=Decimal(bound_squared))) < 0.005


@pytest.mark.parametrize("neighbours, delta", [(ADD, "1e-6"), (REPLACE, "0"), (ADD, "0")])
def test_auto_loses_at_most_half_a_per_cent_against_a_grid_semiring_other_terms(neighbours: Neighbours, delta: str):
    assert lost_against_a_grid(request(neighbours=neighbours, budget=Budget("1", delta))) < 0.005


@pytest.mark.parametrize(
    "facts",
    [
        {"features": 1, "bound_squared": Decimal(1)},
        {"features": 2},
        {"features": 3, "bound_squared": Decimal(3), "keys": (1000,), "rows": 5000},
        {"features": 5, "keys": (20,), "rows": 10**6},
        {"features": 2, "neighbours": ADD},
        {"features": 2, "budget": Budget("1")},
    ],
)
def test_auto_loses_at_most_half_a_per_cent_against_a_grid_lookup(facts: dict[str, Any]):
    assert lost_against_a_grid(request(layout="lookup", **facts)) < 0.005


@pytest.mark.slow
@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("facts", [{"features": 1}, {"features": 2}, {"features": 5, "budget": Budget("1")}])
def test_auto_loses_at_most_half_a_per_cent_against_other_optimisers_with_key_levels(levels: int, facts: dict[str, Any]):
    """Too many proportions for a grid: another method, from several starts, in its place."""
    plan = make_plan(request(layout="lookup", levels=levels, **facts))
    ours = np.log(sigmas(plan))

    def log_error(logs: np.ndarray) -> float:
        scales = list(np.exp(logs))
        reached = joint.cost(plan.blocks, scales, plan.request)
        return math.log(predicted_error(plan.request, plan.blocks, [s * reached for s in scales]))

    rng, best = np.random.default_rng(levels), math.inf
    for spread in (0.02, 0.3, 1.0, 1.0):
        start = ours + rng.normal(0, spread, len(ours))
        found = minimize(log_error, start, method="Powell", options={"xtol": 1e-6, "ftol": 1e-10})
        best = min(best, float(found.fun))
    assert log_error(ours) < best + 0.005


@pytest.mark.parametrize("layout, allocation", [("semiring", "alg2"), ("lookup", "equal"), ("lookup", "alg2")])
def test_the_grid_would_tell_an_allocation_that_is_not_the_best(layout: str, allocation: str):
    assert lost_against_a_grid(request(layout=layout, allocation=allocation)) > 0.005


def test_the_predicted_error_by_hand_semiring():
    # B^2 = 6, m = 2: rho = 1. Entries 1, 2 and 2 + 1/2 (off-diagonal noise is half), times 3, 2, 1 partner's moments.
    ask = request(bound_squared=Decimal(6), allocation="equal")
    assert predicted_error(ask, make_plan(ask).blocks, [1.0, 10.0, 100.0]) == pytest.approx(3 + 2 * 2 * 100 + 2.5 * 10**4)
    third = replace(ask, order=3)
    # Order 3, m = 2: weights 1, 3, 3, 1.
    by_hand = 4 * 1 + 3 * 2 + 2 * 2.5 + 1 * (2 + 2 / 3)
    assert predicted_error(third, make_plan(third).blocks, [1.0] * 4) == pytest.approx(by_hand)


def test_the_predicted_error_by_hand_lookup():
    # B^2 = 3, m = 1: rho = 1; 10 keys, 100 rows. Request: 2 d v0 + d v1 + V1 + V2; provider: 6 v n^2/d, v = (v1 + v0)/c^2.
    ask = request(layout="lookup", features=1, bound_squared=Decimal(3), keys=(10,), rows=100, allocation="equal")
    noise = [1.0, 2.0, 3.0, 4.0]
    by_hand = (20 * 1 + 10 * 4 + 9 + 16) + 6 * (4 + 1) / 10**2 * 100**2 / 10
    assert predicted_error(ask, make_plan(ask).blocks, noise) == pytest.approx(by_hand)


def test_auto_answers_for_many_features_of_a_high_order():
    """Sums over monomials are closed forms: to list the four million of order 4 at every trial would take hours."""
    assert len(make_plan(request(features=100, order=4)).blocks) == 5


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_the_allocation_changes_proportions_and_not_the_promise(allocation: str):
    layout = "lookup" if allocation == "values" else "semiring"
    plan = make_plan(request(layout=layout, allocation=allocation))
    assert plan.mu == pytest.approx(make_plan(request(layout=layout, allocation="equal")).mu, rel=1e-12)
    assert joint.cost(plan.blocks, sigmas(plan), plan.request) == pytest.approx(plan.mu, rel=1e-9)
