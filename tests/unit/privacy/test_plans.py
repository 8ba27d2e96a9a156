"""Plans: equal to hand computation, honest about what they cost, refused where there is no proof."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from saibot.errors import InvalidInput, UnsupportedPlan
from saibot.privacy.budget import Budget
from saibot.privacy.events import GaussianEvent, Spent
from saibot.privacy.mechanisms import PlanRequest, make_plan
from tests.support.plans import ADD, SHAPES, request, sigmas

# ------------------------------------------------------------------------------------------------ the published figures


def test_fpm_join_has_the_designs_noise():
    plan = make_plan(request("fpm", "join"))
    assert sigmas(plan) == pytest.approx([194.7] * 3, abs=0.05)
    assert [block.noise_of(2) for block in plan.blocks] == sigmas(plan)  # no gain off the diagonal in the paper's own
    # By hand: Delta = sqrt(4 B^2 + 2 B^4) = sqrt(1350), sigma = Delta sqrt(2 ln(1.25e6)).
    assert sigmas(plan)[0] == pytest.approx(math.sqrt(1350) * math.sqrt(2 * math.log(1.25e6)), rel=1e-12)


def test_fpm_opt_join_has_the_designs_noise():
    plan = make_plan(request("fpm-opt", "join"))
    assert sigmas(plan) == pytest.approx([23.34, 165.1, 583.6], rel=5e-4)
    # By hand: sqrt(2 ln(1.25 * 3e6)) * 3 times sqrt(2), 2 B, sqrt(2) B^2.
    factor = 3 * math.sqrt(2 * math.log(3.75e6))
    assert sigmas(plan) == pytest.approx([math.sqrt(2) * factor, 10 * factor, math.sqrt(2) * 25 * factor], rel=1e-12)


def test_joint_in_alg_2s_proportions_has_the_designs_noise():
    plan = make_plan(request(allocation="alg2"))
    assert sigmas(plan) == pytest.approx([9.45, 66.8, 236.2], rel=5e-4)
    assert plan.blocks[2].noise_of(2) == pytest.approx(167, abs=0.5)
    assert plan.to_json()["blocks"][2]["sigma_offdiagonal"] == pytest.approx(236.2 / math.sqrt(2), rel=5e-4)


@pytest.mark.parametrize(
    "bound, mechanism, layout, allocation, noise",  # the table of DESIGN section 4
    [
        (1, "fpm", "join", None, [13.0, 13.0, 13.0]),
        (1, "fpm-opt", "join", None, [23.3, 33.0, 23.3]),
        (1, "joint", "semiring", "alg2", [9.45, 13.4, 9.45]),
        (5, "fpm", "join", None, [195, 195, 195]),
        (5, "fpm-opt", "join", None, [23.3, 165, 584]),
        (5, "joint", "semiring", "alg2", [9.45, 66.8, 236]),
    ],
)
def test_the_designs_table_of_noise(bound: int, mechanism: str, layout: str, allocation: str | None, noise: list[float]):
    plan = make_plan(request(mechanism, layout, bound_squared=Decimal(bound**2), allocation=allocation))
    assert sigmas(plan) == pytest.approx(noise, rel=4e-3)  # as it is printed there, in three figures


def test_fpm_opt_union_has_the_noise_of_the_centred_scatter():
    plan = make_plan(request("fpm-opt", "union", rows=100))
    (block,) = plan.blocks
    assert (block.scope, block.order, block.centred, block.weighted) == ("global", 2, True, True)
    assert block.sensitivity == pytest.approx(100 * 99 / 100)
    assert block.sigma == pytest.approx(99 * math.sqrt(2 * math.log(1.25e6)))


def test_fpm_union_releases_the_count_only_where_it_is_not_public():
    assert [b.order for b in make_plan(request("fpm", "union")).blocks] == [1, 2]
    assert [b.order for b in make_plan(request("fpm", "union", neighbours=ADD)).blocks] == [0, 1, 2]
    assert [b.order for b in make_plan(request("joint", "union", rows_per_individual=2)).blocks] == [0, 1, 2]


def test_lookup_releases_counts_and_sums_per_key_and_the_rest_globally():
    places = [(b.scope, b.level, b.order) for b in make_plan(request(layout="lookup", levels=2)).blocks]
    assert places == [("key", 0, 0), ("key", 0, 1), ("key", 1, 0), ("key", 1, 1), ("global", 0, 1), ("global", 0, 2)]


def test_a_plan_prints_as_the_issue_says():
    document = json.loads(json.dumps(make_plan(request(layout="lookup")).to_json()))
    assert isinstance(document["mu"], float)
    for block in document["blocks"]:
        assert {"scope", "level", "order", "sensitivity", "sigma"} <= set(block)
        assert ("sigma_offdiagonal" in block) == (block["order"] == 2)


def test_a_blocks_sensitivity_is_its_own():
    by_hand = [math.sqrt(2), 10.0, 25 * math.sqrt(2)]
    for plan in (make_plan(request("fpm", "join")), make_plan(request("fpm-opt", "join")), make_plan(request())):
        assert [block.sensitivity for block in plan.blocks] == pytest.approx(by_hand)


# ------------------------------------------------------------------------------------------------ cost and composition


@pytest.mark.parametrize("epsilon, delta", [("1", "1e-6"), ("0.01", "1e-9"), ("1e-5", "1e-6"), ("0.3", "0.1"), ("2.5", "0")])
@pytest.mark.parametrize("mechanism, layout, extra", [*SHAPES, ("fpm-opt", "union", {"rows": 50})])
def test_every_plan_fits_the_budget_that_it_was_asked_for(
    mechanism: str, layout: str, extra: dict[str, Any], epsilon: str, delta: str
):
    budget = Budget(epsilon, delta)
    calibrations = ["analytic"] if mechanism == "joint" or budget.epsilon > 1 else ["analytic", "classical"]
    for calibration in calibrations:
        plan = make_plan(request(mechanism, layout, **(extra | {"budget": budget, "calibration": calibration})))
        assert Spent.of(plan.events).within(budget)
        if mechanism == "joint" or (mechanism, calibration) == ("fpm", "analytic"):  # these use all of it
            assert not Spent.of([*plan.events] * 2).within(budget)


def test_an_event_carries_the_plans_mu_and_coordinates():
    # Semi-ring, m = 2: 1 + 2 + 3 numbers in each of two cells; three rows of an individual touch three times as many.
    assert make_plan(request()).touched == 12
    assert make_plan(request(rows_per_individual=3)).touched == 36
    # Lookup with two levels, m = 2: two cells of 1 + 2 at each level, and 2 + 3 global ones.
    plan = make_plan(request(layout="lookup", levels=2))
    assert plan.touched == 2 * 2 * 3 + 5
    assert plan.events == (GaussianEvent(plan.mu, 17, 4096),)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", ["0.1", "0.5", "0.8"])
@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_two_releases_of_a_share_and_the_rest_cost_what_one_costs(share: str, delta: str):
    """As when a principal component is bought: both parts know of each other's coordinates, and the ledger adds them up."""
    budget, part = Budget("1", delta), Decimal(share)
    main = request(layout="lookup", features=1, bound_squared=Decimal(1), budget=budget, allocation="alg2")
    other = request(layout="union", features=4, bound_squared=Decimal(4), budget=budget, allocation="equal")
    here, there = make_plan(main).touched, make_plan(other).touched
    bought = make_plan(replace(other, share=part, extra_touched=here))
    rest = make_plan(replace(main, share=1 - part, extra_touched=there))
    spent = Spent.of([*bought.events, *rest.events])
    whole = Spent.of(make_plan(replace(main, extra_touched=there)).events)
    assert spent.mu_squared == pytest.approx(whole.mu_squared, rel=1e-12) and spent.pure_epsilon == whole.pure_epsilon
    assert spent.within(budget) and not spent.within(Budget("0.999", delta))
    assert spent.touched == (here + there if delta != "0" else 0)


def test_shares_of_an_awkward_epsilon_never_add_up_to_more_than_it():
    budget = Budget("0.333333333333333333333333333333")
    parts = [make_plan(request(budget=budget, share=Decimal("0.5"))).events for _ in range(2)]
    assert Spent.of([event for events in parts for event in events]).within(budget)


def test_a_share_raises_the_noise_by_the_root_of_it_or_by_itself_for_laplace():
    for delta, factor in (("1e-6", 2.0), ("0", 4.0)):
        whole, quarter = (
            make_plan(request("fpm", "join", budget=Budget("1", delta), share=Decimal(s))) for s in ("1", "0.25")
        )
        assert sigmas(quarter) == pytest.approx([s * factor for s in sigmas(whole)])


@pytest.mark.parametrize("mechanism, layout, extra", SHAPES)
def test_noise_grows_with_the_rows_of_an_individual(mechanism: str, layout: str, extra: dict[str, Any]):
    one = make_plan(request(mechanism, layout, **extra, row_count_public=False))
    three = make_plan(request(mechanism, layout, **extra, rows_per_individual=3))
    assert sigmas(three) == pytest.approx([3 * s for s in sigmas(one)], rel=1e-3)


# ------------------------------------------------------------------------------------------------ refusals


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mechanism": "gauss"}, "mechanism 'gauss' is not known; there are fpm, fpm-opt, joint"),
    ({"mechanism": "fpm", "layout": "lookup"}, "layout 'lookup' does not go with fpm; it has join, union"),
    ({"mechanism": "fpm", "layout": "semiring"}, "does not go with fpm"),
    ({"mechanism": "fpm-opt", "layout": "lookup"}, "does not go with fpm-opt"),
    ({"mechanism": "joint", "layout": "join"}, "does not go with joint; it has lookup, semiring, union"),
    ({"features": 0}, "at least one feature, not 0"),
    ({"features": -3}, "at least one feature"),
    ({"bound_squared": Decimal(0)}, "norm bound must be greater than 0"),
    ({"bound_squared": Decimal(-1)}, "norm bound must be greater than 0"),
    ({"bound_squared": Decimal("NaN")}, "norm bound must be greater than 0"),
    ({"bound_squared": Decimal("inf")}, "norm bound must be greater than 0"),
    ({"bound_squared": Decimal("1e300")}, "norm bound must lie between"),
    ({"bound_squared": Decimal("1e-300")}, "norm bound must lie between"),
    ({"order": 0}, "order must be between 1 and 6, not 0"),
    ({"order": 7}, "order must be between 1 and 6, not 7"),
    ({"layout": "lookup", "order": 1}, "lookup is for linear regression: its order is 2"),
    ({"layout": "lookup", "order": 3}, "its order is 2"),
    ({"levels": 2}, "several key levels .* go with layout lookup"),
    ({"layout": "union", "levels": 2}, "go with layout lookup"),
    ({"mechanism": "fpm", "layout": "join", "levels": 3}, "go with layout lookup"),
    ({"layout": "lookup", "levels": 0}, "key levels"),
    ({"layout": "lookup", "levels": 9}, "at most 8"),
    ({"rows_per_individual": 0}, "an individual owns at least one row, not 0"),
    ({"neighbours": ADD, "row_count_public": True}, "row count is public under replace-one"),
    ({"rows_per_individual": 2, "row_count_public": True}, "one row per individual only"),
    ({"calibration": "renyi"}, "calibration is one of analytic, classical"),
    ({"calibration": "classical"}, "joint is calibrated analytically"),
    ({"allocation": "best"}, "allocation is one of alg2, auto, equal"),
    ({"mechanism": "fpm", "layout": "join", "allocation": "auto"}, "--allocation goes with the mechanism joint"),
    ({"mechanism": "fpm-opt", "layout": "join", "allocation": "alg2"}, "--allocation goes with the mechanism joint"),
    ({"share": Decimal(0)}, r"share of the budget must be in \(0, 1\]"),
    ({"share": Decimal("1.1")}, "share of the budget"),
    ({"extra_touched": -1}, "share of the budget"),
    ({"rows": 0}, "number of rows must be at least 1"),
    ({"layout": "lookup", "keys": (10, 5)}, "number of keys of every level"),
    ({"layout": "lookup", "levels": 2, "keys": (10,)}, "number of keys of every level"),
    ({"layout": "lookup", "keys": (0,)}, "number of keys of every level"),
    # What only the mechanism itself knows it has no proof for:
    ({"mechanism": "fpm", "layout": "join", "budget": Budget("1.5", "1e-6")}, "epsilon <= 1 only, not 1.5"),
    ({"mechanism": "fpm", "layout": "union", "budget": Budget("8", "1e-6"), "calibration": "classical"}, "epsilon <= 1"),
    ({"mechanism": "fpm-opt", "layout": "join", "budget": Budget("3.1", "1e-6")}, "epsilon <= 1 only"),
    ({"mechanism": "fpm-opt", "layout": "union", "budget": Budget("2", "1e-6")}, "epsilon <= 1 only"),
    ({"mechanism": "fpm-opt", "layout": "union", "neighbours": ADD}, "row count, which is public under replace-one only"),
    ({"mechanism": "fpm-opt", "layout": "union", "rows_per_individual": 2}, "public under replace-one only"),
    ({"mechanism": "fpm-opt", "layout": "union", "order": 3}, "order 2, and at least two features"),
    ({"mechanism": "fpm-opt", "layout": "union", "order": 1}, "order 2"),
    ({"mechanism": "fpm-opt", "layout": "union", "features": 1}, "at least two features"),
    ({"mechanism": "fpm-opt", "layout": "union", "rows": 1}, "at least two rows"),
    ({"budget": Budget("1e-8", "1e-9")}, "epsilon 1e-8 is too small"),
]


@pytest.mark.parametrize("facts, message", REFUSED, ids=lambda value: str(value)[:60])
def test_what_no_proof_covers_is_refused_with_a_reason(facts: dict[str, Any], message: str):
    with pytest.raises(UnsupportedPlan, match=message):
        make_plan(request(**facts))


def test_a_refusal_is_an_invalid_input():
    assert issubclass(UnsupportedPlan, InvalidInput)


def test_the_classical_gaussian_is_judged_by_the_epsilon_of_each_block():
    """Alg. 2 gives every order a third, so a total of 3 is within the classical proof."""
    plan = make_plan(request("fpm-opt", "join", budget=Budget("3", "1e-6")))
    assert plan.calibration == "classical"
    assert make_plan(request("fpm", "join", budget=Budget("3", "1e-6"), calibration="analytic")).calibration == "analytic"


def test_there_is_no_default_for_neighbours_nor_for_what_is_public():
    with pytest.raises(TypeError, match="neighbours"):
        PlanRequest("fpm", "join", features=2, bound_squared=Decimal(1), order=2, budget=Budget("1"))  # type: ignore[call-arg]
