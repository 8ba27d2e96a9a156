"""What a private request's model leaves unexplained by key, held against the rows themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.estimate.moments import exact_moments
from saibot.search import residuals
from saibot.search.denoise import training_state
from saibot.search.key_maps import RequestKey
from saibot.search.residuals import key_residuals
from saibot.search.state import State
from saibot.sketch import KeyDomain
from tests.support.moments import add_noise

SIZE, ROWS = 40, 4000
DAYS = KeyDomain.of("day", [f"d{i:02d}" for i in range(SIZE)])
PLACES = KeyDomain.of("place", ["north", "south"])


def world(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with own feature x, target y, and a column z by day that explains some of what x leaves."""
    rng = np.random.default_rng(seed)
    day, place = rng.integers(0, SIZE, ROWS), rng.integers(0, 2, ROWS)
    z, x = rng.normal(size=SIZE), rng.normal(size=ROWS)
    y = x + z[day] + 0.5 * rng.normal(size=SIZE)[day] + 0.2 * place + rng.normal(size=ROWS)
    return pd.DataFrame({"day": day, "place": place, "x": x, "y": y}) / [1, 1, 5, 5], z


def states(rows: pd.DataFrame, z: np.ndarray, key: RequestKey, codes: np.ndarray, noise: Any = None) -> tuple[State, State]:
    moments = exact_moments(("x", "y"), rows[["x", "y"]].to_numpy(), codes, len(key))
    first = training_state(moments if noise is None else add_noise(moments, noise, 3.0, 3.0, 3.0), "y")
    values = np.append(z, 0.0)[key.places[:, 0]]
    return first, first.with_lookup("z", values, centre=first.centre_of(values))


def left(rows: pd.DataFrame, columns: np.ndarray, by: str) -> np.ndarray:
    """The mean by key of what least squares leaves."""
    X = np.column_stack([np.ones(len(rows)), columns])
    theta = np.linalg.lstsq(X, rows.y.to_numpy(), rcond=None)[0]
    return (rows.y - X @ theta).groupby(rows[by]).mean().to_numpy()


def test_without_noise_they_are_the_means_by_key_of_what_least_squares_leaves() -> None:
    rows, z = world()
    key = RequestKey.product([("day", DAYS), ("place", PLACES)])
    codes = (rows.day * 2 + rows.place).astype(int).to_numpy()
    first, final = states(rows, z, key, codes)
    days, places = key_residuals(key, first, final, scale=10.0)
    assert (days.key, places.key, days.keys, places.keys) == ("day", "place", DAYS.values, PLACES.values)
    x, both = rows[["x"]].to_numpy(), np.column_stack([rows.x, z[rows.day.astype(int)]])
    for part, by in ((days, "day"), (places, "place")):
        np.testing.assert_allclose(part.before, 10 * left(rows, x, by), rtol=0.05, atol=1e-3)
        np.testing.assert_allclose(part.after, 10 * left(rows, both, by), rtol=0.05, atol=1e-3)
        np.testing.assert_allclose(part.rows, rows.groupby(by).size())
    assert np.std(days.after) < 0.6 * np.std(days.before), "the column explains what keys have in common"


def test_with_noise_errors_are_as_large_as_they_say_and_noise_is_drawn_to_0() -> None:
    missed, worse, total = 0, 0.0, 0
    for seed in range(12):
        rows, z = world(seed)
        key = RequestKey.product([("day", DAYS)])
        codes = rows.day.astype(int).to_numpy()
        first, final = states(rows, z, key, codes, np.random.default_rng(100 + seed))
        (part,) = key_residuals(key, first, final, scale=1.0)
        truth = left(rows, np.column_stack([rows.x, z[codes]]), "day")
        errors = np.abs(np.array(part.after) - truth)
        missed += int((errors > 2 * np.array(part.after_error)).sum())
        raw = final.residual_sums()[:-1] / np.maximum(final.counts[:-1], 1)
        worse += float(np.sum(errors**2) - np.sum((raw - truth) ** 2))
        total += SIZE
    assert 0.01 * total < missed < 0.1 * total, "about one in twenty is off by more than two standard deviations"
    assert worse < 0, "means that are drawn to 0 are closer than those that are not"


def test_of_a_very_long_list_those_that_stand_out_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, z = world()
    key = RequestKey.product([("day", DAYS)])
    first, final = states(rows, z, key, rows.day.astype(int).to_numpy())
    (whole,) = key_residuals(key, first, final, scale=1.0)
    monkeypatch.setattr(residuals, "MOST_KEYS", 10)
    (some,) = key_residuals(key, first, final, scale=1.0)
    assert len(some.keys) == 10 and some.left_out == SIZE - 10 and list(some.keys) == sorted(some.keys)
    largest = max(range(SIZE), key=lambda i: max(abs(whole.before[i]), abs(whole.after[i])))
    assert whole.keys[largest] in some.keys
