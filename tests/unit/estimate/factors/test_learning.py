"""Learning factors: the likelihood rises, the number of factors is found, and values get better where there are any."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from saibot.estimate.factors import Factors, KeyTree, apply, learn, learn_by_group, shared_columns
from saibot.estimate.factors.em import Parameters, _Sums, learn_rank, start
from saibot.estimate.factors.posterior import FactorPosterior


def unbounded(readings):
    """Without the limits on tau^2 that are no part of the likelihood."""
    return replace(readings, cap=np.full(len(readings), 100.0))


def likelihood(readings, now: Parameters) -> float:
    return float(FactorPosterior(readings, now.loadings, now.shares, now.tau2).log_likelihood.sum())


@pytest.mark.parametrize("levels", [0, 2])
@pytest.mark.parametrize("noise", [2.0, 8.0])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_every_round_raises_the_marginal_likelihood(made, steps, levels, noise, rank):
    readings = unbounded(made(25, 60, 2, steps=steps[:levels], noise=noise).readings)
    weights = np.ones(len(readings))
    first = start(readings, weights, 3).parameters(rank)
    found = learn_rank(readings, weights, np.arange(len(readings)), first, rounds=12, ridge=0, prior_keys=0)
    steps_up = np.diff(found.log_likelihood)
    assert (steps_up > -1e-9 * np.abs(found.log_likelihood[0])).all()
    assert found.log_likelihood[-1] > found.log_likelihood[0]


def test_each_update_alone_raises_the_likelihood_from_anywhere(made, steps):
    readings = unbounded(made(20, 60, 2, steps=steps, noise=5.0).readings)
    rng = np.random.default_rng(1)
    for _ in range(5):
        now = Parameters(rng.normal(size=(60, 2)), rng.uniform(0.05, 1, 3), rng.uniform(0.02, 0.3, len(readings)))
        before = likelihood(readings, now)
        new = _Sums.of(readings, now, np.ones(len(readings))).updated(readings, now, 0.0, 0.0)
        # The shares are those for the new tau^2, so both belong together.
        assert likelihood(readings, replace(now, loadings=new.loadings)) > before
        assert likelihood(readings, replace(now, shares=new.shares, tau2=new.tau2)) > before


def test_tau2_and_shares_come_out_right_because_variances_are_counted(made):
    """Leaving out the factors' variances would make tau^2 a third too large; here both spreads are known."""
    readings = unbounded(made(120, 80, 2, noise=6.0, shared=0.5, spread=0.05, seed=2).readings)
    weights = np.ones(len(readings))
    first = start(readings, weights, 2).parameters(2)
    found = learn_rank(readings, weights, np.arange(len(readings)), first, rounds=60, ridge=0, prior_keys=0).parameters
    whole = found.tau2 @ np.full(len(readings), 1 / len(readings))
    assert whole == pytest.approx(0.05, rel=0.15)
    assert found.shares.sum() == pytest.approx(0.5, abs=0.08)


# ------------------------------------------------------------------------------------------------ how many


@pytest.mark.parametrize("seed", [0, 1])
def test_two_true_factors_are_found_and_help(made, agree, seed):
    found = made(50, 100, 2, noise=8.0, seed=seed)
    factors = learn(found.readings)
    assert factors.rank == 2
    with_factors, alone = apply(factors, found.readings).values, found.readings.plain
    fixed = apply(learn(found.readings, rank=8), found.readings).values
    assert agree(with_factors, found.truth) > agree(alone, found.truth) + 0.08
    assert agree(with_factors, found.truth) > agree(fixed, found.truth)


@pytest.mark.parametrize("spread", [0.1, 1e-12])
@pytest.mark.parametrize("seed", [0, 1])
def test_tables_that_share_nothing_or_are_all_noise_keep_their_values_exactly(made, seed, spread):
    readings = made(40, 100, 0, spread=spread, seed=seed).readings
    factors = learn(readings)
    assert factors.rank == 0
    found = apply(factors, readings)
    np.testing.assert_array_equal(found.values, readings.plain)
    np.testing.assert_array_equal(found.variance, readings.plain_variance)


def test_factors_on_a_tree_of_keys_are_found_and_help(made, agree, steps):
    found = made(50, 60, 1, noise=8.0, steps=steps, seed=4)
    factors = learn(found.readings)
    assert factors.rank == 1
    assert agree(apply(factors, found.readings).values, found.truth) > agree(found.readings.plain, found.truth) + 0.05


def test_open_tables_teach_about_the_noisy_ones_and_stay_what_they_are(made, agree):
    found = made(40, 100, 2, noise=15.0, exact=10, seed=5)
    factors = learn(found.readings)
    assert factors.rank == 2
    values = apply(factors, found.readings).values
    np.testing.assert_allclose(values[:10], found.truth[:10], atol=1e-6)
    assert agree(values[10:], found.truth[10:]) > agree(found.readings.plain[10:], found.truth[10:]) + 0.15


def test_the_rank_is_chosen_by_providers_not_by_copies_of_their_own_tables(made):
    """One provider whose tables agree with each other is no evidence of anything that others share."""
    rng = np.random.default_rng(6)
    own = made(12, 80, 1, shared=0.9, noise=3.0, seed=6)
    others = made(30, 80, 0, noise=3.0, seed=7)
    readings = type(own.readings).join([own.readings, others.readings])
    names = ["one"] * 12 + [f"other{i}" for i in rng.permutation(30)]
    assert learn(readings, providers=names).rank == 0


def test_a_provider_s_factors_never_saw_its_own_tables(made):
    readings = made(20, 60, 2, seed=8).readings
    names = [f"p{i % 10}" for i in range(20)]
    before = learn_by_group(readings, providers=names, rank=2)
    sums = readings.sums[0].copy()
    mine = np.array([name == "p3" for name in names])
    sums[mine] *= -3.0
    after = learn_by_group(replace(readings, sums=(sums,)), providers=names, rank=2)
    np.testing.assert_array_equal(before.for_provider("p3").loadings, after.for_provider("p3").loadings)
    assert np.abs(before.everyone.loadings - after.everyone.loadings).max() > 1e-3
    assert before.for_provider("nobody") is before.everyone


# ------------------------------------------------------------------------------------------------ form and size


def test_columns_to_join_do_not_depend_on_how_the_loadings_were_turned():
    rng = np.random.default_rng(9)
    loadings = rng.normal(size=(30, 3)) * [3, 2, 1]
    turned = loadings @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    columns = shared_columns(loadings)
    np.testing.assert_allclose(columns, shared_columns(turned), atol=1e-9)
    np.testing.assert_allclose(columns @ columns.T, loadings @ loadings.T, atol=1e-9)
    sizes = (columns**2).sum(axis=0)
    assert (np.diff(sizes) < 0).all() and (columns[np.abs(columns).argmax(axis=0), range(3)] > 0).all()


def test_learning_is_the_same_every_time(made):
    readings = made(15, 40, 1).readings
    np.testing.assert_array_equal(learn(readings, rank=2).loadings, learn(readings, rank=2).loadings)


def test_cost_grows_linearly_in_tables_and_in_keys(made):
    def seconds(tables: int, keys: int) -> float:
        few = made(20, keys, 1).readings
        readings = type(few).join([few] * (tables // 20))
        best = np.inf
        for _ in range(3):
            began = time.process_time()  # others may use the machine too
            apply(learn(readings, rank=2, rounds=2), readings)
            best = min(best, time.process_time() - began)
        return best

    small = seconds(200, 300)
    assert seconds(800, 300) < 9 * small  # four times as much work
    assert seconds(200, 1200) < 9 * small


def test_a_domain_without_tables_has_no_factors():
    none = Factors.none(KeyTree(5))
    assert none.rank == 0 and none.shares.sum() == 1
