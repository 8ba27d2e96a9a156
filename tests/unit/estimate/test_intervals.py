"""Intervals: the RSS functional is exact, limits behave, and no noise breaks them. Coverage: tests/statistical."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from saibot.errors import InvalidInput
from saibot.estimate.intervals import (
    Problem,
    Quadratic,
    coefficient_interval,
    gain_interval,
    r2_interval,
    stop_quantile,
)
from saibot.estimate.moments import exact_moments
from tests.support.moments import add_noise

OWN, D = ("x", "w"), 25


class World:
    """Rows (x, w, y), their keys, and two looked-up values of which the first matters."""

    def __init__(self, n: int = 800, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.values = rng.normal(size=(D, 2)) * 0.3 + 0.5
        self.keys = rng.integers(0, D, n)
        x = 0.3 * rng.normal(size=(n, 2)) + [0.2, 0.0]
        y = 0.4 + x @ [0.5, -0.3] + 0.6 * self.values[self.keys, 0] + 0.3 * rng.normal(size=n)
        self.rows = np.column_stack([x, y])
        self.moments = exact_moments((*OWN, "y"), self.rows, self.keys, D)
        self.wide = np.column_stack([x, self.values[self.keys]])
        self.y = y

    def fit(self, columns: int) -> tuple[np.ndarray, float]:
        """Least squares on the first columns of the wide table, padded to all coefficients, and R2."""
        model = LinearRegression().fit(self.wide[:, :columns], self.y)
        theta = np.concatenate([[model.intercept_], model.coef_, np.zeros(4 - columns)])
        return theta, model.score(self.wide[:, :columns], self.y)


def test_the_rss_of_any_coefficients_is_linear_in_the_statistics():
    world = World()
    theta = np.array([0.3, 0.2, -0.1, 0.7, -0.4])
    problem = Problem.of(world.moments, OWN, "y", world.values)
    rss = Quadratic(problem.moments, (problem.residual(theta),), np.ones((1, 1)))
    direct = np.sum((world.y - theta[0] - world.wide @ theta[1:]) ** 2)
    assert rss.value() == pytest.approx(direct, rel=1e-12)
    assert rss.noise_variance() == 0


@pytest.mark.parametrize("source", ["train", "test"])
def test_without_noise_a_gain_is_the_difference_of_r2(source):
    world = World()
    (base, low), (full, high) = world.fit(2), world.fit(4)
    found = gain_interval(world.moments, own=OWN, target="y", values=world.values, base=base, full=full, source=source)
    assert found.value == pytest.approx(high - low, abs=1e-10)
    assert found.lower == pytest.approx(found.value, abs=1e-10) and found.upper == pytest.approx(found.value, abs=1e-10)
    assert found.error == 0
    r2 = r2_interval(world.moments, own=OWN, target="y", values=world.values, theta=full, source=source)
    assert r2.value == pytest.approx(high, abs=1e-10)
    for index in range(1, 5):
        slope = coefficient_interval(world.moments, own=OWN, target="y", values=world.values, index=index)
        assert slope.value == pytest.approx(full[index], abs=1e-10)


def test_the_stated_noise_of_an_rss_is_its_noise():
    world = World()
    theta = np.array([0.3, 0.2, -0.1, 0.7, -0.4])
    rng = np.random.default_rng(1)

    def reading() -> Quadratic:
        moments = add_noise(world.moments, rng, counts=3, sums=4, products=6)
        problem = Problem.of(moments, OWN, "y", world.values)
        return Quadratic(problem.moments, (problem.residual(theta),), np.ones((1, 1)))

    draws = [reading().value() for _ in range(2000)]
    assert np.var(draws) == pytest.approx(reading().noise_variance(), rel=0.12)


def test_sampling_errors_are_what_the_rows_show():
    """Classical standard errors for rows; for keys, the sum of squared per-key scores, by hand."""
    world = World()
    full, _ = world.fit(4)
    residual = world.y - full[0] - world.wide @ full[1:]
    X = np.column_stack([np.ones(len(world.y)), world.wide])
    inverse = np.linalg.inv(X.T @ X)
    classical = math.sqrt(inverse[3, 3] * np.sum(residual**2) / len(residual))
    ask = {"own": OWN, "target": "y", "values": world.values, "index": 3}
    rows = coefficient_interval(world.moments, sampling="rows", **ask)
    assert rows.sampling_error == pytest.approx(classical, rel=1e-9)
    assert rows.upper - rows.value == pytest.approx(norm.ppf(0.95) * classical, rel=1e-9)
    scores = X @ inverse[:, 3] * residual
    per_key = np.bincount(world.keys, scores, D)
    by_hand = math.sqrt(np.sum(per_key**2) * (1 + 4 / (D - 4)) * (1 + 2 / (D - 4)))
    keys = coefficient_interval(world.moments, sampling="keys", **ask)
    assert keys.sampling_error == pytest.approx(max(by_hand, classical), rel=1e-9)
    assert keys.privacy_error == 0


def test_more_confidence_is_wider_and_errors_add_in_quadrature():
    world = World()
    noisy = add_noise(world.moments, np.random.default_rng(2), counts=3, sums=4, products=6)
    (base, _), (full, _) = world.fit(2), world.fit(4)
    ask = {"own": OWN, "target": "y", "values": world.values, "base": base, "full": full}
    for source in ("train", "test"):
        narrow, wide = (gain_interval(noisy, source=source, confidence=level, **ask) for level in (0.5, 0.99))
        assert wide.lower < narrow.lower <= narrow.upper < wide.upper
        private = gain_interval(noisy, source=source, **ask)
        both = gain_interval(noisy, source=source, sampling="keys", **ask)
        assert both.error > private.error and both.error == pytest.approx(
            math.hypot(private.privacy_error, both.sampling_error)
        )
        assert both.debiased <= both.value


def test_a_slope_that_noise_leaves_open_has_an_infinite_interval():
    world = World()
    noisy = add_noise(world.moments, np.random.default_rng(3), counts=300, sums=400, products=600)
    found = coefficient_interval(noisy, own=OWN, target="y", values=world.values, index=3)
    assert (found.lower, found.upper) == (-math.inf, math.inf)


def test_the_stop_quantile_pays_for_the_number_of_candidates():
    assert stop_quantile(0.05, 1) == pytest.approx(1.959964, abs=1e-6)
    assert stop_quantile(0.05, 1000) == pytest.approx(norm.ppf(1 - 0.05 / 2000), abs=1e-9)
    assert stop_quantile(0.05, 10**9) < 10


def test_a_model_of_another_size_is_refused():
    world = World()
    with pytest.raises(InvalidInput, match="5 coefficients"):
        gain_interval(world.moments, own=OWN, target="y", values=world.values, base=np.zeros(3), full=np.zeros(5))
    with pytest.raises(InvalidInput, match="coefficients 1 to 4"):
        coefficient_interval(world.moments, own=OWN, target="y", values=world.values, index=5)


def test_a_model_that_changes_nothing_gains_nothing():
    world = World()
    base, _ = world.fit(2)
    found = gain_interval(world.moments, own=OWN, target="y", values=world.values, base=base, full=base)
    assert (found.value, found.lower, found.upper) == (0, 0, 0)


@given(st.floats(0, 1e40), st.sampled_from(["rows", "keys", None]), st.integers(0, 2**32 - 1))
def test_no_noise_however_large_gives_nan_or_more_than_1(size, sampling, seed):
    rng = np.random.default_rng(seed)
    world = World(200, seed % 7)
    noisy = add_noise(world.moments, rng, counts=size, sums=size, products=size)
    gram = noisy.gram(world.values, ("z", "v"))
    full = gram.fit((*OWN, "z", "v"), "y").theta
    base = np.append(gram.fit(OWN, "y").theta, [0, 0])
    ask = {"own": OWN, "target": "y", "values": world.values, "sampling": sampling}
    found = [
        *(gain_interval(noisy, base=base, full=full, source=source, **ask) for source in ("train", "test")),
        *(r2_interval(noisy, theta=full, source=source, **ask) for source in ("train", "test")),
    ]
    for interval in found:
        assert interval.lower <= interval.upper <= 1
        assert not math.isnan(interval.value) and not math.isnan(interval.lower) and not math.isnan(interval.error)
    slope = coefficient_interval(noisy, index=1, **ask)
    assert slope.lower <= slope.value <= slope.upper
