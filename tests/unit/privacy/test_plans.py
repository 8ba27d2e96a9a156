"""Plans: equal to hand computation, honest about what they cost, refused where there is no proof.

Besides the published figures, every kind of plan is held against rows: `worst_rows` measures, in units of the plan's own
noise, how far pairs of neighbouring rows move what the plan releases.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise
from itertools import product as cartesian
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from saibot.errors import InvalidInput, UnsupportedPlan
from saibot.privacy.budget import Budget
from saibot.privacy.events import GaussianEvent, PureEvent, Spent
from saibot.privacy.mechanisms import ALLOCATIONS, LAYOUTS, Plan, PlanRequest, confirmed, joint, make_plan, same_plan
from saibot.privacy.mechanisms.allocation import predicted_error
from saibot.privacy.mechanisms.plan import Block
from saibot.privacy.neighbours import Neighbours

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE


def request(mechanism: str = "joint", layout: str = "semiring", **other: Any) -> PlanRequest:
    """The design's standing example, (1, 1e-6), m = 2, B = 5, unless said otherwise."""
    facts: dict[str, Any] = {
        "features": 2,
        "bound_squared": Decimal(25),
        "order": 2,
        "budget": Budget("1", "1e-6"),
        "neighbours": REPLACE,
    }
    facts |= other
    facts.setdefault("row_count_public", facts["neighbours"] is REPLACE and facts.get("rows_per_individual", 1) == 1)
    return PlanRequest(mechanism, layout, **facts)


def sigmas(plan: Plan) -> list[float]:
    return [block.sigma for block in plan.blocks]


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


# ------------------------------------------------------------------------------------------------ plans against rows


def pairs_of_rows(plan: Plan, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows on the sphere and, for each, others at every angle and length: the two-parameter family of worst pairs."""
    m, bound = plan.request.features, plan.request.bound
    if m == 1:
        grid = np.linspace(-1, 1, 201) * bound
        return np.full((201, 1), bound), grid[:, None]
    signs = np.array(list(cartesian((-1.0, 1.0), repeat=min(m, 4))))
    directions = np.vstack([np.pad(signs, ((0, 0), (0, m - signs.shape[1])), constant_values=1.0), rng.normal(size=(60, m))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    others = rng.normal(size=directions.shape)
    others -= (others * directions).sum(axis=1, keepdims=True) * directions
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    ones, twos = [], []
    for angle in np.linspace(0, np.pi, 61):
        for length in (1.0, 0.7, 0.0):
            ones.append(directions)
            twos.append(length * (np.cos(angle) * directions + np.sin(angle) * others))
    ones += [directions] * len(directions)
    twos += [np.broadcast_to(row, directions.shape) for row in directions]
    return np.vstack(ones) * bound, np.vstack(twos) * bound


def in_noise_units(block: Block, rows: np.ndarray, laplace: bool) -> np.ndarray:
    """The monomials of one block, each divided by the scale of its own noise."""
    columns = []
    for chosen in combinations_with_replacement(range(rows.shape[1]), block.order):
        repeats = math.prod(math.factorial(chosen.count(f)) for f in set(chosen))
        noise = block.noise_of(math.factorial(block.order) // repeats)
        columns.append(np.prod(rows[:, list(chosen)], axis=1) / (noise / math.sqrt(2) if laplace else noise))
    return np.stack(columns, axis=1)


def worst_rows(plan: Plan) -> float:
    """The largest distance, l2 or l1 in noise units, that one individual causes among the rows tried."""
    laplace, levels = plan.noise == "laplace", plan.request.levels
    one, other = pairs_of_rows(plan, np.random.default_rng(0))

    def norm(columns: list[np.ndarray]) -> float:
        joined = np.hstack(columns)
        return float((np.abs(joined).sum(axis=1) if laplace else np.sqrt((joined**2).sum(axis=1))).max())

    alone = norm([in_noise_units(block, one, laplace) for block in plan.blocks])
    if plan.request.neighbours is ADD:
        return plan.request.rows_per_individual * alone
    found = []
    for moved in range(levels + 1 if plan.request.keyed else 1):
        columns = []
        for block in plan.blocks:
            left, right = (in_noise_units(block, rows, laplace) for rows in (one, other))
            columns += [left, right] if block.scope == "key" and block.level < moved else [left - right]
        found.append(norm(columns))
    if not plan.request.row_count_public:
        found.append(alone)
    return plan.request.rows_per_individual * max(found)


def claimed_distance(plan: Plan) -> float:
    return plan.mu if plan.mu is not None else float(plan.events[0].epsilon)  # type: ignore[union-attr]


SHAPES = [
    ("fpm", "join", {}),
    ("fpm", "join", {"order": 3}),
    ("fpm", "union", {}),
    ("fpm", "union", {"order": 3}),
    ("fpm-opt", "join", {}),
    ("fpm-opt", "join", {"order": 1}),
    ("joint", "semiring", {}),
    ("joint", "semiring", {"allocation": "alg2"}),
    ("joint", "semiring", {"allocation": "equal", "order": 3}),
    ("joint", "lookup", {}),
    ("joint", "lookup", {"levels": 3, "allocation": "alg2"}),
    ("joint", "union", {}),
]
TERMS = [{}, {"neighbours": ADD}, {"rows_per_individual": 3}, {"neighbours": ADD, "rows_per_individual": 2}]


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


def with_noise(plan: Plan, factor: float) -> Plan:
    return replace(plan, blocks=tuple(replace(block, sigma=block.sigma * factor) for block in plan.blocks))


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


# ------------------------------------------------------------------------------------------------ auto


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


# ------------------------------------------------------------------------------------------------ plans as documents


@st.composite
def requests(draw: st.DrawFn) -> PlanRequest:
    mechanism = draw(st.sampled_from(sorted(LAYOUTS)))
    layout = draw(st.sampled_from(LAYOUTS[mechanism]))
    neighbours = draw(st.sampled_from(list(Neighbours)))
    each = draw(st.integers(1, 3))
    levels = draw(st.integers(1, 3)) if layout == "lookup" else 1
    return PlanRequest(
        mechanism,
        layout,
        features=draw(st.integers(1, 4)),
        bound_squared=draw(st.decimals("0.01", "1000", places=4)),
        order=2 if layout == "lookup" else draw(st.integers(1, 3)),
        budget=Budget(draw(st.decimals("0.1", "1", places=3)), draw(st.sampled_from(["0", "1e-6", "0.001"]))),
        neighbours=neighbours,
        row_count_public=neighbours is REPLACE and each == 1,
        allocation=draw(st.sampled_from(["alg2", "equal"])) if mechanism == "joint" else None,
        levels=levels,
        rows_per_individual=each,
        rows=draw(st.sampled_from([None, 100])),
        keys=draw(st.sampled_from([(), (100, 10, 2)[:levels]])),
        share=draw(st.sampled_from([Decimal(1), Decimal("0.25")])),
        extra_touched=draw(st.sampled_from([0, 14])),
    )


@given(requests())
def test_a_request_survives_json_and_gives_the_same_plan(ask: PlanRequest):
    document = json.loads(json.dumps(ask.to_json()))
    assert PlanRequest.from_json(document) == ask
    try:
        plan = make_plan(ask)
    except UnsupportedPlan:  # fpm-opt's union form is for fewer cases
        assert (ask.mechanism, ask.layout) == ("fpm-opt", "union")
        return
    assert make_plan(PlanRequest.from_json(json.loads(json.dumps(plan.to_json()))["request"])) == plan
    assert make_plan(plan.request) == plan and same_plan(plan, make_plan(plan.request))


@pytest.mark.parametrize("layout", ["semiring", "lookup", "union"])
def test_auto_too_gives_the_same_plan_every_time(layout: str):
    ask = request(layout=layout, allocation="auto")
    assert make_plan(ask) == make_plan(PlanRequest.from_json(json.loads(json.dumps(ask.to_json()))))


def test_numbers_that_must_be_exact_travel_as_text():
    document = request(bound_squared=Decimal("2.50"), share=Decimal("0.5")).to_json()
    assert (document["bound_squared"], document["share"], document["budget"]["delta"]) == ("2.5", "0.5", "1e-6")


TAMPERED: list[Callable[[Plan], Plan]] = [
    lambda plan: with_noise(plan, 0.99),
    lambda plan: with_noise(plan, 1.01),
    lambda plan: replace(plan, blocks=(replace(plan.blocks[0], sigma=plan.blocks[0].sigma * 0.99), *plan.blocks[1:])),
    lambda plan: replace(plan, blocks=plan.blocks[1:]),
    lambda plan: replace(plan, blocks=plan.blocks[::-1]),
    lambda plan: replace(plan, blocks=(*plan.blocks[:-1], replace(plan.blocks[-1], weighted=False))),
    lambda plan: replace(plan, blocks=(*plan.blocks[:-1], replace(plan.blocks[-1], scope="global"))),
    lambda plan: replace(plan, blocks=(replace(plan.blocks[0], sensitivity=1.0), *plan.blocks[1:])),
    lambda plan: replace(plan, mu=(plan.mu or 0) * 0.99),
    lambda plan: replace(plan, mu=None),
    lambda plan: replace(plan, noise="laplace"),
    lambda plan: replace(plan, touched=1),
    lambda plan: replace(plan, request=replace(plan.request, features=3)),
    lambda plan: replace(plan, request=replace(plan.request, budget=Budget("0.5", "1e-6"))),
    lambda plan: replace(plan, blocks=(*plan.blocks[:-1], replace(plan.blocks[-1], sigma=math.nan))),
]


@pytest.mark.parametrize("tamper", TAMPERED)
def test_a_plan_that_promises_something_else_is_not_the_same(tamper: Callable[[Plan], Plan]):
    plan = make_plan(request(allocation="alg2"))
    assert not same_plan(tamper(plan), plan) and not same_plan(plan, tamper(plan))


def test_the_rounding_of_another_machine_is_forgiven():
    plan = make_plan(request(allocation="alg2"))
    assert same_plan(with_noise(plan, 1 + 1e-9), plan)


# ------------------------------------------------------------------------------------------------ somebody else's plans

plan_once = lru_cache(make_plan)
FOREIGN = [
    (mechanism, layout, {"allocation": allocation, "levels": levels})
    for mechanism, layouts in LAYOUTS.items()
    for layout in layouts
    for allocation in ((None, "alg2", "equal") if mechanism == "joint" else (None,))
    for levels in ((1, 2, 3) if layout == "lookup" else (1,))
]
FOREIGN_IDS = [f"{m}-{layout}-{extra['allocation']}-{extra['levels']}" for m, layout, extra in FOREIGN]
AUTO = [shape for shape in FOREIGN if shape[0] == "joint" and shape[2]["allocation"] is None]


def foreign_plans(mechanism: str, layout: str, extra: dict[str, Any]) -> list[Plan]:
    """Plans of a shape for both laws: under replace-one for two features, under add-remove for one."""
    found = []
    for delta, (neighbours, features) in cartesian(("1e-6", "0"), ((REPLACE, 2), (ADD, 1))):
        facts = extra | {"budget": Budget("1", delta), "neighbours": neighbours, "features": features}
        try:
            found.append(plan_once(request(mechanism, layout, **facts)))
        except UnsupportedPlan:  # fpm-opt's union form is for fewer cases
            assert (mechanism, layout) == ("fpm-opt", "union")
    assert found
    return found


def with_block(plan: Plan, place: int, **changes: Any) -> Plan:
    blocks = list(plan.blocks)
    blocks[place] = replace(blocks[place], **changes)
    return replace(plan, blocks=tuple(blocks))


@pytest.mark.parametrize("mechanism, layout, extra", FOREIGN, ids=FOREIGN_IDS)
def test_every_plan_that_is_made_here_is_confirmed(mechanism: str, layout: str, extra: dict[str, Any]):
    for plan in foreign_plans(mechanism, layout, extra):
        assert confirmed(plan)
        assert confirmed(with_noise(plan, 1 + 1e-9))  # the rounding of another machine


@pytest.mark.parametrize("mechanism, layout, extra", FOREIGN, ids=FOREIGN_IDS)
def test_a_plan_with_less_noise_in_one_block_or_in_all_is_not_confirmed(mechanism: str, layout: str, extra: dict[str, Any]):
    for plan in foreign_plans(mechanism, layout, extra):
        assert not confirmed(with_noise(plan, 0.999))
        for place, block in enumerate(plan.blocks):
            assert not confirmed(with_block(plan, place, sigma=block.sigma * 0.99)), block


@pytest.mark.parametrize("mechanism, layout, extra", AUTO)
def test_another_machines_search_for_the_best_proportions_may_end_elsewhere(
    mechanism: str, layout: str, extra: dict[str, Any]
):
    """More noise in some blocks is still enough noise. Other allocations have one answer, and nothing else is theirs."""
    for plan in foreign_plans(mechanism, layout, extra):
        assert confirmed(with_noise(plan, 1 + 1e-4))
        for place, block in enumerate(plan.blocks):
            assert confirmed(with_block(plan, place, sigma=block.sigma * (1 + 1e-4)))
        for allocation in ("alg2", "equal"):
            assert not confirmed(with_noise(plan_once(replace(plan.request, allocation=allocation)), 1 + 1e-4))


@pytest.mark.parametrize("delta", ["1e-6", "0"])
@pytest.mark.parametrize("mechanism, layout, extra", AUTO)
def test_what_is_confirmed_with_other_proportions_rows_cannot_move_further_than_it_says(
    mechanism: str, layout: str, extra: dict[str, Any], delta: str
):
    plan = plan_once(request(mechanism, layout, **extra, budget=Budget("1", delta)))
    rng = np.random.default_rng(3)
    verdicts = []
    for _ in range(12):
        factors = np.exp(rng.normal(0, 0.1, len(plan.blocks)))
        other = replace(plan, blocks=tuple(replace(b, sigma=b.sigma * f) for b, f in zip(plan.blocks, factors, strict=True)))
        # Scaled by its own price, a little above it or below: enough noise by a hair, or too little by one.
        price = joint.cost(other.blocks, sigmas(other), plan.request) * (1 if delta != "0" else math.sqrt(2))
        for slack in (1.001, 0.999):
            scaled = with_noise(other, price / claimed_distance(plan) * slack)
            verdicts.append(confirmed(scaled))
            if verdicts[-1]:
                assert worst_rows(scaled) <= claimed_distance(plan) * (1 + 1e-6)
    assert verdicts == [True, False] * 12


def test_a_block_that_is_nearly_free_has_no_noise_to_give_away():
    """Where a block has that much noise, a hundredth less of it costs less than a millionth of mu: still too much."""
    ask = request(layout="lookup", levels=2, allocation="auto", keys=(1000, 10), rows=5000)
    plan = plan_once(ask)
    cheap = with_block(plan, 3, sigma=plan.blocks[3].sigma * 30)
    cheap = with_noise(cheap, joint.cost(cheap.blocks, sigmas(cheap), ask) / claimed_distance(plan))
    assert confirmed(cheap)
    lower = with_block(cheap, 3, sigma=cheap.blocks[3].sigma * 0.99)
    price = joint.cost(lower.blocks, sigmas(lower), ask)
    assert 1 < price / claimed_distance(plan) < 1 + 1e-6
    assert not confirmed(lower)


@pytest.mark.parametrize("features", [2, 4])
def test_auto_gives_no_key_level_up(features: int):
    """With ten rows to a key, Laplace noise of the middle level was a million times that of its neighbours."""
    keys = (1000, 100, 10)
    facts = {"features": features, "bound_squared": Decimal(features), "budget": Budget("1")}
    plan = plan_once(request(layout="lookup", levels=3, allocation="auto", keys=keys, rows=10_000, **facts))
    for order in (0, 1):
        noise = [block.sigma for level in range(3) if (block := plan.block("key", order, level))]
        assert all(coarse <= 10.0001 * fine for fine, coarse in pairwise(noise)), noise


@pytest.mark.parametrize("sigma", [math.nan, math.inf, -math.inf, -1.0, 0.0, -0.0])
@pytest.mark.parametrize("mechanism, layout, extra", [s for s in FOREIGN if s[2]["levels"] != 3])
def test_noise_that_is_no_positive_number_is_not_confirmed(mechanism: str, layout: str, extra: dict[str, Any], sigma: float):
    for plan in foreign_plans(mechanism, layout, extra):
        for place, block in enumerate(plan.blocks):
            assert not confirmed(with_block(plan, place, sigma=sigma if abs(sigma) != 1 else -block.sigma))


MISSTATED: dict[str, Callable[[Plan], Plan]] = {
    "a block too few": lambda plan: replace(plan, blocks=plan.blocks[:-1]),
    "the first block left out": lambda plan: replace(plan, blocks=plan.blocks[1:]),
    "no block": lambda plan: replace(plan, blocks=()),
    "a block twice": lambda plan: replace(plan, blocks=(*plan.blocks, plan.blocks[-1])),
    "a further order": lambda plan: replace(plan, blocks=(*plan.blocks, replace(plan.blocks[-1], order=3, sigma=1e9))),
    "another order": lambda plan: with_block(plan, -1, order=plan.blocks[-1].order + 1),
    "another level": lambda plan: with_block(plan, 0, level=plan.blocks[0].level + 1),
    "another scope": lambda plan: with_block(plan, 0, scope="key" if plan.blocks[0].scope == "global" else "global"),
    "another weight": lambda plan: with_block(plan, -1, weighted=not plan.blocks[-1].weighted),
    "centred or not": lambda plan: with_block(plan, -1, centred=not plan.blocks[-1].centred),
    "another sensitivity": lambda plan: with_block(plan, 0, sensitivity=plan.blocks[0].sensitivity * 0.99),
    "a sensitivity that is no number": lambda plan: with_block(plan, 0, sensitivity=math.nan),
    "a lower mu": lambda plan: replace(plan, mu=(plan.mu or 0.2) * 0.99),
    "a higher mu": lambda plan: replace(plan, mu=(plan.mu or 0.2) * 1.01),
    "a mu that is no number": lambda plan: replace(plan, mu=math.nan),
    "an infinite mu": lambda plan: replace(plan, mu=math.inf),
    "fewer coordinates": lambda plan: replace(plan, touched=plan.touched - 1),
    "more coordinates": lambda plan: replace(plan, touched=plan.touched + 1),
    "another law": lambda plan: replace(plan, noise="laplace" if plan.noise == "gaussian" else "gaussian"),
    "another calibration": lambda plan: replace(plan, calibration="renyi"),
    "a smaller budget": lambda plan: replace(
        plan, request=replace(plan.request, budget=Budget("0.9", plan.request.budget.delta))
    ),
    "a wider bound": lambda plan: replace(plan, request=replace(plan.request, bound_squared=Decimal("25.1"))),
    "more features": lambda plan: replace(plan, request=replace(plan.request, features=plan.request.features + 1)),
    "more rows of each": lambda plan: replace(
        plan, request=replace(plan.request, rows_per_individual=2, row_count_public=False)
    ),
}


@pytest.mark.parametrize("misstate", MISSTATED.values(), ids=MISSTATED)
def test_a_plan_that_misstates_what_it_releases_or_costs_is_not_confirmed(misstate: Callable[[Plan], Plan]):
    for mechanism, layout, extra in FOREIGN:
        if (mechanism, layout) == ("fpm-opt", "union") or extra["levels"] == 3:
            continue  # its scatter does not depend on all of these
        for plan in foreign_plans(mechanism, layout, extra):
            assert not confirmed(misstate(plan)), plan


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
