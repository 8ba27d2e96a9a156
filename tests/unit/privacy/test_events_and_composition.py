"""What releases cost together: mu^2 adds, pure epsilons add, and the sum agrees with dp_accounting's composition."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from statistics import NormalDist

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from saibot.errors import InvalidBudget, SaibotError
from saibot.privacy.budget import Budget
from saibot.privacy.calibration import STEPS_PER_SIGMA, analytic_mu, gaussian_delta
from saibot.privacy.events import (
    ChoiceEvent,
    Event,
    GaussianEvent,
    PureEvent,
    Spent,
    bounded_range_mu,
    event_from_json,
    pure_mu,
)

gaussians = st.builds(GaussianEvent, st.floats(0.01, 2), st.integers(1, 500), st.sampled_from([4096, 8192, 16384]))
pures = st.builds(PureEvent, st.decimals("0.0001", "5", places=6))
choices = st.builds(ChoiceEvent, st.floats(0.01, 2))


def composed_epsilon(mus: list[float], delta: float, pure: list[float] = []) -> float:  # noqa: B006
    """Epsilon of Gaussian and Laplace releases together, by convolution of their loss distributions."""
    parts = [privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3) for mu in mus]
    parts += [privacy_loss_distribution.from_laplace_mechanism(1 / e, value_discretization_interval=1e-3) for e in pure]
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return float(total.get_epsilon_for_delta(delta))


# ------------------------------------------------------------------------------------------------ composition


def test_mu_squared_adds():
    spent = Spent.of([GaussianEvent(0.3, 10), GaussianEvent(0.4, 20)])
    assert spent == Spent(pytest.approx(0.25), 30, STEPS_PER_SIGMA, Decimal(0))


def test_pure_epsilons_add_exactly():
    spent = Spent.of([PureEvent(Decimal("0.1"))] * 10)
    assert spent.pure_epsilon == 1 and spent.mu_squared == 0
    assert spent.within(Budget("1")) and not spent.within(Budget("0.9999999999999999999999"))


def test_a_small_pure_event_is_not_rounded_away_by_a_large_one():
    """28 digits, Python's default, would lose it, and any number of such releases would then be free."""
    almost = [PureEvent(Decimal(1)), PureEvent(Decimal("1e-29"))]
    assert Decimal(1) + Decimal("1e-29") == 1  # the default context does
    assert not Spent.of(almost).within(Budget("1"))
    assert Spent.of(almost).pure_epsilon > 1


def test_small_gaussian_events_are_not_rounded_away_by_a_large_one():
    small = [GaussianEvent(1e-8, 1)] * 1000
    assert 1.0 + 1e-16 == 1.0  # one by one, none of them would count
    assert Spent.of([GaussianEvent(1.0, 1), *small]).mu_squared > 1 + 0.9e-13


def test_the_coarsest_grid_of_all_events_is_the_one_that_counts():
    assert Spent.of([GaussianEvent(0.1, 1, 8192), GaussianEvent(0.1, 1, 512)]).steps == 512


@given(st.lists(st.one_of(gaussians, pures), max_size=8), st.randoms())
def test_the_order_of_releases_does_not_matter(events: list[Event], random):
    shuffled = list(events)
    random.shuffle(shuffled)
    one, other = Spent.of(events), Spent.of(shuffled)
    assert one.mu_squared == pytest.approx(other.mu_squared)
    assert (one.touched, one.steps, one.pure_epsilon) == (other.touched, other.steps, other.pure_epsilon)


@given(st.lists(gaussians, min_size=1, max_size=4), st.one_of(gaussians, pures, choices))
def test_one_more_release_always_costs_something(events: list[Event], more: Event):
    before, after = (Spent.of(all_of).epsilon_at(Decimal("1e-6")) for all_of in (events, [*events, more]))
    assert after > before


def test_nothing_spent_is_zero():
    nothing = Spent.of([])
    assert nothing.epsilon_at(Decimal("1e-6")) == 0 and nothing.within(Budget("1e-30"))


# ------------------------------------------------------------------------------------------------ choices


def test_mu_squared_of_choices_adds_to_that_of_gaussians_and_touches_no_number():
    spent = Spent.of([GaussianEvent(0.3, 10), ChoiceEvent(0.4)])
    assert spent.mu_squared == pytest.approx(0.25) and spent.touched == 10 and spent.pure_epsilon == 0
    assert ChoiceEvent(0.4).doubled() == ChoiceEvent(0.8)
    assert not Spent.of([ChoiceEvent(0.01)]).within(Budget("1")), "a cap without delta takes no mu"
    for mu in (-0.1, math.nan, math.inf):
        with pytest.raises(InvalidBudget, match="finite mu"):
            ChoiceEvent(mu)


def test_a_choice_of_bounded_range_costs_half_the_mu_of_what_is_only_pure():
    assert bounded_range_mu(Decimal("0.1")) == pytest.approx(0.627 * 0.1, rel=1e-3)
    assert pure_mu(Decimal("0.1")) == pytest.approx(2 * bounded_range_mu(Decimal("0.1")), rel=1e-3)


@given(st.floats(0.001, 12), st.floats(0, 1))
def test_no_pair_of_laws_whose_log_ratios_span_epsilon_is_told_apart_better_than_the_normals_of_mu(
    epsilon: float, where: float
):
    """The worst pair has two outcomes, log ratios t and t - epsilon. Its error rates lie on the curve of mu or above."""
    high = epsilon * (0.001 + 0.998 * where)
    low = high - epsilon
    q = math.expm1(-low) / (math.expm1(high) * math.exp(-low) + math.expm1(-low))  # e^high q + e^low (1 - q) = 1
    p = math.exp(high) * q
    mu = bounded_range_mu(Decimal(epsilon))
    assert -NormalDist().inv_cdf(q) - mu <= -NormalDist().inv_cdf(p) + 1e-7


def test_many_choices_are_as_private_as_as_many_worst_pairs_composed_exactly():
    """Randomised response at half of epsilon is the worst pair: its exact composition stays below what mu says."""
    epsilon, delta, count = 0.1, 1e-6, 300
    each = privacy_loss_distribution.from_randomized_response(2 / (1 + math.exp(epsilon / 2)), 2)
    exact = each.self_compose(count).get_epsilon_for_delta(delta)
    claimed = Spent.of([ChoiceEvent(bounded_range_mu(Decimal("0.1")))] * count).epsilon_at(Decimal("1e-6"))
    assert exact <= claimed <= 1.35 * exact  # in the limit of many, mu is 1.25 times what the losses come to


# ------------------------------------------------------------------------------------------------ against the cap


@pytest.mark.parametrize("cap", [Budget("1", "1e-6"), Budget("0.1", "1e-9"), Budget("8", "1e-3"), Budget("30", "1e-12")])
@pytest.mark.parametrize("touched", [1, 12, 3000])
def test_a_plan_for_the_whole_cap_fits_it_and_twice_the_plan_does_not(cap: Budget, touched: int):
    whole = GaussianEvent(analytic_mu(cap, touched=touched), touched)
    assert Spent.of([whole]).within(cap)
    assert not Spent.of([whole, whole]).within(cap)
    assert not Spent.of([GaussianEvent(whole.mu * 1.001, touched)]).within(cap)


@given(st.integers(2, 12), st.decimals("0.1", "10", places=2))
def test_n_equal_parts_of_mu_squared_fit_the_cap_and_n_plus_one_do_not(parts: int, epsilon: Decimal):
    cap = Budget(epsilon, "1e-6")
    whole = analytic_mu(cap, touched=parts * 9)
    each = GaussianEvent(whole / math.sqrt(parts), 9)
    assert Spent.of([each] * parts).within(cap)
    assert not Spent.of([each] * (parts + 1)).within(cap)


def test_pure_and_gaussian_releases_share_one_epsilon():
    cap, bought = Budget("1", "1e-6"), PureEvent(Decimal("0.4"))
    rest = GaussianEvent(analytic_mu(Budget("0.6", "1e-6"), touched=12), 12)
    assert Spent.of([bought, rest]).within(cap)
    assert not Spent.of([PureEvent(Decimal("0.41")), rest]).within(cap)
    assert not Spent.of([bought, GaussianEvent(analytic_mu(cap, touched=12), 12)]).within(cap)


def test_a_pure_cap_admits_no_gaussian_noise_at_all():
    assert not Spent.of([GaussianEvent(1e-9, 1)]).within(Budget("100"))
    assert Spent.of([GaussianEvent(0.1, 1)]).epsilon_at(Decimal(0)) == math.inf


def test_a_gaussian_release_has_no_room_left_when_pure_ones_took_the_whole_cap():
    taken = [PureEvent(Decimal(1))]
    assert Spent.of(taken).within(Budget("1", "1e-6"))
    assert not Spent.of([*taken, GaussianEvent(0.01, 1)]).within(Budget("1", "1e-6"))


@given(st.lists(st.one_of(gaussians, pures), min_size=1, max_size=6), st.decimals("0.05", "20", places=3))
def test_within_and_the_epsilon_shown_to_people_tell_the_same_story(events: list[Event], epsilon: Decimal):
    spent = Spent.of(events)
    shown = spent.epsilon_at(Decimal("1e-6"))
    if abs(shown - float(epsilon)) > 1e-9 * shown:
        assert spent.within(Budget(epsilon, "1e-6")) == (shown < epsilon)


def test_an_event_on_a_grid_too_coarse_to_be_certified_costs_everything():
    hopeless = Spent.of([GaussianEvent(0.1, 10_000, 1)])
    assert hopeless.epsilon_at(Decimal("1e-6")) == math.inf and not hopeless.within(Budget("1e30", "0.5"))


# ------------------------------------------------------------------------------------------------ one after the other


@given(st.lists(st.lists(st.one_of(gaussians, pures), min_size=1, max_size=3), min_size=1, max_size=4))
def test_a_history_never_costs_less_than_its_sums_where_they_hold(releases: list[list[Event]]):
    cap = Budget("6", "1e-6")
    together, flat = Spent.of_releases(releases, cap), Spent.of([event for release in releases for event in release])
    one_kind = flat.mu_squared == 0 or flat.pure_epsilon == 0
    if len(releases) == 1 or one_kind:
        assert together == flat
    elif together != flat:
        assert together == Spent.of_gaussians([event for release in releases for event in release])
    else:  # sums, though mixed: all that is pure came first, and was too much to count as Gaussian
        assert not any(isinstance(event, PureEvent) for release in releases[1:] for event in release)
        assert not Spent.of_gaussians(releases[0]).within(cap)


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "0.5", "1", "3", "10"])
def test_a_pure_release_counts_as_the_least_gaussian_that_tells_as_much(epsilon: str):
    """Randomised response is the worst pure release; the Gaussian that tells as much is no less telling at any level."""
    e = float(epsilon)
    mu = pure_mu(Decimal(epsilon))

    def dominated(by: float) -> bool:
        levels = [-e + 2 * e * i / 200 for i in range(200)]  # response's delta at the level, against the Gaussian's
        response = [(math.exp(e) - math.exp(level)) / (1 + math.exp(e)) for level in levels]
        return all(gaussian_delta(by, level) >= d for level, d in zip(levels, response, strict=True))

    assert dominated(mu) and not dominated(mu * 0.999)


@pytest.mark.parametrize("epsilon", ["1e-18", "1e-14", "1e-9", "1e-6"])
def test_a_tiny_pure_release_counts_in_full(epsilon: str):
    """Near 0 the least mu is epsilon * sqrt(pi / 2) (1 - O(epsilon^2)): never less, and hardly more."""
    least = float(epsilon) * math.sqrt(math.pi / 2)
    assert least <= pure_mu(Decimal(epsilon)) <= least * (1 + 1e-8)


def test_choosing_the_kind_of_noise_after_an_answer_gains_nothing():
    """A tenth of mu^2, then the better of Gaussian and Laplace for the likelihood ratio so far, each to the limit.

    Worst answers are normal with mean mu or 0, and randomised response; delta is then an integral over the first answer.
    With epsilons added, the best choice reaches 1.66e-6 at a cap of 1e-6.
    """
    cap, delta = Budget("1", "1e-6"), 1e-6
    whole = analytic_mu(cap, touched=24)
    first = GaussianEvent(whole * 0.1**0.5, 12)
    rest = math.sqrt(whole**2 - first.mu**2)

    def reached(pure: float) -> float:
        x = np.linspace(-8, 8 + first.mu, 200_001)
        density = np.exp(-((x - first.mu) ** 2) / 2) / math.sqrt(2 * math.pi)
        loss = first.mu * x - first.mu**2 / 2
        after_gaussian = ndtr(rest / 2 - (1 - loss) / rest) - np.exp(1 - loss) * ndtr(-rest / 2 - (1 - loss) / rest)
        # of randomised response: e^pure/(1+e^pure) with loss +pure, the rest with loss -pure
        odds = math.exp(pure)
        after_pure = odds / (1 + odds) * np.maximum(1 - np.exp(1 - loss - pure), 0)
        after_pure = after_pure + 1 / (1 + odds) * np.maximum(1 - np.exp(1 - loss + pure), 0)
        return float(np.trapezoid(density * np.maximum(after_gaussian, after_pure), x))

    def most(fits: Callable[[Decimal], bool]) -> float:
        return max(float(e) for e in (Decimal(i) / 1000 for i in range(1001)) if fits(e))

    added = most(lambda e: Spent.of([first, PureEvent(e)]).within(cap))
    counted = most(lambda e: Spent.of_releases([[first], [PureEvent(e)]], cap).within(cap))
    assert added > 2 * counted > 0.2
    assert reached(added) > 1.5 * delta
    assert reached(counted) < 1.0001 * delta


# ------------------------------------------------------------------------------------------------ against dp_accounting


@pytest.mark.parametrize("mus", [[0.5], [0.3, 0.4], [0.1] * 10, [1.0, 0.2, 0.7], [0.23670] * 3])
@pytest.mark.parametrize("delta", ["1e-6", "1e-3"])
def test_the_epsilon_of_composed_gaussians_agrees_with_dp_accounting(mus: list[float], delta: str):
    theirs = composed_epsilon(mus, float(delta))

    def ours(scale: float) -> float:
        return Spent.of([GaussianEvent(mu * scale, 12) for mu in mus]).epsilon_at(Decimal(delta))

    assert ours(1.0) == pytest.approx(theirs, rel=0.01)
    assert ours(0.97) != pytest.approx(theirs, rel=0.01) and ours(1.03) != pytest.approx(theirs, rel=0.01)
    added = sum(Spent.of([GaussianEvent(mu, 12)]).epsilon_at(Decimal(delta)) for mu in mus)
    assert len(mus) == 1 or added > 1.02 * theirs  # adding epsilons instead of mu^2 would be told apart


@pytest.mark.parametrize("pure", [["0.5"], ["0.2", "0.3"]])
def test_pure_purchases_beside_gaussian_noise_are_never_priced_below_dp_accounting(pure: list[str]):
    spent = Spent.of([GaussianEvent(0.3, 12), *(PureEvent(Decimal(e)) for e in pure)])
    assert spent.epsilon_at(Decimal("1e-6")) >= composed_epsilon([0.3], 1e-6, [float(e) for e in pure])


# ------------------------------------------------------------------------------------------------ events as documents


@given(st.one_of(gaussians, pures, choices))
def test_an_event_survives_json_bit_by_bit(event: Event):
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event


def test_the_documents_that_old_ledgers_hold_keep_their_meaning():
    """A promise: these lines may be added to, never changed."""
    assert event_from_json({"kind": "gaussian", "mu": 0.25, "touched": 12, "steps": 4096}) == GaussianEvent(0.25, 12, 4096)
    assert event_from_json({"kind": "pure", "epsilon": "0.1"}) == PureEvent(Decimal("0.1"))
    assert GaussianEvent(0.25, 12).to_json() == {"kind": "gaussian", "mu": 0.25, "touched": 12, "steps": 4096}
    assert PureEvent(Decimal("0.10")).to_json() == {"kind": "pure", "epsilon": "0.1"}
    assert event_from_json({"kind": "choice", "mu": 0.03}) == ChoiceEvent(0.03)
    assert ChoiceEvent(0.03).to_json() == {"kind": "choice", "mu": 0.03}


@pytest.mark.parametrize("document", [{"kind": "renyi", "alpha": 2}, {"kind": None}, {}])
def test_an_event_of_unknown_kind_is_refused_because_it_cannot_be_priced(document: dict[str, object]):
    with pytest.raises(SaibotError, match="unknown kind"):
        event_from_json(document)


@pytest.mark.parametrize("epsilon", ["-0.1", "NaN", "Infinity"])
def test_a_pure_event_that_would_be_a_refund_is_refused(epsilon: str):
    with pytest.raises(InvalidBudget):
        PureEvent(Decimal(epsilon))
    with pytest.raises(InvalidBudget):
        event_from_json({"kind": "pure", "epsilon": epsilon})


@pytest.mark.parametrize("mu, touched, steps", [(-0.1, 1, 1), (math.nan, 1, 1), (math.inf, 1, 1), (0.1, 0, 1), (0.1, 1, 0)])
def test_a_gaussian_event_that_cannot_be_priced_is_refused(mu: float, touched: int, steps: int):
    with pytest.raises(InvalidBudget, match="finite mu"):
        GaussianEvent(mu, touched, steps)


def test_the_price_of_a_pure_event_is_never_a_float():
    with pytest.raises(InvalidBudget, match="decimal string"):
        event_from_json({"kind": "pure", "epsilon": 0.1})
