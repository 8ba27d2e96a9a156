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
from saibot.semiring import Gram, solve

NAMES = ("a", "b", "c")


def moments(X: np.ndarray, y: np.ndarray) -> np.ndarray:
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
    fit = Gram.exact((*NAMES, "y"), moments(X, y)).fit(NAMES, "y", ridge=0.0)
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-8)
    assert fit.r2 == pytest.approx(r2, abs=1e-8)
    assert fit.rss == pytest.approx(np.sum((y - X @ coefficients - intercept) ** 2), rel=1e-8)
    assert not fit.repaired
    np.testing.assert_allclose(X[:5] @ fit.coefficients + fit.intercept, X[:5] @ coefficients + intercept, atol=5e-8)


def test_r2_on_other_rows_is_scikit_learns_score():
    X, y = table()
    fit = Gram.exact((*NAMES, "y"), moments(X[:500], y[:500])).fit(NAMES, "y", ridge=0.0)
    model = LinearRegression().fit(X[:500], y[:500])
    assert Gram.exact((*NAMES, "y"), moments(X[500:], y[500:])).r2_of(fit) == pytest.approx(
        model.score(X[500:], y[500:]), abs=1e-10
    )


def test_a_constant_or_repeated_feature_does_no_harm():
    X, y = table()
    wide, names = np.column_stack([X, X[:, 0], np.full(len(y), 7.0)]), ("a", "b", "c", "a2", "one")
    fit = Gram.exact((*names, "y"), moments(wide, y)).fit(names, "y", ridge=0.0)
    model = LinearRegression().fit(X, y)
    assert fit.repaired
    assert fit.r2 == pytest.approx(model.score(X, y), abs=1e-8)
    np.testing.assert_allclose(wide[:9] @ fit.coefficients + fit.intercept, model.predict(X[:9]), rtol=1e-6)


def test_the_ridge_is_relative_to_the_unit_diagonal():
    X, y = table()
    fit = Gram.exact((*NAMES, "y"), moments(X, y)).fit(NAMES, "y", ridge=0.1)
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
    gram = moments(X, y)
    scatter = np.cov(X.T) * 399
    truth = Gram.exact((*NAMES, "y"), gram).fit(NAMES, "y").coefficients
    rng = np.random.default_rng(2)
    errors = {"auto": [], "plain": [], "zero": []}
    for _ in range(300):
        noisy, sd = noisy_gram(rng, gram, share * 400)
        auto = Gram((*NAMES, "y"), noisy, sd).fit(NAMES, "y")
        plain = np.linalg.solve(noisy[:4, :4], noisy[:4, 4])[1:]
        for name, theta in (("auto", auto.coefficients), ("plain", plain), ("zero", 0 * plain)):
            errors[name].append((theta - truth) @ scatter @ (theta - truth))
        assert auto.r2 <= 1
    assert np.mean(errors["auto"]) < (1.02 if share < 0.02 else 1) * np.mean(errors["plain"])
    assert np.mean(errors["auto"]) < np.mean(errors["zero"])


def test_the_papers_rule_gives_up_where_the_matrix_is_not_positive_definite():
    X, y = table(100)
    gram = moments(X, y)
    fit = solve(gram[None], rule="paper")
    assert not fit.failed[0]
    assert fit.r2[0] == pytest.approx(LinearRegression().fit(X, y).score(X, y), abs=1e-9)
    gram[2, 2] = -5
    refused = solve(gram[None], rule="paper")
    assert refused.failed[0] and refused.smallest[0] < 0 and refused.r2[0] == 0
    assert Gram((*NAMES, "y"), gram, np.full(gram.shape, 10.0)).fit(NAMES, "y", ridge=0.0).repaired


def test_a_wrong_shape_or_a_nan_is_refused():
    with pytest.raises(InvalidInput, match="5 finite rows"):
        Gram.exact((*NAMES, "y"), np.eye(4))
    with pytest.raises(InvalidInput):
        Gram.exact((*NAMES, "y"), np.full((5, 5), np.nan))


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
    gram, noise = noisy_gram(rng, moments(X, y), sd)
    gram[0, 0] = count
    names = tuple("abcd")[:m]
    whole = Gram((*names, "y"), gram, noise)
    if rule == "paper":
        published = solve(whole.matrix[None], ridge=ridge, rule=rule)
        assert 0 <= published.r2[0] <= 1 and np.isfinite(published.coefficients).all()
        return
    fit = whole.fit(names, "y", ridge=ridge)
    assert 0 <= fit.r2 <= 1
    assert np.isfinite(fit.theta).all() and np.isfinite([fit.rss, fit.tss]).all()
    other = noisy_gram(rng, moments(X, y), sd)[0]
    assert Gram.exact((*names, "y"), other).r2_of(fit) <= 1


def test_a_stack_of_matrices_is_solved_as_one_by_one():
    rng = np.random.default_rng(4)
    tables = [table(50, seed) for seed in range(5)]
    noisy = [noisy_gram(rng, moments(X, y), 30.0) for X, y in tables]
    for rule, ridge in (("repair", "auto"), ("repair", 0.1), ("paper", 0.0)):
        stack = solve(np.array([gram for gram, _ in noisy]), np.array([sd for _, sd in noisy]), ridge=ridge, rule=rule)
        for i, (gram, sd) in enumerate(noisy):
            alone = solve(gram[None], sd[None], ridge=ridge, rule=rule)
            np.testing.assert_allclose(stack.coefficients[i], alone.coefficients[0], rtol=1e-9)
            assert stack.r2[i] == pytest.approx(alone.r2[0])


def test_the_inverse_of_the_scatter_gives_the_coefficients_also_of_a_repeated_feature():
    X, y = table()
    wide, names = np.column_stack([X, X[:, 0]]), (*NAMES, "a2")
    fit = Gram.exact((*names, "y"), moments(wide, y)).fit(names, "y", ridge=0.0)
    cross = (wide - wide.mean(axis=0)).T @ (y - y.mean())
    np.testing.assert_allclose(fit.inverse @ cross, fit.coefficients, rtol=1e-6)
