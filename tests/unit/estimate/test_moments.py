"""Lookup joins as moments, against scikit-learn on the rows, and their noise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from saibot.errors import InvalidInput
from saibot.estimate.moments import exact_moments

NAMES = ("a", "b", "c")


def table(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += 0.7 * X[:, 0]
    return X, X @ [1.0, -2.0, 0.5] + 2 * rng.normal(size=n) + 3


def sklearn_fit(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Through a scaler: alone, scikit-learn 1.9 drops a feature that is 1e6 times smaller than another as if collinear."""
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
    coefficients = model[-1].coef_ / model[0].scale_
    return coefficients, float(y.mean() - coefficients @ X.mean(axis=0)), float(model.score(X, y))


@pytest.mark.parametrize("offset", [0.0, 2000.0])
def test_a_lookup_join_equals_its_materialisation(offset):
    """Per-key values joined to rows: the engine's Gram matrix against numpy's least squares on the wide table."""
    rng = np.random.default_rng(1)
    X, y = table()
    X = X + offset
    keys = rng.integers(0, 40, len(y))
    values = rng.normal(size=(41, 2)) * [1, 1e6] + [offset, 0]  # one key without rows
    y = y + values[keys, 0]
    gram = exact_moments((*NAMES, "y"), np.column_stack([X, y]), keys, 41).gram(values, ("z", "w"))
    wide = np.column_stack([X, values[keys]])
    fit = gram.fit((*NAMES, "z", "w"), "y", ridge=0.0)
    coefficients, _, r2 = sklearn_fit(wide, y)
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-7, atol=1e-10)
    assert fit.r2 == pytest.approx(r2, abs=1e-8)
    whole = np.column_stack([np.ones(len(y)), X, y, values[keys]])
    np.testing.assert_allclose(gram.matrix, whole.T @ whole, rtol=1e-10)
    assert gram.noise.max() == 0


def test_better_known_totals_take_the_place_of_the_sum_over_keys(noisy):
    """With n public, the noise of counts reaches only what deviates from the values' mean."""
    rng = np.random.default_rng(3)
    X, y = table(2000)
    keys = rng.integers(0, 50, 2000)
    exact = exact_moments((*NAMES, "y"), np.column_stack([X, y]), keys, 50)
    values = 5 + rng.normal(size=(50, 1))
    truth = exact.gram(values, ("z",)).matrix
    draws = np.array([noisy(exact, rng, counts=3, sums=4, products=5).gram(values, ("z",)).matrix for _ in range(400)])
    stated = noisy(exact, rng, counts=3, sums=4, products=5).gram(values, ("z",)).noise
    np.testing.assert_allclose(draws.mean(axis=0), truth, atol=6 * stated.max() / 20)
    np.testing.assert_allclose(draws.std(axis=0), stated, rtol=0.2, atol=1e-9)
    assert stated[0, -1] < 3 * np.sqrt(np.sum((values - values.mean()) ** 2)) * 1.001  # not |values|


def test_unknown_features_are_named():
    moments = exact_moments(("a", "y"), np.zeros((4, 2)), np.zeros(4, dtype=int), 1)
    with pytest.raises(InvalidInput, match="'z'"):
        moments.gram().fit(("z",), "y")


def test_noise_adds_in_quadrature_and_a_shift_carries_count_noise_along(noisy):
    rng = np.random.default_rng(2)
    exact = exact_moments(("x", "y"), rng.normal(size=(200, 2)), rng.integers(0, 6, 200), 6)
    one = noisy(exact, rng, counts=3.0, sums=4.0, products=5.0)
    both = one + one
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
