"""The baselines add the noise that their guarantee asks for: less would be no guarantee, more an unfair comparison."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, chi2, ks_2samp

from research.baselines import EntryNoise, RandomisedKey, apm, nonprivate, sf, shuffle, tpm
from research.baselines.noise import keyed_moment_matrices, moment_matrices
from research.baselines.scales import classical_mu, continuous_mu, whole_table_noise, zcdp_mu
from research.plans import deviations, planned, terms
from saibot.privacy import Budget
from saibot.privacy.calibration import gaussian_delta

B2 = 25.0
ALG1 = math.sqrt(4 * B2 + 2 * B2**2)  # Alg. 1 line 2, several features
CLASSICAL = math.sqrt(2 * math.log(1.25e6))


def scale_pvalues(sample: np.ndarray, sigma: float) -> dict[float, float]:
    """Two-sided chi-square p-values of the sample's variance against 0.7, 1 and 1.3 times sigma."""
    found = {}
    for factor in (0.7, 1.0, 1.3):
        below = float(chi2.cdf((sample**2).sum() / (factor * sigma) ** 2, sample.size))
        found[factor] = 2 * min(below, 1 - below)
    return found


def has_scale(sample: np.ndarray, sigma: float) -> bool:
    p = scale_pvalues(sample, sigma)
    return p[1.0] > 1e-6 and p[0.7] < 1e-6 and p[1.3] < 1e-6


# ------------------------------------------------------------------------------------------------ noise


def test_a_sum_of_laplace_draws_is_simulated_exactly() -> None:
    noise = EntryNoise.by_order("laplace", 1, (0.0, 2.0, 2.0))
    rng = np.random.default_rng(0)
    at_once = noise.drawn(rng, (4000,), copies=7)[:, 0, 1]
    one_by_one = rng.laplace(scale=2.0, size=(4000, 7)).sum(axis=1)
    assert ks_2samp(at_once, one_by_one).pvalue > 1e-4
    assert ks_2samp(at_once, 1.2 * one_by_one).pvalue < 1e-4


def test_noise_is_symmetric_and_leaves_out_what_has_no_scale() -> None:
    noise = EntryNoise.by_order("gaussian", 2, (0.0, 1.0, 3.0), beside=2.0)
    drawn = noise.drawn(np.random.default_rng(0), (5, 4), copies=np.zeros((5, 4)))
    assert not drawn.any()
    drawn = noise.drawn(np.random.default_rng(0), (3000,), copies=4)
    assert (drawn == np.swapaxes(drawn, 1, 2)).all() and not drawn[:, 0, 0].any()
    assert has_scale(drawn[:, 1, 1], 6.0) and has_scale(drawn[:, 1, 2], 4.0) and has_scale(drawn[:, 0, 1], 2.0)


def test_moment_matrices_by_key_add_up_to_those_of_the_table() -> None:
    rng = np.random.default_rng(0)
    rows, place = rng.normal(size=(200, 3)), rng.integers(0, 7, 200)
    assert keyed_moment_matrices(rows, place, 7).sum(axis=0) == pytest.approx(moment_matrices(rows))


def test_nonprivate_adds_nothing() -> None:
    assert not nonprivate.noise(features=2).drawn(np.random.default_rng(0), (3,)).any()


# ------------------------------------------------------------------------------------------------ tpm


def test_tpm_noises_every_row_as_a_table_of_one_row() -> None:
    plan = tpm.plan(features=3, bound_squared=B2, epsilon=1.0, delta=1e-6)
    assert plan.values.scale[1, 1] == plan.values.scale[0, 1] == pytest.approx(CLASSICAL * ALG1)
    assert plan.values.scale[0, 0] == 0
    released = plan.release_whole(np.zeros((2000, 4, 4)), 100, np.random.default_rng(0))
    assert has_scale(released[:, 1, 2], 10 * CLASSICAL * ALG1)


def test_tpm_with_a_key_has_half_of_epsilon_for_the_values() -> None:
    plan = tpm.plan(features=1, bound_squared=B2, epsilon=1.0, delta=1e-6, keys=100)
    assert plan.key is not None and plan.key.epsilon == 0.5
    assert plan.values.scale[1, 1] == pytest.approx(2 * CLASSICAL * math.sqrt(4 * B2 + B2**2))


def test_pure_tpm_uses_laplace_noise_by_the_l1_distance() -> None:
    plan = tpm.plan(features=1, bound_squared=B2, epsilon=0.5, delta=0.0)
    assert plan.values.kind == "laplace"
    assert plan.values.scale[1, 1] == pytest.approx((2 * 5 + 25) / 0.5)


@pytest.mark.parametrize("epsilon,keys", [(0.5, 2), (0.5, 100), (3.0, 7)])
def test_no_report_of_a_key_is_more_than_e_to_the_epsilon_likelier_for_another_key(epsilon: float, keys: int) -> None:
    key = RandomisedKey(epsilon, keys)
    assert key.kept / key.other == pytest.approx(math.exp(epsilon))
    assert key.kept + (keys - 1) * key.other == pytest.approx(1)


def test_reported_keys_follow_the_response_and_all_others_are_alike() -> None:
    key, rng = RandomisedKey(1.0, 5), np.random.default_rng(0)
    shares = np.bincount(key.reported(np.full(200_000, 2), rng), minlength=5) / 200_000
    assert shares[2] == pytest.approx(key.kept, abs=0.006)
    assert np.delete(shares, 2) == pytest.approx(key.other, abs=0.005)


def test_debiased_statistics_are_right_on_average_for_counts_sums_and_products() -> None:
    rng = np.random.default_rng(1)
    rows, place = rng.uniform(-1, 1, size=(300, 2)) + 0.5, rng.choice(3, 300, p=[0.7, 0.2, 0.1])
    plan = tpm.plan(features=2, bound_squared=4.5, epsilon=2.0, delta=1e-6, keys=3)
    assert plan.key is not None
    found = np.array([plan.release_keyed(rows, place, rng) for _ in range(3000)])
    truth = keyed_moment_matrices(rows, place, 3)
    error = found.std(axis=0) / math.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - truth) < 4.5 * error).all()
    as_reported = np.mean([np.bincount(plan.key.reported(place, rng), minlength=3) for _ in range(200)], axis=0)
    assert as_reported[0] < 0.75 * truth[0, 0, 0]


# ------------------------------------------------------------------------------------------------ apm


@pytest.mark.parametrize(
    "providers,requests,subsets,expected",
    [
        (1, 1, True, 1),
        (4, 1, True, 15),
        (4, 3, True, 24),
        (0, 1, True, 1),
        (1, 10, True, 10),
        (9, 1, False, 9),
        (3, 7, False, 7),
    ],
)
def test_apm_counts_every_answer_that_a_row_takes_part_in(providers, requests, subsets, expected) -> None:
    assert apm.answers(providers=providers, requests=requests, subsets=subsets) == expected
    if subsets and providers:
        sets = [chosen for chosen in product((0, 1), repeat=providers) if any(chosen)]
        assert expected == max(len(sets), requests * sum(chosen[0] for chosen in sets))


def test_apm_splits_epsilon_and_delta_over_its_answers() -> None:
    noise = apm.union_noise(features=3, bound_squared=B2, epsilon=1.0, delta=1e-6, parts=10)
    assert noise.scale[1, 1] == pytest.approx(10 * math.sqrt(2 * math.log(1.25e7)) * ALG1)


def test_tight_composition_of_apm_is_exactly_the_budget() -> None:
    parts = 40
    noise = apm.union_noise(features=3, bound_squared=B2, epsilon=1.0, delta=1e-6, parts=parts, tight=True)
    mu = ALG1 / noise.scale[1, 1]
    assert gaussian_delta(mu * math.sqrt(parts), 1.0) == pytest.approx(1e-6, rel=1e-6)


def test_no_replaced_row_moves_a_join_further_than_the_sensitivity_of_apm() -> None:
    """Random and extreme neighbouring tables: the bound holds, and is nearly reached."""
    rng, f, reached = np.random.default_rng(2), 3, 0.0
    limit = apm.join_sensitivity(bound_squared=2.0, features=2, max_frequency=f)
    for _ in range(4000):
        partners = [np.clip(rng.normal(size=rng.integers(0, f + 1)) * 3, -1, 1) for _ in range(2)]
        old, new = np.clip(rng.normal(size=2) * 3, -1, 1)
        here, there = rng.integers(0, 2, 2)
        before, after = (
            moment_matrices(np.column_stack([np.full(len(partners[k]), x), partners[k]]))[np.triu_indices(3)]
            for x, k in ((old, here), (new, there))
        )
        reached = max(reached, float(np.linalg.norm(before - after)))
    assert 0.6 * limit < reached <= limit
    noise = apm.join_noise(features=2, bound_squared=2.0, max_frequency=f, epsilon=0.5, delta=1e-6, parts=1)
    assert noise.scale[0, 0] == pytest.approx(limit * CLASSICAL / 0.5)


# ------------------------------------------------------------------------------------------------ shuffling


def exact_pair_delta(local: float, *, n: int, epsilon: float) -> float:
    """The numeric bound by plain enumeration of (C, A, D)."""
    first: dict[tuple[int, int], float] = {}
    second: dict[tuple[int, int], float] = {}
    p = math.exp(local) / (1 + math.exp(local))
    for c in range(n):
        for a in range(c + 1):
            weight = binom.pmf(c, n - 1, math.exp(-local)) * binom.pmf(a, c, 0.5)
            for d, chance in ((1, p), (0, 1 - p)):
                for law, one in ((first, d), (second, 1 - d)):
                    law[a + one, c - a + 1 - one] = law.get((a + one, c - a + 1 - one), 0.0) + weight * chance
    return sum(max(first.get(k, 0.0) - math.exp(epsilon) * second.get(k, 0.0), 0.0) for k in {*first, *second})


@pytest.mark.parametrize("local,n,epsilon", [(1.5, 12, 0.4), (0.7, 25, 0.1), (3.0, 30, 1.0)])
def test_the_numeric_bound_is_the_exact_divergence_of_its_pair(local: float, n: int, epsilon: float) -> None:
    found = shuffle.numeric_delta(local, n=n, epsilon=epsilon)
    assert found == pytest.approx(exact_pair_delta(local, n=n, epsilon=epsilon), rel=1e-9)


def test_the_closed_form_begins_to_amplify_at_about_650_rows_and_the_numeric_bound_at_50() -> None:
    def amplified(bound: shuffle.Bound) -> list[int]:
        sizes = (10, 50, 620, 650)
        return [n for n in sizes if shuffle.local_epsilon(n=n, epsilon=1.0, delta=1e-6, bound=bound) > 1.01]

    assert amplified("closed") == [650]
    assert amplified("numeric") == [50, 620, 650]


@pytest.mark.parametrize("n,epsilon", [(1000, 1.0), (10_000, 1.0), (10_000, 0.1), (60_000, 0.1)])
def test_the_numeric_bound_allows_at_least_what_the_closed_forms_do(n: int, epsilon: float) -> None:
    closed, numeric = (shuffle.local_epsilon(n=n, epsilon=epsilon, delta=1e-6, bound=b) for b in ("closed", "numeric"))
    assert epsilon < closed < numeric
    assert shuffle.numeric_delta(numeric, n=n, epsilon=epsilon) <= 1e-6
    assert shuffle.numeric_delta(closed, n=n, epsilon=epsilon) <= 1e-6


def test_closed_forms_are_silent_outside_their_conditions() -> None:
    assert shuffle.erlingsson(0.6, n=10_000, delta=1e-6) == shuffle.erlingsson(0.4, n=999, delta=1e-6) == math.inf
    assert shuffle.erlingsson(0.5, n=10_000, delta=1e-6) == pytest.approx(6 * math.sqrt(math.log(1e6) / 1e4))
    assert shuffle.feldman(1.0, n=630, delta=1e-6) == math.inf
    assert shuffle.feldman(1.0, n=632, delta=1e-6) < 1


def test_without_delta_or_with_a_budget_split_to_nothing_shuffling_claims_no_amplification() -> None:
    assert shuffle.local_epsilon(n=10_000, epsilon=1.0, delta=0.0, bound="numeric") == 1.0
    tiny = 2.0**-99
    assert shuffle.local_epsilon(n=2000, epsilon=tiny, delta=1e-6 * tiny, bound="numeric") == tiny


def test_sf_adds_laplace_noise_of_the_amplified_budget_to_every_row() -> None:
    spread = (2 * math.sqrt(3) * 5) + 12.5 * math.sqrt(33)  # l1 distances of orders 1 and 2 for three features
    local = shuffle.local_epsilon(n=1000, epsilon=1.0, delta=1e-6, bound="numeric")
    plan = sf.sf1(rows=1000, features=3, bound_squared=B2, epsilon=1.0, delta=1e-6)
    assert plan.values.scale[1, 1] == pytest.approx(spread / local)
    released = plan.release_whole(np.zeros((2000, 4, 4)), 1000, np.random.default_rng(0))
    assert has_scale(released[:, 0, 1], math.sqrt(2 * 1000) * spread / local)
    closed = sf.sf1(rows=1000, features=3, bound_squared=B2, epsilon=1.0, delta=1e-6, bound="closed")
    assert closed.values.scale[1, 1] > plan.values.scale[1, 1]


def test_sf1_with_a_key_halves_the_local_budget() -> None:
    plan = sf.sf1(rows=1000, features=1, bound_squared=B2, epsilon=1.0, delta=1e-6, keys=10)
    assert plan.key is not None and plan.key.epsilon == plan.epsilon / 2
    assert plan.values.scale[1, 1] == pytest.approx(35 / (plan.epsilon / 2))


def test_sf2_amplifies_with_all_rows_of_the_union_and_splits_like_apm() -> None:
    one, many = (sf.sf2(rows=2000, features=3, bound_squared=B2, epsilon=1.0, delta=1e-6, parts=parts) for parts in (1, 10))
    assert one.epsilon == shuffle.local_epsilon(n=2000, epsilon=1.0, delta=1e-6, bound="numeric")
    assert many.epsilon == shuffle.local_epsilon(n=2000, epsilon=0.1, delta=1e-7, bound="numeric")


# ------------------------------------------------------------------------------------------------ calibration


def test_the_three_calibrations_are_ordered_as_they_should_be() -> None:
    for epsilon in (0.1, 0.5, 1.0):
        assert classical_mu(epsilon, 1e-6) < zcdp_mu(epsilon, 1e-6) < continuous_mu(epsilon, 1e-6)
    assert continuous_mu(1.0, 1e-6) / zcdp_mu(1.0, 1e-6) == pytest.approx(1.07, abs=0.01)
    assert classical_mu(3.0, 1e-6) == continuous_mu(3.0, 1e-6)


def test_zcdp_conversion_agrees_with_the_accounting_library() -> None:
    accounting = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    orders = np.concatenate([np.linspace(1.01, 60, 3000), np.linspace(60, 400, 500)])
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(accounting.GaussianDpEvent(1 / zcdp_mu(1.0, 1e-6)))
    assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, rel=1e-3)


def test_whole_table_noise_is_that_of_the_fpm_plan() -> None:
    for delta, spread in (("1e-6", 1.0), ("0", math.sqrt(2))):  # a plan states standard deviations
        plan = planned(terms("fpm", "union", features=3, budget=Budget("1", delta), bound_squared=25))
        own = whole_table_noise(features=3, bound_squared=B2, epsilon=1.0, delta=float(delta))
        assert own.scale * spread == pytest.approx(deviations(plan, "global"))
