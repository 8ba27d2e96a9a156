"""Regression from moments against scikit-learn and numpy on the rows, and steadiness under noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from saibot.errors import InvalidInput
from saibot.estimate.moments import exact_moments
from saibot.estimate.regression import Fit, NotPositiveDefinite, adjusted, fit_linear, lookup_gram, r2_on

NAMES = ("a", "b", "c")


def gram_of_rows(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows = np.column_stack([np.ones(len(y)), X, y])
    return rows.T @ rows


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
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_factorised_fit_equals_scikit_learn_on_the_rows(offset, scale):
    X, y = table()
    X = X * [scale, 1, 1] + [offset * scale, offset, 0]
    coefficients, intercept, r2 = sklearn_fit(X, y)
    fit = fit_linear(gram_of_rows(X, y), count=len(y), names=NAMES, target="y")
    assert isinstance(fit, Fit)
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-8)
    assert fit.r2 == pytest.approx(r2, abs=1e-8)
    assert fit.adjusted_r2 == pytest.approx(1 - (1 - r2) * (len(y) - 1) / (len(y) - 4), abs=1e-8)
    assert fit.rss == pytest.approx(np.sum((y - X @ coefficients - intercept) ** 2), rel=1e-8)
    assert not fit.repaired
    np.testing.assert_allclose(fit.predict(X[:5]), X[:5] @ coefficients + intercept, atol=5e-8)


@pytest.mark.parametrize("offset", [0.0, 2000.0])
def test_a_lookup_join_equals_its_materialisation(offset):
    """Per-key values joined to rows: the engine's Gram matrix against numpy's least squares on the wide table."""
    rng = np.random.default_rng(1)
    X, y = table()
    X = X + offset
    keys = rng.integers(0, 40, len(y))
    values = rng.normal(size=(41, 2)) * [1, 1e6] + [offset, 0]  # one key without rows
    y = y + values[keys, 0]
    gram = lookup_gram(exact_moments((*NAMES, "y"), np.column_stack([X, y]), keys, 41), values, ("z", "w"))
    wide = np.column_stack([X, values[keys]])
    fit = gram.fit((*NAMES, "z", "w"), "y", ridge=0.0)
    coefficients, _, r2 = sklearn_fit(wide, y)
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-7, atol=1e-10)
    assert fit.r2 == pytest.approx(r2, abs=1e-8)
    whole = np.column_stack([np.ones(len(y)), X, y, values[keys]])
    np.testing.assert_allclose(gram.matrix, whole.T @ whole, rtol=1e-10)
    assert gram.noise.max() == 0


def test_r2_on_other_rows_is_scikit_learns_score():
    X, y = table()
    fit = fit_linear(gram_of_rows(X[:500], y[:500]), count=500, names=NAMES, target="y")
    model = LinearRegression().fit(X[:500], y[:500])
    assert r2_on(gram_of_rows(X[500:], y[500:]), fit) == pytest.approx(model.score(X[500:], y[500:]), abs=1e-10)


def test_a_constant_or_repeated_feature_does_no_harm():
    X, y = table()
    wide = np.column_stack([X, X[:, 0], np.full(len(y), 7.0)])
    fit = fit_linear(gram_of_rows(wide, y), count=len(y), names=("a", "b", "c", "a2", "one"), target="y")
    model = LinearRegression().fit(X, y)
    assert fit.repaired
    assert fit.r2 == pytest.approx(model.score(X, y), abs=1e-8)
    np.testing.assert_allclose(fit.predict(wide[:9]), model.predict(X[:9]), rtol=1e-6)


def test_the_ridge_is_relative_to_the_unit_diagonal():
    X, y = table()
    fit = fit_linear(gram_of_rows(X, y), count=len(y), names=NAMES, target="y", ridge=0.1)
    scaled = (X - X.mean(0)) / X.std(0)
    ridge = Ridge(alpha=0.1 * len(y), fit_intercept=False).fit(scaled, y - y.mean())
    np.testing.assert_allclose(fit.coefficients, ridge.coef_ / X.std(0), rtol=1e-9)
    assert fit.ridge == 0.1


def noisy_gram(rng: np.random.Generator, gram: np.ndarray, sd: float) -> tuple[np.ndarray, np.ndarray]:
    noise = sd * rng.normal(size=gram.shape)
    noise = np.triu(noise) + np.triu(noise, 1).T
    noise[0, 0] = 0
    return gram + noise, np.where(np.arange(len(gram))[:, None] + np.arange(len(gram)) == 0, 0.0, sd)


@pytest.mark.parametrize("share", [0.01, 0.03, 0.1, 0.3, 1.0])
def test_repair_and_ridge_from_the_noise_level_beat_solving_as_it_is(share):
    """Excess prediction error of coefficients from noisy moments, judged on the exact ones."""
    X, y = table(400)
    gram = gram_of_rows(X, y)
    scatter = np.cov(X.T) * 399
    truth = fit_linear(gram, count=400, names=NAMES, target="y").coefficients
    rng = np.random.default_rng(2)
    errors = {"auto": [], "plain": [], "zero": []}
    for _ in range(300):
        noisy, sd = noisy_gram(rng, gram, share * 400)
        auto = fit_linear(noisy, count=400, names=NAMES, target="y", ridge="auto", noise=sd)
        plain = np.linalg.solve(noisy[:4, :4], noisy[:4, 4])[1:]
        for name, theta in (("auto", auto.coefficients), ("plain", plain), ("zero", 0 * plain)):
            errors[name].append((theta - truth) @ scatter @ (theta - truth))
        assert auto.r2 <= 1
    assert np.mean(errors["auto"]) < (1.02 if share < 0.02 else 1) * np.mean(errors["plain"])
    assert np.mean(errors["auto"]) < np.mean(errors["zero"])


def test_the_papers_rule_gives_up_where_the_matrix_is_not_positive_definite():
    X, y = table(100)
    gram = gram_of_rows(X, y)
    fit = fit_linear(gram, count=100, names=NAMES, target="y", rule="paper")
    assert isinstance(fit, Fit)
    assert fit.r2 == pytest.approx(LinearRegression().fit(X, y).score(X, y), abs=1e-9)
    gram[2, 2] = -5
    refused = fit_linear(gram, count=100, names=NAMES, target="y", rule="paper")
    assert isinstance(refused, NotPositiveDefinite)
    assert refused.smallest < 0 and refused.r2 == 0 and "not positive definite" in refused.message
    repaired = fit_linear(gram, count=100, names=NAMES, target="y", noise=10.0)
    assert isinstance(repaired, Fit) and repaired.repaired


def test_a_wrong_shape_or_a_nan_is_refused():
    with pytest.raises(InvalidInput, match="5 finite rows"):
        fit_linear(np.eye(4), count=3, names=NAMES, target="y")
    with pytest.raises(InvalidInput):
        fit_linear(np.full((5, 5), np.nan), count=3, names=NAMES, target="y")


def test_unknown_features_are_named():
    moments = exact_moments(("a", "y"), np.zeros((4, 2)), np.zeros(4, dtype=int), 1)
    with pytest.raises(InvalidInput, match="'z'"):
        lookup_gram(moments).fit(("z",), "y")


def test_adjusted_r2_is_0_where_there_are_too_few_rows():
    assert adjusted(0.9, 3, 2) == 0.0
    assert adjusted(0.5, 101, 1) == pytest.approx(1 - 0.5 * 100 / 99)


@given(
    st.integers(0, 4),
    st.sampled_from(["auto", 0.0, 0.5]),
    st.sampled_from(["repair", "paper"]),
    st.floats(0, 1e120),
    st.floats(-1e6, 1e6),
    st.integers(0, 2**32 - 1),
)
def test_no_noise_however_large_gives_r2_above_1_or_nan(m, ridge, rule, sd, count, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, m)), rng.normal(size=20)
    gram, noise = noisy_gram(rng, gram_of_rows(X, y), sd)
    fit = fit_linear(gram, count=count, names=tuple("abcd")[:m], target="y", ridge=ridge, noise=noise, rule=rule)
    assert np.isfinite(fit.r2) and fit.r2 <= 1
    if isinstance(fit, Fit):
        assert fit.r2 >= 0 and fit.adjusted_r2 <= 1
        assert np.isfinite(fit.theta).all() and np.isfinite([fit.rss, fit.tss, fit.adjusted_r2]).all()
        other = noisy_gram(rng, gram_of_rows(X, y), sd)[0]
        assert r2_on(other, fit) <= 1


def test_better_known_totals_take_the_place_of_the_sum_over_keys(noisy):
    """With n public, the noise of counts reaches only what deviates from the values' mean."""
    rng = np.random.default_rng(3)
    X, y = table(2000)
    keys = rng.integers(0, 50, 2000)
    exact = exact_moments((*NAMES, "y"), np.column_stack([X, y]), keys, 50)
    values = 5 + rng.normal(size=(50, 1))
    truth = lookup_gram(exact, values, ("z",)).matrix
    draws = np.array([lookup_gram(noisy(exact, rng, counts=3, sums=4, products=5), values).matrix for _ in range(400)])
    stated = lookup_gram(noisy(exact, rng, counts=3, sums=4, products=5), values).noise
    np.testing.assert_allclose(draws.mean(axis=0), truth, atol=6 * stated.max() / 20)
    np.testing.assert_allclose(draws.std(axis=0), stated, rtol=0.2, atol=1e-9)
    assert stated[0, -1] < 3 * np.sqrt(np.sum((values - values.mean()) ** 2)) * 1.001  # not |values|
