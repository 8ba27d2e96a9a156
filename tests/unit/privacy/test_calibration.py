"""From budgets to noise and back, held against other people's code and against sums over the real discrete Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq

from saibot.errors import UnsupportedPlan
from saibot.privacy.budget import Budget
from saibot.privacy.calibration import (
    STEPS_PER_SIGMA,
    analytic_mu,
    calibrated_mu,
    certified_delta,
    classical_mu,
    gaussian_delta,
    gaussian_epsilon,
)
from saibot.privacy.mechanisms import PlanRequest, make_plan
from saibot.privacy.neighbours import Neighbours

BUDGETS = [("0.1", "1e-6"), ("0.5", "1e-9"), ("1", "1e-6"), ("1", "1e-3"), ("3", "1e-6"), ("8", "1e-12"), ("20", "0.01")]
epsilons = st.decimals("0.01", "20", places=4)
deltas = st.decimals("1e-9", "0.2", places=9)


def continuous_mu(epsilon: float, delta: float) -> float:
    """The mu of a continuous Gaussian release: no grid, no inflation."""
    return float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-6, 100.0, xtol=1e-15, rtol=1e-14))


def discrete_gaussian_delta(shift: tuple[int, ...], scale: float, epsilon: float) -> float:
    """sum over Z^T of max(P(x) - e^epsilon P(x - shift), 0), P the discrete Gaussian: the definition, term by term."""
    reach = math.ceil(39 * scale) + max(map(abs, shift))
    x = np.arange(-reach, reach + 1, dtype=float)
    normaliser = np.log(np.exp(-(x**2) / (2 * scale**2)).sum())
    here, there = np.zeros(()), np.zeros(())
    for step in shift:
        here = np.add.outer(here, -(x**2) / (2 * scale**2) - normaliser)
        there = np.add.outer(there, -((x - step) ** 2) / (2 * scale**2) - normaliser)
    return float(np.maximum(np.exp(here) - np.exp(epsilon + there), 0).sum())


def length(shift: tuple[int, ...]) -> float:
    return math.sqrt(sum(step**2 for step in shift))


# ------------------------------------------------------------------------------------------------ the Gaussian curve


@pytest.mark.parametrize(
    "mu, epsilon, delta",
    # By hand: delta(mu, 0) = 2 Phi(mu/2) - 1; Phi(1/2) = 0.6914625, Phi(-1/2) = 0.3085375, Phi(-3/2) = 0.0668072.
    [(1.0, 0.0, 0.3829249), (2.0, 0.0, 0.6826895), (1.0, 1.0, 0.3085375 - math.e * 0.0668072), (0.0, 1.0, 0.0)],
)
def test_the_gaussian_curve_has_the_values_of_a_normal_table(mu: float, epsilon: float, delta: float):
    assert gaussian_delta(mu, epsilon) == pytest.approx(delta, abs=3e-7)


@pytest.mark.parametrize("mu, epsilon", [(0.1, 0.2), (0.3, 1.0), (1.0, 1.0), (1.0, 5.0), (4.0, 10.0)])
def test_the_gaussian_curve_agrees_with_dp_accounting(mu: float, epsilon: float):
    loss = privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4)
    assert gaussian_delta(mu, epsilon) == pytest.approx(loss.get_delta_for_epsilon(epsilon), rel=1e-3)
    assert gaussian_delta(mu * 1.01, epsilon) != pytest.approx(loss.get_delta_for_epsilon(epsilon), rel=1e-3)


@pytest.mark.parametrize("mu, delta", [(0.2, 1e-6), (1.0, 1e-5), (3.0, 1e-9), (10.0, 0.1)])
def test_epsilon_of_a_gaussian_agrees_with_dp_accounting(mu: float, delta: float):
    theirs = gaussian_mechanism.get_epsilon_gaussian(1 / mu, delta)
    assert gaussian_epsilon(mu, delta) == pytest.approx(theirs, rel=1e-6)
    assert gaussian_epsilon(mu * 1.0001, delta) > theirs * (1 + 1e-6)


@given(st.floats(0.01, 20), st.floats(1e-12, 0.5))
def test_epsilon_is_rounded_to_the_safe_side(mu: float, delta: float):
    assert gaussian_delta(mu, gaussian_epsilon(mu, delta)) <= delta


def test_a_gaussian_has_no_finite_epsilon_at_delta_zero():
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(0.0, 0.0) == 0.0


@given(st.floats(0.01, 10), st.floats(0.0, 10), st.floats(1.001, 2))
def test_delta_grows_with_mu_and_falls_with_epsilon(mu: float, epsilon: float, factor: float):
    here = gaussian_delta(mu, epsilon)
    assume(1e-200 < here < 0.999999)
    assert gaussian_delta(mu * factor, epsilon) > here
    assert gaussian_delta(mu, epsilon * factor + 0.001) < here


# ------------------------------------------------------------------------------------------------ classical


@pytest.mark.parametrize(
    "epsilon, delta, mu",
    # By hand: sqrt(2 ln(1.25/1e-6)) = sqrt(28.077308) = 5.298803; sqrt(2 ln(1.25e5)) = 4.844805.
    [("1", "1e-6", 1 / 5.298803), ("0.5", "1e-6", 0.5 / 5.298803), ("0.1", "1e-5", 0.1 / 4.844805)],
)
def test_the_classical_gaussian_has_the_values_of_its_formula(epsilon: str, delta: str, mu: float):
    assert classical_mu(Budget(epsilon, delta)) == pytest.approx(mu, rel=1e-6)


@pytest.mark.parametrize("epsilon", ["1.0000001", "2", "8"])
def test_the_classical_gaussian_is_refused_above_epsilon_one(epsilon: str):
    with pytest.raises(UnsupportedPlan, match=r"epsilon <= 1 only.*--calibration analytic"):
        classical_mu(Budget(epsilon, "1e-6"))


def test_the_classical_formula_would_break_its_promise_at_large_epsilon_so_the_refusal_is_needed():
    epsilon, delta = 20.0, 1e-3
    formula = epsilon / math.sqrt(2 * math.log(1.25 / delta))
    assert gaussian_delta(formula, epsilon) > 5 * delta


@pytest.mark.parametrize("make", [classical_mu, lambda budget: analytic_mu(budget, touched=3)])
def test_gaussian_noise_without_a_delta_is_refused(make: Callable[[Budget], float]):
    with pytest.raises(UnsupportedPlan, match=r"delta > 0.*Laplace"):
        make(Budget("1"))


@given(st.decimals("0.001", "1", places=4), st.decimals("1e-9", "0.5", places=9))
def test_the_classical_gaussian_never_asks_for_less_noise_than_the_analytic_one(epsilon, delta):
    budget = Budget(epsilon, delta)
    assert classical_mu(budget) <= analytic_mu(budget, touched=12)


@pytest.mark.parametrize("epsilon, delta", [("1", "1e-6"), ("1e-4", "1e-6"), ("1e-5", "1e-9"), ("2e-6", "1e-9")])
def test_a_classical_plan_is_classical_only_as_far_as_the_integer_lemma_covers_it(epsilon: str, delta: str):
    budget = Budget(epsilon, delta)
    mu = calibrated_mu(budget, "classical", touched=12)
    assert mu <= classical_mu(budget)
    certified = certified_delta(mu, float(epsilon), touched=12, steps=STEPS_PER_SIGMA, target=float(delta))
    assert certified <= float(delta)


@pytest.mark.parametrize(
    "epsilon, delta, touched", [("1e-4", "1e-9", 5000), ("1e-4", "1e-9", 3782), ("1e-4", "1e-30", 1722)]
)
def test_for_a_tiny_epsilon_and_many_coordinates_the_classical_formula_alone_would_not_do(
    epsilon: str, delta: str, touched: int
):
    """The integer grid's own loss is then a good part of epsilon, which the formula knows nothing of."""
    budget, target = Budget(epsilon, delta), float(delta)

    def certified(mu: float) -> float:
        return certified_delta(mu, float(epsilon), touched=touched, steps=STEPS_PER_SIGMA, target=target)

    mu = calibrated_mu(budget, "classical", touched=touched)
    assert certified(mu) <= target < certified(classical_mu(budget)) / 10
    assert mu == analytic_mu(budget, touched=touched) < classical_mu(budget)


@pytest.mark.parametrize(
    "mechanism, layout, features", [("fpm", "join", 60), ("fpm", "union", 80), ("fpm-opt", "union", 80)]
)
def test_the_papers_plans_for_a_tiny_epsilon_are_certified(mechanism: str, layout: str, features: int):
    budget = Budget("1e-4", "1e-9")
    plan = make_plan(
        PlanRequest(
            mechanism,
            layout,
            features=features,
            bound_squared=Decimal(1),
            order=2,
            budget=budget,
            neighbours=Neighbours.REPLACE_ONE,
            row_count_public=True,
        )
    )
    assert plan.mu is not None and plan.mu < classical_mu(budget)
    assert certified_delta(plan.mu, 1e-4, touched=plan.touched, steps=STEPS_PER_SIGMA, target=1e-9) <= 1e-9


def test_at_ordinary_budgets_a_classical_plan_is_the_classical_one():
    assert calibrated_mu(Budget("1", "1e-6"), "classical", touched=12) == classical_mu(Budget("1", "1e-6"))
    assert calibrated_mu(Budget("1", "1e-6"), "analytic", touched=12) == analytic_mu(Budget("1", "1e-6"), touched=12)


# ------------------------------------------------------------------------------------------------ analytic


@pytest.mark.parametrize("epsilon, delta", BUDGETS)
def test_the_analytic_calibration_agrees_with_dp_accounting(epsilon: str, delta: str):
    theirs = gaussian_mechanism.get_sigma_gaussian(float(epsilon), float(delta))
    ours = 1 / analytic_mu(Budget(epsilon, delta), touched=12)
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert ours > theirs * (1 - 1e-9)  # and never below it: theirs is for a continuous Gaussian
    assert ours * 1.001 != pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("epsilon, delta", BUDGETS[1:5])
def test_the_analytic_calibration_meets_the_budget_in_dp_accountings_loss_distribution(epsilon: str, delta: str):
    def theirs(mu: float) -> float:
        loss = privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4)
        return loss.get_delta_for_epsilon(float(epsilon))

    mu = analytic_mu(Budget(epsilon, delta), touched=12)
    assert theirs(mu) == pytest.approx(float(delta), rel=1e-3)
    assert theirs(mu * 1.01) > 1.01 * float(delta)


def test_the_analytic_value_at_one_and_a_millionth():
    assert analytic_mu(Budget("1", "1e-6"), touched=12) == pytest.approx(1 / 4.22468, rel=1e-5)


@given(epsilons, deltas, st.integers(1, 5000))
def test_the_planned_mu_is_certified_for_its_own_budget(epsilon, delta, touched: int):
    mu = analytic_mu(Budget(epsilon, delta), touched=touched)
    target = float(delta)
    certified = certified_delta(mu, float(epsilon), touched=touched, steps=STEPS_PER_SIGMA, target=target)
    assert certified <= target
    more = certified_delta(mu * 1.0001, float(epsilon), touched=touched, steps=STEPS_PER_SIGMA, target=target)
    assert more > target  # no noise is wasted either


@given(epsilons, deltas, st.integers(1, 1000))
def test_more_budget_allows_more_mu_and_more_coordinates_less(epsilon, delta, touched: int):
    here = analytic_mu(Budget(epsilon, delta), touched=touched)
    assert analytic_mu(Budget(epsilon * 2, delta), touched=touched) > here
    assert analytic_mu(Budget(epsilon, delta * 2), touched=touched) > here
    assert analytic_mu(Budget(epsilon, delta), touched=touched + 1000) < here
    assert analytic_mu(Budget(epsilon, delta), touched=touched, steps=STEPS_PER_SIGMA * 16) > here


@pytest.mark.parametrize(
    "epsilon, delta, touched",
    [("1e-7", "1e-9", 12), ("1e-30", "1e-30", 1), ("0.5", "1e-6", 40_000_000), ("1", "0.9", 10**12)],
)
def test_a_budget_below_what_the_integer_grid_itself_costs_is_refused(epsilon: str, delta: str, touched: int):
    with pytest.raises(UnsupportedPlan, match=r"too small for an integer release of .* numbers.*Raise --epsilon"):
        analytic_mu(Budget(epsilon, delta), touched=touched)


# ------------------------------------------------------------------------------------------------ the integer release

SMALL_SCALES = [1.0, 1.5, 2.0, 3.0, 4.5, 8.0]
SHIFTS = [(1,), (2,), (3,), (1, 1), (1, 2), (3, 0)]
EPSILONS = [0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("scale", [*SMALL_SCALES, 20.0, 64.0])
def test_the_certified_delta_is_never_below_the_exact_delta_of_a_discrete_gaussian(scale: float):
    for shift in SHIFTS if scale in SMALL_SCALES else SHIFTS[:3]:
        for epsilon in EPSILONS:
            exact = discrete_gaussian_delta(shift, scale, epsilon)
            for target in (1e-9, 1e-3, max(exact, 1e-12)):
                certified = certified_delta(
                    length(shift) / scale, epsilon, touched=len(shift), steps=math.floor(scale), target=target
                )
                assert exact <= certified * (1 + 1e-12), (shift, epsilon, target)


def test_the_exact_delta_of_a_discrete_gaussian_is_above_the_continuous_curve_so_the_lemma_is_needed():
    """And so the test above fails for a `certified_delta` that forgets the grid."""
    above = [
        (scale, shift, epsilon)
        for scale in SMALL_SCALES
        for shift in SHIFTS
        for epsilon in EPSILONS
        if discrete_gaussian_delta(shift, scale, epsilon) > gaussian_delta(length(shift) / scale, epsilon) * (1 + 1e-6)
    ]
    assert len(above) > 20


@pytest.mark.parametrize("epsilon, delta", [("1", "1e-3"), ("0.5", "0.01"), ("2", "1e-4")])
@pytest.mark.parametrize("steps", [8, 16])
@pytest.mark.parametrize("direction", [(1,), (1, 1), (1, 2)])
def test_an_integer_release_at_the_planned_mu_keeps_its_budget_exactly(
    epsilon: str, delta: str, steps: int, direction: tuple[int, ...]
):
    mu = analytic_mu(Budget(epsilon, delta), touched=len(direction), steps=steps)
    times = math.ceil(mu * steps / length(direction))
    shift = tuple(times * step for step in direction)
    scale = length(shift) / mu  # the smallest scale of at least `steps` at which this shift is within mu
    assert scale >= steps
    assert discrete_gaussian_delta(shift, scale, float(epsilon)) <= float(delta)
    assert discrete_gaussian_delta(shift, scale * 0.7, float(epsilon)) > 2 * float(delta)


def test_the_lemmas_loss_vanishes_as_steps_grow():
    losses = [
        certified_delta(0.2, 1.0, touched=30, steps=2.0**j, target=1e-9) - gaussian_delta(0.2, 1.0) for j in range(4, 20)
    ]
    assert all(finer <= coarser for coarser, finer in pairwise(losses))
    assert 0 < losses[-1] < 1e-11


@pytest.mark.parametrize(
    "steps, touched, inflation",  # mathematics.md, "The integer release", at (1, 1e-6)
    [(1024, 12, 1.1e-5), (1024, 300, 9.1e-5), (1024, 2652, 6.6e-4), (4096, 300, 5.8e-6), (16384, 2652, 2.6e-6)],
)
def test_the_integer_grid_costs_as_little_noise_as_the_design_says(steps: int, touched: int, inflation: float):
    planned = analytic_mu(Budget("1", "1e-6"), touched=touched, steps=steps)
    assert continuous_mu(1.0, 1e-6) / planned - 1 == pytest.approx(inflation, rel=0.1)
