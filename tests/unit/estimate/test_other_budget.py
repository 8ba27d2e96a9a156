"""What a sketch would be worth at another budget: held against the very table, released at that budget."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from research.releases import Release
from research.seeded import Seeded
from saibot.estimate.factors import Factors, Readings, apply
from saibot.estimate.lookup import lookup_values
from saibot.estimate.other_budget import EPSILONS, helped_signal, noise_ratio, own_signal
from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import PlanRequest, make_plan
from saibot.privatize import Card
from saibot.search.shared_factors import key_tree
from saibot.sketch import KeyDomain, Sketch

KEYS, ROWS, DRAWS = 365, 20_000, 12
DOMAIN = KeyDomain.of_range(1, KEYS, of="shop")
CARD = Card.parse({"dataset": {"name": "a"}, "features": {"x": {"bounds": [-1, 1]}}})
BOTH = np.array([0])


@cache
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, places, and the true means by key."""
    rng = np.random.default_rng(1)
    place = rng.integers(0, KEYS, ROWS)
    values = np.clip((0.15 * rng.normal(size=KEYS))[place] + 0.3 * rng.normal(size=ROWS), -1, 1)
    return values, place, np.bincount(place, values, KEYS) / np.bincount(place, minlength=KEYS)


def drawn(epsilon: str, seed: int) -> Sketch:
    values, place, _ = table()
    return Release(CARD, values[:, None], place, DOMAIN, Budget(epsilon, "1e-6")).sketch(Seeded((7, seed)))


def followed(epsilon: str) -> float:
    """The share of what the true means would explain that private values do, on average over draws."""
    truth = table()[2]
    found = [lookup_values(drawn(epsilon, seed)).values[0, :-1] for seed in range(DRAWS)]
    return float(np.mean([np.corrcoef(values, truth)[0, 1] ** 2 for values in found]))


@pytest.mark.parametrize("now, then", [("1", "3"), ("3", "1"), ("1", "10"), ("10", "0.5")])
def test_a_sketch_foretells_what_the_same_table_is_worth_at_another_epsilon(now: str, then: str) -> None:
    told, today, inside = [], [], 0
    actual = followed(then)
    for seed in range(DRAWS):
        sketch = drawn(now, seed)
        assert sketch.plan is not None
        ratio = noise_ratio(sketch.plan, float(then), now=Decimal(now))
        found = own_signal(sketch, [], BOTH, [ratio])
        (share,), (span,) = found.share, found.interval
        assert share is not None and span is not None and span[0] <= share <= span[1]
        told.append(share)
        today.append(found.now)
        inside += span[0] - 0.03 <= actual <= span[1] + 0.03
    assert abs(np.mean(told) - actual) < 0.04
    assert abs(np.mean(today) - followed(now)) < 0.04
    assert abs(np.mean(told) - np.mean(today)) > 0.05, "a test that the budget of now would pass says nothing"
    assert inside >= 0.7 * DRAWS


def test_more_budget_never_keeps_less_and_the_epsilon_of_now_changes_nothing() -> None:
    sketch = drawn("1", 0)
    assert sketch.plan is not None
    ratios = [noise_ratio(sketch.plan, epsilon, now=Decimal(1)) for epsilon in EPSILONS]
    found = own_signal(sketch, [], BOTH, ratios)
    kept = [share for share in found.share if share is not None]
    assert len(kept) == len(EPSILONS) and kept == sorted(kept)
    assert kept[EPSILONS.index(1.0)] == pytest.approx(found.now) and kept[-1] > 0.9 > 0.2 > kept[0]
    assert ratios[EPSILONS.index(1.0)] == pytest.approx(1.0)


def test_values_that_factors_help_are_asked_with_the_same_factors() -> None:
    sketch = drawn("1", 0)
    tree = key_tree([sketch], None)
    readings = Readings.of_sketch(sketch, tree)
    loadings = np.column_stack([(table()[2] - table()[2].mean()) / table()[2].std()]) * 0.7
    factors = Factors.of(tree, loadings, np.array([0.51]))
    found = helped_signal(factors, readings, [1.0, 0.3, None])
    assert found.now == pytest.approx(float(apply(factors, readings).reliability.mean()), rel=1e-9)
    assert found.share[0] == pytest.approx(found.now) and found.share[2] is None
    assert found.share[1] is not None and found.share[1] > found.now + 0.05
    alone = own_signal(sketch, [], BOTH, [1.0]).now
    assert found.now > alone, "what many tables share is known where one table says little"


def plan_of(mechanism: str, budget: Budget, **more: object) -> PlanRequest:
    terms = {"layout": "semiring" if mechanism == "joint" else "join", "features": 2, "order": 2} | more
    relation = {"neighbours": Neighbours.REPLACE_ONE, "row_count_public": True}
    return PlanRequest(mechanism=mechanism, bound_squared=Decimal(2), budget=budget, **terms, **relation)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["joint", "fpm", "fpm-opt"])
@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_noise_at_another_budget_is_what_a_plan_for_it_has(mechanism: str, delta: str) -> None:
    now, then = (make_plan(plan_of(mechanism, Budget(epsilon, delta))) for epsilon in ("0.3", "0.9"))
    ratio = noise_ratio(now, 0.9, now=Decimal("0.3"))
    assert ratio == pytest.approx(then.blocks[0].sigma / now.blocks[0].sigma, rel=1e-6) and ratio < 0.5


def test_where_the_mechanism_has_no_proof_nothing_is_told() -> None:
    plan = make_plan(plan_of("fpm", Budget("0.5", "1e-6"), calibration="classical"))
    assert noise_ratio(plan, 3.0, now=Decimal("0.5")) is None
    assert noise_ratio(plan, 1.0, now=Decimal("0.5")) == pytest.approx(0.5, rel=1e-3)


def test_what_else_was_paid_for_keeps_its_part() -> None:
    plan = make_plan(plan_of("joint", Budget("0.9", "1e-6")))
    whole = noise_ratio(plan, 3.0, now=Decimal(1))
    assert whole == pytest.approx(noise_ratio(plan, 2.7, now=Decimal("0.9")), rel=1e-9)
