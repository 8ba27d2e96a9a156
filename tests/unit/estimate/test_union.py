"""Union: moments of all rows together, whatever bounds each table was scaled with."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from saibot.errors import InvalidInput
from saibot.estimate.moments import exact_moments
from saibot.estimate.union import union_moments, union_sketches


def moments(rng: np.random.Generator, n: int = 200, d: int = 6, features: tuple[str, ...] = ("x", "y")):
    rows, keys = rng.normal(size=(n, len(features))), rng.integers(0, d, n)
    return rows, keys, exact_moments(features, rows, keys, d)


@pytest.mark.parametrize("offset,scale", [(0.0, 1.0), (2000.0, 1.0), (0.0, 1e6)])
def test_a_union_fits_as_the_stacked_rows_do(offset, scale):
    rng = np.random.default_rng(0)
    (a, ka, _), (b, kb, _) = moments(rng), moments(rng)
    a, b = a * [scale, 1] + offset, b * [scale, 1] + offset
    union = union_moments([exact_moments(("x", "y"), a, ka, 6), exact_moments(("x", "y"), b, kb, 6)])
    fit = union.gram().fit(("x",), "y", ridge=0.0)
    rows = np.vstack([a, b])
    model = LinearRegression().fit(rows[:, :1] / scale, rows[:, 1])
    assert fit.coefficients[0] * scale == pytest.approx(model.coef_[0], abs=1e-8)
    assert fit.r2 == pytest.approx(model.score(rows[:, :1] / scale, rows[:, 1]), abs=1e-8)
    both = exact_moments(("x", "y"), rows, np.concatenate([ka, kb]), 6)
    np.testing.assert_allclose(union.key_products, both.key_products)
    np.testing.assert_allclose(union.sums, both.sums)


def test_rescaling_moments_is_rescaling_rows():
    rng = np.random.default_rng(1)
    rows, keys, before = moments(rng, features=("x", "y", "z"))
    scale, shift = np.array([2.0, 0.5, 1.0]), np.array([0.3, -1.0, 0.0])
    moved, wanted = before.rescale(scale, shift), exact_moments(("x", "y", "z"), rows * scale + shift, keys, 6)
    for name in ("counts", "sums", "products", "count", "total", "key_products"):
        np.testing.assert_allclose(getattr(moved, name), getattr(wanted, name), atol=1e-10)
    assert before.rescale(np.ones(3), np.zeros(3)) is before


def test_noise_adds_in_quadrature_and_a_shift_carries_count_noise_along(noisy):
    rng = np.random.default_rng(2)
    _, _, exact = moments(rng)
    one = noisy(exact, rng, counts=3.0, sums=4.0, products=5.0)
    both = union_moments([one, one])
    assert both.sum_noise[0] == pytest.approx(4 * np.sqrt(2))
    assert both.product_noise[0, 1] == pytest.approx(5.0)
    assert both.total_noise[0] == pytest.approx(one.total_noise[0] * np.sqrt(2))
    moved = one.rescale(np.array([2.0, 1.0]), np.array([1.0, 0.0]))
    assert moved.sum_noise[0] == pytest.approx([np.hypot(8, 3), 4])
    sums = [noisy(exact, rng, counts=3.0, sums=4.0, products=5.0).rescale([2.0, 1.0], [1.0, 0.0]).sums for _ in range(500)]
    assert np.std(sums, axis=0)[:, 0].mean() == pytest.approx(np.hypot(8, 3), rel=0.1)
    draws = [
        noisy(exact, rng, counts=3.0, sums=4.0, products=5.0).rescale([2.0, 1.0], [1.0, 0.5]).products for _ in range(500)
    ]
    stated = one.rescale(np.array([2.0, 1.0]), np.array([1.0, 0.5])).product_noise
    np.testing.assert_allclose(np.std(draws, axis=0), stated, rtol=0.15)


CARD = {"dataset": {"name": "first"}, "features": {"x": {"bounds": [0, 10]}, "y": {"bounds": [-1, 1]}}}
OTHER = {"dataset": {"name": "second"}, "features": {"y": {"bounds": [-2, 2]}, "x": {"bounds": [-5, 5]}}}


def tables(n: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(3)
    first = pd.DataFrame({"x": rng.uniform(0, 10, n), "y": rng.uniform(-1, 1, n)})
    return first, pd.DataFrame({"x": rng.uniform(-5, 5, n), "y": rng.uniform(-2, 2, n)})


def test_sketches_with_different_bounds_add_up_in_the_units_of_the_first(sketch_of):
    first, second = tables()
    union = union_sketches([sketch_of(first, CARD, None), sketch_of(second, OTHER, None)])
    rows = np.vstack([first.to_numpy(), second[["x", "y"]].to_numpy()])
    scaled = (rows - [5, 0]) / [5, 1]
    assert union.count == 600
    np.testing.assert_allclose(union.total, scaled.sum(axis=0), atol=0.05)  # the grid of the release
    np.testing.assert_allclose(union.products, scaled.T @ scaled, atol=0.1)


def test_features_that_mean_something_else_are_refused(sketch_of):
    first, second = tables()
    metres = {**CARD, "dataset": {"name": "third"}, "features": CARD["features"] | {"x": {"bounds": [0, 9], "unit": "m"}}}
    with pytest.raises(InvalidInput, match="different things"):
        union_sketches([sketch_of(first, CARD, None), sketch_of(second, metres, None)])
    fewer = {"dataset": {"name": "fourth"}, "features": {"x": {"bounds": [0, 10]}}}
    with pytest.raises(InvalidInput, match="same features"):
        union_sketches([sketch_of(first, CARD, None), sketch_of(second[1:], fewer, None)])
    with pytest.raises(InvalidInput, match="at least one"):
        union_sketches([])


def test_other_keys_or_features_do_not_add():
    rng = np.random.default_rng(4)
    _, _, one = moments(rng)
    _, _, finer = moments(rng, d=9)
    _, _, other = moments(rng, features=("x", "z"))
    with pytest.raises(InvalidInput, match="one key domain"):
        union_moments([one, finer])
    with pytest.raises(InvalidInput, match="same features"):
        union_moments([one, other])
    whole = [part.onto(np.zeros(len(part.counts), dtype=int), 1) for part in (one, finer)]
    assert union_moments(whole).count == 400
