"""Synthetic rows: their moments are the sketch's, and they are as unsure as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.domains import generated_domain
from saibot.errors import InvalidInput
from saibot.estimate import lookup_values, totals
from saibot.estimate.synthetic import SyntheticRows, synthetic_rows

KEYS = [f"k{i:02d}" for i in range(40)]
CARD: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {"x": {"bounds": [0, 100]}, "y": {"bounds": [-50, 200]}, "w": {"levels": ["yes"]}},
    "keys": {"k": {"domain": {"values": KEYS, "id": "ks"}}},
}


def table(n: int = 16_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    k = rng.integers(0, len(KEYS), n)
    x = np.clip(40 + rng.normal(0, 8, len(KEYS))[k] + rng.normal(0, 12, n), 0, 100)
    y = np.clip(x + rng.normal(0, 10, len(KEYS))[k] + rng.normal(0, 15, n), -50, 200)
    w = rng.uniform(size=n) < 1 / (1 + np.exp((40 - x) / 10))
    return pd.DataFrame({"k": np.array(KEYS)[k], "x": x, "y": y, "w": np.where(w, "yes", "no")})


def scaled(sketch, made: SyntheticRows) -> np.ndarray:
    facts = sketch.header.features
    return (made.values - [f.offset for f in facts]) / [f.scale for f in facts]


def errors_of_means(sketch, made: SyntheticRows) -> np.ndarray:
    """How far the rows' means by key are from the sketch's values, in standard errors of sampling rows."""
    values, expected = scaled(sketch, made), lookup_values(sketch).values.T
    found = []
    for key in np.flatnonzero(made.counts > 30):
        rows = values[made.keys == key]
        found.append((rows.mean(axis=0) - expected[key]) / np.maximum(rows.std(axis=0) / len(rows) ** 0.5, 1e-12))
    return np.array(found)


def test_rows_of_an_exact_sketch_have_its_counts_means_and_covariances(sketch_of):
    sketch = sketch_of(table(), CARD, "k")
    made = synthetic_rows(sketch)
    np.testing.assert_array_equal(made.counts, np.round(sketch.levels[0].values[:, 0]))
    off = errors_of_means(sketch, made)
    assert 0.8 < (off**2).mean() < 1.2 and np.abs(off).max() < 4.5
    whole, values = totals(sketch), scaled(sketch, made)
    second = values.T @ values / len(values)
    products = (values[:, :, None] * values[:, None, :]).std(axis=0) / len(values) ** 0.5
    assert np.abs((second - whole.products / whole.count) / products).max() < 4


def test_wrong_means_would_be_noticed(sketch_of):
    sketch = sketch_of(table(), CARD, "k")
    made = synthetic_rows(sketch)
    moved = SyntheticRows(made.keys, made.values + np.array([1.0, 0, 0]), made.means, made.counts)
    assert (errors_of_means(sketch, moved)[:, 0] ** 2).mean() > 1.5


def test_draws_spread_as_the_posterior_says_and_are_no_means(sketch_of):
    sketch = sketch_of(table(4000), CARD | {"features": {"x": {"bounds": [0, 100]}}}, "k", epsilon="1", seed=3)
    known = lookup_values(sketch)
    inside = slice(0, len(KEYS))
    drawn = np.array([synthetic_rows(sketch, seed=seed, rows=200).means[inside].T for seed in range(60)])
    off = (drawn - known.values[None, :, inside]) / np.sqrt(known.posterior_variance[None, :, inside])
    assert (known.posterior_variance[:, inside] > 1e-4).all()  # there is something to be unsure of
    assert 0.85 < (off**2).mean() < 1.15
    assert abs(off.mean()) < 0.15


def test_the_whole_tables_moments_are_the_sketchs_within_its_noise(sketch_of):
    sketch = sketch_of(table(), CARD, "k", epsilon="1", seed=5)
    whole = totals(sketch)
    off = []
    for seed in range(8):
        values = scaled(sketch, synthetic_rows(sketch, seed=seed))
        error = np.hypot(np.sqrt(whole.sums_variance) / whole.count, values.std(axis=0) / len(values) ** 0.5)
        off.append((values.mean(axis=0) - whole.sums / whole.count) / error)
    assert 0.4 < (np.array(off) ** 2).mean() < 1.8


def test_no_row_leaves_its_bounds_and_a_row_has_one_level(sketch_of):
    card = CARD | {"features": {"x": {"bounds": [0, 60]}, "o": {"levels": ["a", "b", "c"]}}}
    rng = np.random.default_rng(1)
    rows = table(3000).assign(o=rng.choice(["a", "b", "c", "d"], 3000, p=[0.5, 0.3, 0.1, 0.1]))
    sketch = sketch_of(rows, card, "k", epsilon="3", seed=1)
    made = synthetic_rows(sketch, seed=2).values
    assert made[:, 0].min() >= 0 and made[:, 0].max() <= 60
    assert set(np.unique(made[:, 1:])) <= {0.0, 1.0} and made[:, 1:].sum(axis=1).max() <= 1
    np.testing.assert_allclose(made[:, 1:].mean(axis=0), [0.5, 0.3, 0.1], atol=0.06)


def test_products_per_key_give_keys_covariances_of_their_own(sketch_of):
    rows = table(16_000)
    wild = rows.k < "k20"
    rng = np.random.default_rng(2)
    rows["x"] = np.where(wild, rng.uniform(0, 100, len(rows)), 50 + rng.normal(0, 3, len(rows)).clip(-20, 20))
    sketch = sketch_of(rows, CARD | {"features": {"x": {"bounds": [0, 100]}}}, "k", epsilon="3", seed=4, layout="semiring")
    made = synthetic_rows(sketch)
    spread = pd.Series(made.values[:, 0]).groupby(made.keys).std()
    assert spread[:20].median() > 20 > 15 > spread[20:40].median()


def test_coarser_keys_are_drawn_together_with_their_own(sketch_of):
    days = {"day": {"column": "day", "domain": {"dates": ["2024-01-01", "2024-06-30"]}, "levels": ["month"]}}
    rng = np.random.default_rng(3)
    day = rng.integers(0, 182, 3000)
    dates = pd.date_range("2024-01-01", "2024-06-30").strftime("%Y-%m-%d").to_numpy()
    rows = pd.DataFrame({"day": dates[day], "x": np.clip(50 + 25 * np.sin(day / 29) + rng.normal(0, 5, 3000), 0, 100)})
    sketch = sketch_of(rows, {**CARD, "features": {"x": {"bounds": [0, 100]}}, "keys": days}, "day", seed=4)
    domain = generated_domain(sketch.header.key.parts[0].domain).with_levels(("month",))
    parents = [domain.parent_index(1)]
    drawn = np.array([synthetic_rows(sketch, seed=s, rows=300, domain_parents=parents).means[:182, 0] for s in range(40)])
    month = np.array([int(date[5:7]) - 1 for date in dates])
    together = np.array([[one[month == m].mean() for m in range(6)] for one in drawn])
    alone = drawn.std(axis=0).mean() / 30**0.5
    assert together.std(axis=0).mean() > 1.5 * alone  # days of a month are unsure together, not each for itself
    assert together.std(axis=0).mean() < drawn.std(axis=0).mean()


def test_without_a_key_there_is_one_group_and_without_products_nothing(sketch_of):
    made = synthetic_rows(sketch_of(table(), CARD, None, seed=1), rows=123)
    assert made.values.shape == (123, 3) and set(made.keys) == {0}
    with pytest.raises(InvalidInput, match="holds no products"):
        synthetic_rows(sketch_of(table(), CARD, "k", seed=1, order=1, layout="semiring"))
