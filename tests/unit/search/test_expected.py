"""Expected gains: which raw table is best, where private values have kept little of it."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.estimate.lookup import LevelValues, shrink
from saibot.estimate.moments import exact_moments
from saibot.search.expected import expected_gains, rank_by_both
from saibot.search.state import State

KEYS, ROWS = 60, 3000


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(3)
    place = rng.integers(0, KEYS, ROWS)
    hidden = rng.normal(size=KEYS)
    y = np.clip(0.5 * hidden[place] + 0.5 * rng.normal(size=ROWS), -1.5, 1.5)
    x = rng.normal(size=ROWS) * 0.3
    state = State.of(exact_moments(("x", "y"), np.column_stack([x, y]), place, KEYS), "y")
    return state, place, hidden, y


def level(values, reliability):
    spread = values.var(axis=1)
    return LevelValues(values - values.mean(axis=1, keepdims=True), np.full(values.shape, reliability), spread)


def test_without_noise_the_expected_gain_is_the_gain(world):
    state, place, hidden, y = world
    values = np.array([hidden, np.random.default_rng(4).normal(size=KEYS)])
    found = expected_gains(state, [level(values, 1.0)], [])
    truth = [np.corrcoef(value[place], y)[0, 1] ** 2 for value in values]
    assert found == pytest.approx(truth, rel=0.06, abs=0.01)


def test_what_noise_took_from_a_table_with_few_rows_is_given_back_in_part(world):
    state, _, hidden, _ = world
    # The same signal, of which one table's release kept a tenth of the variance.
    shrunk = LevelValues(0.1 * (hidden - hidden.mean())[None], np.full((1, KEYS), 0.1), np.array([hidden.var()]))
    whole = float(expected_gains(state, [level(hidden[None], 1.0)], [])[0])
    least, some, most = (float(expected_gains(state, [shrunk], [], prior=prior)[0]) for prior in (1e-6, 0.3, 1e6))
    assert least < some < most <= 1.1 * whole
    assert least == pytest.approx(0.01 * whole, rel=0.05) and some > 0.3 * whole


def test_levels_add_up_to_what_a_single_level_says(world):
    state, _, hidden, _ = world
    parent = np.arange(KEYS) // 10
    means = np.bincount(parent, hidden) / 10
    fine, coarse = (hidden - means[parent])[None], (means - means.mean())[None]
    split = [LevelValues(part, np.ones_like(part), part.var(axis=1)) for part in (fine, coarse)]
    one = expected_gains(state, [level(hidden[None], 1.0)], [])
    assert expected_gains(state, split, [parent]) == pytest.approx(one, rel=0.05)


def test_the_better_table_with_few_rows_is_found_more_often_than_by_usable_gains(world):
    state, _, hidden, _ = world
    rng = np.random.default_rng(5)
    wins = {"usable": 0, "both": 0}
    for _ in range(40):
        worse = 0.6 * hidden + 0.8 * rng.normal(size=KEYS)
        rows = np.array([[10.0] * KEYS, [400.0] * KEYS])
        sums = 0.4 * rows * np.array([hidden, worse])
        found = shrink(
            rows + rng.normal(size=rows.shape) * 8,
            sums + rng.normal(size=rows.shape) * 8,
            count_sigma=8.0,
            sum_sigma=8.0,
            rows=rows.sum(axis=1),
            typical_spread=True,
        )
        usable = np.array([np.corrcoef(values, hidden)[0, 1] ** 2 for values in found.values])
        scores = rank_by_both(usable, usable, expected_gains(state, found.levels, []))
        wins["usable"] += int(np.argmax(usable) == 0)
        wins["both"] += int(np.argmax(scores) == 0)
    print(wins)
    assert wins["both"] >= wins["usable"] + 5 and wins["both"] >= 25


def test_a_spread_that_noise_hides_is_a_typical_one_only_where_asked_for():
    rng = np.random.default_rng(6)
    counts, sums = 2 + rng.normal(size=(1, KEYS)) * 50, rng.normal(size=(1, KEYS)) * 50
    terms = {"count_sigma": 50.0, "sum_sigma": 50.0, "rows": 2.0 * KEYS}
    assert shrink(counts, sums, **terms).spread[0] < 0.02
    assert shrink(counts, sums, **terms, typical_spread=True).spread[0] == pytest.approx(0.3, abs=0.1)
