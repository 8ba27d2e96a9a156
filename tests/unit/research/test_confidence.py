"""The paper's bound with explicit constants: it holds, it shrinks as published, and Fieller's interval is the tight one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from research.confidence import (
    JoinNoise,
    SlopeNoise,
    computable_bound,
    fieller_interval,
    join_bound,
    theorem_bound,
    theta_bound,
)
from saibot.errors import InvalidInput

P = 0.1


class Simple:
    """A table in the unit ball, and its private moments under noise of given sizes."""

    def __init__(self, n: int, sums: float, squares: float) -> None:
        self.rng = np.random.default_rng(n)
        x = np.clip(0.2 + 0.4 * self.rng.normal(size=n), -1, 1) / math.sqrt(2)
        y = np.clip(0.5 * x + 0.2 * self.rng.normal(size=n), -1 / math.sqrt(2), 1 / math.sqrt(2))
        self.noise = SlopeNoise(n, sums, squares, squares / math.sqrt(2))
        self.moments = np.array([x.mean(), y.mean(), np.mean(x * x), np.mean(x * y)])
        self.variance = float(x.var())
        self.slope = float(np.mean(x * y) - x.mean() * y.mean()) / self.variance

    def draw(self) -> dict[str, float]:
        sd = np.array([self.noise.sums, self.noise.sums, self.noise.squares, self.noise.products])
        X, Y, xx, xy = self.moments + self.rng.normal(size=4) * sd / self.noise.rows
        return {"mean_x": X, "mean_y": Y, "variance": xx - X**2, "covariance": xy - X * Y}


@pytest.mark.parametrize("n", [1000, 5000])
def test_bounds_hold_and_fiellers_interval_is_the_tight_one(n):
    table = Simple(n, 9, 6)
    theorem = theorem_bound(table.noise, p=P, bound=1, variance=table.variance, slope=table.slope)
    inside, widths = [], []
    for _ in range(1000):
        seen = table.draw()
        error = abs(seen["covariance"] / seen["variance"] - table.slope)
        computable = computable_bound(table.noise, p=P, **seen)
        low, high = fieller_interval(table.noise, p=P, **seen)
        inside.append([error <= theorem, error <= computable, low <= table.slope <= high])
        widths.append([2 * theorem, 2 * computable, high - low])
    coverage, width = np.mean(inside, axis=0), np.median(widths, axis=0)
    assert coverage[0] >= 1 - P and coverage[1] >= 1 - P
    assert 0.87 < coverage[2] < 0.93
    assert width[2] < width[1] < width[0]


def test_a_bound_is_infinite_where_the_variance_is_not_clear_of_its_noise():
    noise = SlopeNoise(100, 9, 50, 35)
    seen = {"mean_x": 0.1, "mean_y": 0.1, "variance": 0.1, "covariance": 0.05}
    assert computable_bound(noise, p=P, **seen) == math.inf
    assert theorem_bound(noise, p=P, bound=1, variance=0.1, slope=0.5) == math.inf
    assert fieller_interval(noise, p=P, **seen) == (-math.inf, math.inf)
    assert fieller_interval(noise, p=P, **(seen | {"variance": -1.0})) == (-math.inf, math.inf)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        computable_bound(noise, p=0, **seen)


def test_a_union_of_k_tables_shrinks_the_tails_by_the_root_of_k():
    one = SlopeNoise(1000, 9, 6, 4)
    four = SlopeNoise.union([one] * 4)
    assert four.rows == 4000
    np.testing.assert_allclose(four.tails(P), np.array(one.tails(P)) / 2)


@pytest.mark.parametrize("n,d,sigma", [(10_000, 100, 1.0), (50_000, 20, 5.0)])
def test_the_bound_over_a_join_holds(n, d, sigma):
    rng = np.random.default_rng(d)
    keys = np.arange(n) % d
    x = np.clip(0.4 * rng.normal(size=n), -1, 1)
    y = np.clip(0.5 * x + 0.2 * rng.normal(size=n), -1, 1)
    a = (n - 1) / (d - 1)
    m1, m2 = np.bincount(keys, x) * d / n, np.bincount(keys, y) * d / n

    def facts(m1: np.ndarray, m2: np.ndarray, square: float) -> dict[str, float]:
        X, Y = m1.mean(), m2.mean()
        return {
            "mean_x": X,
            "variance": square - X**2,
            "covariance": a * np.mean((m1 - X) * (m2 - Y)),
            "spread_x": float(np.linalg.norm(m1 - X)),
            "spread_y": float(np.linalg.norm(m2 - Y)),
        }

    exact = facts(m1, m2, np.mean(x * x))
    slope = exact["covariance"] / exact["variance"]
    noise = JoinNoise(n, d, sigma, sigma, sigma)
    theorem = join_bound(noise, p=P, exact=True, **exact)
    inside = []
    for _ in range(300):
        u, v = (sigma * d / n * rng.normal(size=d) for _ in range(2))
        seen = facts(m1 + u, m2 + v, np.mean(x * x) + sigma * math.sqrt(d) / n * rng.normal())
        error = abs(seen["covariance"] / seen["variance"] - slope)
        inside.append([error <= theorem, error <= join_bound(noise, p=P, **seen)])
    assert np.mean(inside, axis=0).min() >= 1 - P
    assert theorem < 10 * np.sqrt(sigma)  # finite and of use
    with pytest.raises(InvalidInput, match="two keys"):
        join_bound(JoinNoise(n, 1, 1, 1, 1), p=P, **exact)


def test_the_bound_for_many_features_holds():
    rng = np.random.default_rng(5)
    sd = np.where(np.eye(4, dtype=bool), 10.0, 7.0)
    inside, bounds = [], []
    for _ in range(200):
        X = rng.normal(size=(500, 4))
        A, theta = X.T @ X, rng.normal(size=4)
        E = rng.normal(size=(4, 4)) * sd
        E = np.triu(E) + np.triu(E, 1).T
        noisy, b = A + E, A @ theta + 7 * rng.normal(size=4)
        bound = theta_bound(noisy, b, sd, np.full(4, 7.0), p=P, draws=200)
        inside.append(np.linalg.norm(np.linalg.solve(noisy, b) - theta) <= bound)
        bounds.append(bound)
    assert np.mean(inside) >= 1 - P and np.median(bounds) < 1
    assert theta_bound(np.eye(4), np.ones(4), sd, np.full(4, 7.0), p=P) == math.inf
