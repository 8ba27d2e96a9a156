"""Who teaches how much: sketches, copies, and providers that are too large or claim too little noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.estimate.factors import FactorPosterior, Factors, Readings, apply, learn
from saibot.estimate.factors.weights import MOST_OF_A_PROVIDER, capped, near_identical, teaching_weights


def test_the_features_of_a_sketch_weigh_as_one_table(made):
    readings = replace(made(5, 40, 0).readings, sketch=np.array([0, 0, 0, 1, 2]))
    np.testing.assert_allclose(teaching_weights(readings), [1 / 3, 1 / 3, 1 / 3, 1, 1])


def test_copies_teach_once_even_in_other_units_and_with_small_changes(made):
    readings = made(30, 60, 2).readings
    rng = np.random.default_rng(0)
    copies = [readings.take(np.array([4]))]
    for factor in (1.0, 3.0, 0.2):
        changed = factor * copies[0].sums[0] * (1 + 0.01 * rng.normal(size=60))
        copies.append(replace(copies[0], sums=(changed,), weight=factor * copies[0].weight))
    joined = Readings.join([readings, *copies])
    weights = teaching_weights(joined)
    assert weights[[4, 30, 31, 32, 33]].sum() == pytest.approx(1)
    others = np.delete(np.arange(30), 4)
    np.testing.assert_array_equal(weights[others], 1)


def test_tables_that_share_causes_are_no_copies(made):
    group = near_identical(made(200, 100, 2, shared=0.7, noise=1.0).readings)
    assert len(np.unique(group)) == 200


def test_on_a_few_keys_only_equal_tables_are_copies(made):
    readings = made(50, 3, 0).readings
    assert len(np.unique(near_identical(readings))) == 50
    twice = Readings.join([readings, readings])
    assert len(np.unique(near_identical(twice))) == 50


@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
    st.integers(1, 12),
)
def test_no_provider_has_more_than_a_fifth_and_none_gains(weights, random, providers):
    weight = np.array(weights)
    provider = np.unique([random.randrange(providers) for _ in weights], return_inverse=True)[1]
    information = np.array([random.uniform(0.1, 5) for _ in weights])
    found = capped(weight, information, provider)
    totals = np.bincount(provider, found * information)
    most = max(MOST_OF_A_PROVIDER, 1 / len(totals))
    assert (totals <= most * totals.sum() * (1 + 1e-9)).all()
    assert (found <= weight * (1 + 1e-12)).all() and found.max() > 0
    small = np.bincount(provider, weight * information) < 0.99 * totals.max()
    np.testing.assert_allclose(totals[small], np.bincount(provider, weight * information)[small])


@pytest.mark.parametrize("attack", ["two hundred tables", "noise that is claimed to be small"])
def test_one_provider_can_neither_teach_by_numbers_nor_by_claims(made, agree, attack):
    """Others keep six tenths of what factors give them, and their values move by less than half their own error."""
    honest = made(40, 80, 2, noise=8.0, seed=1)
    fakes = 200 if attack == "two hundred tables" else 10
    direction = np.random.default_rng(2).normal(size=(80, 1))
    false = made(fakes, 80, 1, loadings=direction, shared=0.99, spread=0.2, noise=8.0, seed=3).readings
    if attack != "two hundred tables":
        false = replace(false, noise=(false.noise[0] * 1e-4,))
    names = [f"honest{i}" for i in range(40)]
    alone = apply(learn(honest.readings, providers=names), honest.readings)
    factors = learn(Readings.join([honest.readings, false]), providers=[*names, *["attacker"] * fakes])
    found = apply(factors, honest.readings)
    plain = agree(honest.readings.plain, honest.truth)
    gain = agree(alone.values, honest.truth) - plain
    assert agree(found.values, honest.truth) - plain > 0.6 * gain
    moved = np.sqrt(np.mean((found.values - alone.values) ** 2))
    assert moved < 0.5 * np.sqrt(np.mean((alone.values - honest.truth) ** 2))


def _length(readings: Readings, sums: Sequence[np.ndarray]) -> np.ndarray:
    """Of readings at all levels, each in units of its noise, (N,)."""
    return np.sqrt(sum((level**2 / noise).sum(axis=1) for level, noise in zip(sums, readings.noise, strict=True)))


@pytest.mark.parametrize("attack", ["noise", "one key", "every table's own readings"])
def test_whatever_is_taught_values_move_by_no_more_than_their_readings_are_long(made, steps, attack):
    readings, rng = made(12, 60, 2, steps=steps, noise=8.0, seed=4).readings, np.random.default_rng(5)
    honest = Factors.none(readings.tree)
    taught = {
        "noise": rng.normal(size=(60, 8)),
        "one key": np.eye(60)[:, :1],
        "every table's own readings": (readings.sums[0] / readings.weight).T,
    }[attack]
    false = Factors(readings.tree, taught / np.sqrt((taught**2).sum(axis=1).mean() + 1e-6), np.full(3, 1e-6))
    before, after = (
        FactorPosterior(readings, one.loadings, one.shares, np.full(12, tau2)).deviations
        for one, tau2 in ((honest, 0.01), (false, 10.0))
    )
    moved = _length(readings, readings.tree.sums(readings.weight * (after - before)))
    most = _length(readings, readings.sums)
    assert (moved <= most * (1 + 1e-9)).all()
    if attack == "every table's own readings":  # the bound is not idle
        assert moved.max() > 0.5 * most[moved.argmax()]
