"""Readings are made from sketches as lookup values are: levels, composite keys, indicators, exact tables."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saibot.errors import InvalidInput
from saibot.estimate.factors import Factors, KeyTree, Readings, RequestSums, apply, expected_gains, learn
from saibot.estimate.lookup import level_readings, lookup_values
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card
from saibot.privatize.open_table import OpenRequest, exact_sketch
from saibot.sketch import KeyDomain

DAYS = KeyDomain.of_dates(date(2013, 1, 25), date(2013, 2, 10))
CARD = {
    "dataset": {"name": "pupils"},
    "features": {"score": {"bounds": [0, 100]}, "kind": {"levels": ["a", "b"]}},
    "keys": {"day": {"column": "day", "domain": {"dates": ["2013-01-25", "2013-02-10"]}, "levels": ["month"]}},
}


def rows(seed: int = 0, n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = pd.date_range("2013-01-25", "2013-02-10").astype(str)
    return pd.DataFrame({"day": rng.choice(days, n), "score": rng.uniform(0, 100, n), "kind": rng.choice(["a", "b"], n)})


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("levels", [(), ("month",)])
def test_without_factors_values_are_exactly_the_lookup_values_of_the_sketch(sketch_of, seed, levels):
    domain = DAYS.with_levels(levels)
    card = {**CARD, "keys": {"day": {**CARD["keys"]["day"], "levels": list(levels)}}}
    sketch = sketch_of(rows(), card, "day", seed=seed)
    tree = KeyTree.of(DAYS, levels)
    readings = Readings.of_sketch(sketch, tree, DAYS)
    expected = lookup_values(sketch, [domain.parent_index(i + 1) for i in range(len(levels))])
    found = apply(Factors.none(tree), readings)
    np.testing.assert_array_equal(found.values, expected.values[:, :-1])
    np.testing.assert_array_equal(found.variance, expected.posterior_variance[:, :-1])
    assert len(readings) == len(expected.values) and (readings.low[-1], readings.high[-1]) == (0, 1)


def test_an_open_sketch_is_read_without_noise_at_its_finest_keys_alone(tmp_path):
    facts = {"dataset": {"name": "public"}, "features": CARD["features"], "keys": CARD["keys"]}
    request = OpenRequest(Card.parse(facts), "https://example.org/days.csv", "day")
    frame = rows()
    sketch = exact_sketch(frame, request, Ledger(tmp_path)).sketch
    readings = Readings.of_sketch(sketch, KeyTree.of(DAYS, ("month",)), DAYS)
    assert (readings.noise[0] == 0).all() and np.isinf(readings.noise[1]).all()
    means = frame.groupby("day")["score"].mean()
    found = np.array([means[day] for day in DAYS.values if day in means]) / 50 - 1
    np.testing.assert_allclose(readings.plain[0][np.isin(DAYS.values, means.index)], found, atol=1e-4)
    factors = learn(readings, rank=1)
    np.testing.assert_allclose(apply(factors, readings).values, readings.plain, atol=1e-4)


def test_sketches_with_and_without_a_level_stand_side_by_side(sketch_of):
    fine = {**CARD, "keys": {"day": {**CARD["keys"]["day"], "levels": []}}}
    sketches = [sketch_of(rows(), CARD, "day", seed=1), sketch_of(rows(1), fine, "day", seed=2)]
    tree = KeyTree.of(DAYS, ("month",))
    readings = Readings.join([Readings.of_sketch(sketch, tree, DAYS) for sketch in sketches])
    m = len(sketches[0].features)
    assert np.isfinite(readings.noise[1][:m]).all() and np.isinf(readings.noise[1][m:]).all()
    assert readings.sketch.tolist() == [0] * m + [1] * m
    assert np.isfinite(apply(learn(readings, rank=1), readings).values).all()


def test_a_level_that_the_tree_lacks_is_not_used(sketch_of):
    sketch = sketch_of(rows(), CARD, "day", seed=1)
    readings = Readings.of_sketch(sketch, KeyTree.of(DAYS), DAYS)
    np.testing.assert_array_equal(readings.plain, lookup_values(sketch).values[:, :-1])


def test_a_composite_key_is_one_list_of_combinations(sketch_of):
    day = {**CARD["keys"]["day"], "levels": []}
    shop = {"column": "shop", "domain": {"id": "shops", "values": ["x", "y", "z"]}}
    card = {**CARD, "keys": {"day": day, "shop": shop, "both": {"parts": ["day", "shop"]}}}
    frame = rows().assign(shop=np.random.default_rng(2).choice(["x", "y", "z"], 400))
    sketch = sketch_of(frame, card, "both", seed=3)
    readings = Readings.of_sketch(sketch, KeyTree(len(sketch.levels[0]) - 1))
    assert readings.weight.shape == (len(sketch.features), 17 * 3)
    np.testing.assert_array_equal(readings.plain, lookup_values(sketch).values[:, :-1])


def test_a_table_of_other_keys_is_refused(sketch_of):
    with pytest.raises(InvalidInput, match="keys"):
        Readings.of_sketch(sketch_of(rows(), CARD, "day", seed=1), KeyTree(5))


def test_a_key_tree_knows_its_covariance(steps):
    tree = KeyTree(60, ("a", "b"), steps)
    groups = [np.eye(60), np.eye(12)[:, steps[0]], np.eye(3)[:, steps[1][steps[0]]]]
    shares = np.array([0.5, 0.3, 0.2])
    dense = sum(share * group.T @ group for share, group in zip(shares, groups, strict=True))
    x = np.random.default_rng(0).normal(size=(2, 60))
    np.testing.assert_allclose(tree.covariance_times(shares, x), x @ dense, atol=1e-12)


# ------------------------------------------------------------------------------------------------ odd inputs


@st.composite
def odd_tables(draw):
    """One to six tables over one to eight keys, in two groups or none: empty keys, no rows, huge or no noise."""
    keys, tables = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    steps = (np.minimum(np.arange(keys), 1),) if draw(st.booleans()) else ()
    tree, found = KeyTree(keys, ("group",) * len(steps), steps), []
    numbers = st.sampled_from([0.0, 1.0, -3.0, 20.0, 1e6])
    for _ in range(tables):
        counts = np.array(draw(st.lists(numbers, min_size=keys, max_size=keys)))
        sums = np.array(draw(st.lists(numbers, min_size=keys, max_size=keys)))
        sigma = draw(st.sampled_from([0.0, 1e-9, 1.0, 1e9]))
        counts = np.maximum(counts, 0) if sigma == 0 else counts
        sums = np.clip(sums, -counts, counts) if sigma == 0 else sums
        levels = [[part, *(np.bincount(step, part) for step in steps)] for part in (counts, sums)]
        facts = {"count_sigma": [sigma] * len(levels[0]), "sum_sigma": [sigma] * len(levels[0])}
        facts |= {"rows": draw(st.sampled_from([0.0, 1.0, 50.0])), "parents": list(steps)}
        found.append(Readings.of_levels(level_readings(levels[0], [part[None] for part in levels[1]], **facts), tree))
    return Readings.join(found)


@given(odd_tables(), st.sampled_from([None, 0, 1, 12]))
@settings(deadline=None, max_examples=150)
def test_values_and_gains_are_finite_and_within_bounds_whatever_comes(readings, rank):
    factors = learn(readings, rank=rank)
    found = apply(factors, readings)
    assert np.isfinite(factors.loadings).all() and np.isfinite(factors.shares).all() and (factors.shares > 0).all()
    assert np.isfinite(found.values).all() and (np.abs(found.values) <= 1).all()
    assert (found.variance >= 0).all() and (found.tau2 > 0).all()
    d = readings.tree.size
    n = np.arange(d, dtype=float)
    inverse = np.array([[1 / max(n.sum(), 1.0)]])
    asked = RequestSums(n, np.linspace(-1, 1, d), np.full(d, 0.01), n[:, None], inverse, 10.0)
    gains = expected_gains(factors, readings, found.tau2, asked)
    assert all(((part >= 0) & (part <= 1)).all() for part in (gains.raw, gains.usable))
