"""Moments: unions, changes of units and the noise that goes with them, and the names of a join's features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from saibot.errors import InvalidInput
from saibot.semiring import Moments, distinct


def moments(rng: np.random.Generator, n: int = 200, d: int = 6, features: tuple[str, ...] = ("x", "y")):
    rows, keys = rng.normal(size=(n, len(features))), rng.integers(0, d, n)
    return rows, keys, Moments.of_rows(features, rows, keys, d)


@pytest.mark.parametrize("offset,scale", [(0.0, 1.0), (2000.0, 1.0), (0.0, 1e6)])
def test_a_union_fits_as_the_stacked_rows_do(offset, scale):
    rng = np.random.default_rng(0)
    (a, ka, _), (b, kb, _) = moments(rng), moments(rng)
    a, b = a * [scale, 1] + offset, b * [scale, 1] + offset
    union = Moments.of_rows(("x", "y"), a, ka, 6) + Moments.of_rows(("x", "y"), b, kb, 6)
    fit = union.gram().fit(("x",), "y", ridge=0.0)
    rows = np.vstack([a, b])
    model = LinearRegression().fit(rows[:, :1] / scale, rows[:, 1])
    assert fit.coefficients[0] * scale == pytest.approx(model.coef_[0], abs=1e-8)
    assert fit.r2 == pytest.approx(model.score(rows[:, :1] / scale, rows[:, 1]), abs=1e-8)
    both = Moments.of_rows(("x", "y"), rows, np.concatenate([ka, kb]), 6)
    np.testing.assert_allclose(union.key_products, both.key_products)
    np.testing.assert_allclose(union.sums, both.sums)


def test_rescaling_moments_is_rescaling_rows():
    rng = np.random.default_rng(1)
    rows, keys, before = moments(rng, features=("x", "y", "z"))
    scale, shift = np.array([2.0, 0.5, 1.0]), np.array([0.3, -1.0, 0.0])
    moved, wanted = before.rescale(scale, shift), Moments.of_rows(("x", "y", "z"), rows * scale + shift, keys, 6)
    for name in ("counts", "sums", "products", "count", "total", "key_products"):
        np.testing.assert_allclose(getattr(moved, name), getattr(wanted, name), atol=1e-10)
    assert before.rescale(np.ones(3), np.zeros(3)) is before


def test_other_keys_or_features_do_not_add():
    rng = np.random.default_rng(4)
    _, _, one = moments(rng)
    _, _, finer = moments(rng, d=9)
    _, _, other = moments(rng, features=("x", "z"))
    with pytest.raises(InvalidInput, match="one key domain"):
        _ = one + finer
    with pytest.raises(InvalidInput, match="same features"):
        _ = one + other
    assert (one.whole() + finer.whole()).count == 400
    with pytest.raises(InvalidInput, match="one key domain"):
        _ = one * finer


@pytest.mark.parametrize(
    "left, right, mapping",
    [
        (("x",), ("y",), {}),
        (("x", "y"), ("y", "z"), {"y": "y.2"}),
        (("x", "x.2"), ("x",), {"x": "x.3"}),
        (("x",), ("x", "x.2"), {"x": "x.3"}),
        (("x", "x.2"), ("x", "x.2"), {"x": "x.3", "x.2": "x.2.2"}),
        ((), ("x",), {}),
    ],
)
def test_colliding_names_get_the_next_free_number_on_the_right(left, right, mapping):
    assert distinct(left, right) == mapping
    renamed = [mapping.get(name, name) for name in right]
    assert len({*left, *renamed}) == len(left) + len(right)
