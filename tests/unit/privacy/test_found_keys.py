"""Keys found by noisy counts: the noise is enough, the threshold is exact, and what it costs is what the proof says."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from saibot.audit.key_attack import chance_of_one
from saibot.errors import InvalidBudget, LedgerConflict, UnsupportedPlan
from saibot.privacy import Budget, Neighbours, Spent
from saibot.privacy.calibration import STEPS_PER_SIGMA, analytic_mu
from saibot.privacy.events import GaussianEvent, KeysEvent, event_from_json
from saibot.privacy.mechanisms.found_keys import FindingPlan, keys_delta, without_keys

BUDGET = Budget("1", "1e-6")
plans = st.builds(
    FindingPlan,
    mu=st.floats(1e-3, 30),
    delta=st.sampled_from([Decimal("1e-4"), Decimal("9.5e-8"), Decimal("1e-12"), Decimal("1e-25")]),
    keys_each=st.integers(1, 50),
    neighbours=st.sampled_from(Neighbours),
)


@given(plans)
def test_the_noise_is_never_less_than_what_one_individual_moves_calls_for(plan: FindingPlan) -> None:
    assert plan.scale >= STEPS_PER_SIGMA and plan.scale == int(plan.scale)
    assert plan.multiplier * math.sqrt(plan.moved) / plan.scale <= plan.mu
    assert plan.moved == plan.keys_each * (2 if plan.neighbours is Neighbours.REPLACE_ONE else 1)


@given(plans)
def test_rounding_adds_next_to_no_noise(plan: FindingPlan) -> None:
    assert plan.sigma <= math.sqrt(plan.moved) / plan.mu * (1 + 2 / STEPS_PER_SIGMA)


@given(plans)
def test_a_key_of_one_individual_is_found_no_more_often_than_delta_allows(plan: FindingPlan) -> None:
    """By the exact law of the integer noise, down to deltas that no simulation reaches."""
    allowed = float(plan.delta) / plan.keys_each
    assert 0.99 * allowed < chance_of_one(plan) <= allowed


@given(plans)
def test_a_threshold_that_is_lower_by_a_thousandth_of_the_noise_would_be_seen(plan: FindingPlan) -> None:
    class Lowered(FindingPlan):
        @property
        def threshold(self) -> int:
            return plan.threshold - math.ceil(plan.scale / 1000)

    lower = Lowered(plan.mu, plan.delta, plan.keys_each, plan.neighbours)
    assert chance_of_one(lower) > float(plan.delta) / plan.keys_each


def test_at_a_fifth_of_epsilon_1_it_takes_sixty_individuals_or_eighty_five() -> None:
    mu = analytic_mu(without_keys(BUDGET), touched=10) * 0.2**0.5
    found = {relation: FindingPlan(mu, keys_delta(BUDGET), 1, relation).least_individuals for relation in Neighbours}
    assert found == {Neighbours.ADD_REMOVE: 60, Neighbours.REPLACE_ONE: 85}
    plan = FindingPlan(mu, keys_delta(BUDGET), 1, Neighbours.ADD_REMOVE)
    assert plan.threshold / plan.multiplier == pytest.approx(1 - plan.sigma * ndtri(9.5e-8), rel=1e-3)


# ------------------------------------------------------------------------------------------------ what it costs


def number_cells(mean: float, edges: np.ndarray) -> np.ndarray:
    """The law of a normal number, in cells."""
    return np.diff(ndtr(edges - mean), prepend=0.0, append=1.0)


@pytest.mark.parametrize("change", ["one more", "one less", "replaced"])
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_no_test_of_one_individual_beats_the_price(change: str, mu: float) -> None:
    """Somebody with a key of their own, and then a number: all outcomes (listed or not, number), in exact probabilities."""
    delta = 0.02
    edges = np.linspace(-7, 7 + mu, 4000)
    lower, upper = number_cells(0.0, edges), number_cells(mu, edges)
    never = np.zeros(len(lower))
    pairs = {
        "one more": ([(1 - delta) * upper, delta * upper], [lower, never]),
        "one less": ([lower, never], [(1 - delta) * upper, delta * upper]),
        "replaced": ([(1 - delta) * upper, delta * upper, never], [(1 - delta) * lower, never, delta * lower]),
    }
    one, other = map(np.concatenate, pairs[change])
    spent = Spent.of([KeysEvent(mu, 1, Decimal(str(delta)))])
    for epsilon in ("0.2", "1", "3"):
        told = float(np.maximum(one - math.exp(float(epsilon)) * other, 0).sum())
        less = Budget(epsilon, f"{max(told - 1e-4, 0):.6f}")
        assert not spent.within(less), "the price would be less than what is told"
        assert spent.within(Budget(epsilon, f"{told + 2 * delta:.6f}")), "the price would be far too high"


def test_a_release_with_keys_comes_to_its_budget_and_not_to_less() -> None:
    for epsilon, delta in (("1", "1e-6"), ("0.1", "1e-6"), ("8", "1e-9"), ("1", "1e-3"), ("0.01", "1e-5")):
        budget = Budget(epsilon, delta)
        mu = analytic_mu(without_keys(budget), touched=12)
        events = [KeysEvent(mu * 0.2**0.5, 2, keys_delta(budget)), GaussianEvent(mu * 0.8**0.5, 10)]
        assert Spent.of(events).within(budget)
        assert not Spent.of(events).within(Budget(Decimal(epsilon) * Decimal("0.99"), delta))
        assert Spent.of(events).epsilon_at(Decimal(delta)) <= float(epsilon)


def test_without_the_part_of_delta_the_same_mu_is_too_much() -> None:
    """What would pass if delta were not taken off: a plan for all of it beside keys."""
    mu = analytic_mu(BUDGET, touched=10)
    assert Spent.of([GaussianEvent(mu, 10)]).within(BUDGET)
    assert not Spent.of([KeysEvent(mu, 10, keys_delta(BUDGET))]).within(BUDGET)
    assert not Spent.of([KeysEvent(1e-6, 1, Decimal("1e-6"))]).within(BUDGET), "all of delta is more than there is"


def test_several_lists_share_their_part_of_delta() -> None:
    each = keys_delta(BUDGET, 3)
    assert each * 3 <= keys_delta(BUDGET) == Decimal("9.5e-8") and each > Decimal("3.16e-8")


def test_events_are_read_back_as_they_were_written() -> None:
    event = KeysEvent(0.1, 4, Decimal("9.5e-8"))
    assert event_from_json(event.to_json()) == event
    assert event.to_json() == {"kind": "keys", "mu": 0.1, "delta": "9.5e-8", "touched": 4, "steps": STEPS_PER_SIGMA}


def test_what_cannot_be_an_event_or_a_budget_for_keys_is_refused() -> None:
    for wrong in ("-1e-9", "1", "NaN"):
        with pytest.raises(InvalidBudget):
            KeysEvent(0.1, 1, Decimal(wrong))
    with pytest.raises(LedgerConflict, match="single rows"):
        KeysEvent(0.1, 1, Decimal("1e-7")).doubled()
    with pytest.raises(UnsupportedPlan, match="delta = 0"):
        without_keys(Budget("1"))
    with pytest.raises(UnsupportedPlan, match="somebody's own key"):
        without_keys(Budget("1", "0.01"))
    assert replace(Spent.of([]), delta=Decimal("0.1")).within(Budget("1", "1e-6")), "nothing was drawn at all"
