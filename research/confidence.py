"""The paper's confidence bound for a private slope, with explicit constants, and what it grew into.

One feature x, target y, n rows; sums and products of the whole table carry Gaussian noise of known standard deviation. How
far is the private slope beta~ = c~/v~ from the one that the exact moments give?

* `theorem_bound`: the published theorem, in terms of the *exact* variance and slope: a bound for analysis.
* `computable_bound`: the same argument around the private values, so that anyone can evaluate it.
* `fieller_interval`: not a bound but an interval: all slopes b for which c~ - b v~ is within its error of 0.
* `theta_bound`: many features, by matrix norms; their quantiles are simulated from the known law of the noise.

The first two hold with probability at least 1 - p, and are several times too wide. Each of the four noisy moments gets p/4:
z = Phi^-1(1 - p/8).

**Union.** Noise adds in quadrature and rows add: `SlopeNoise.union`. k equal tables divide t1, t2 by sqrt(k), as published.
**Join** (`join_bound`): x and y in two projections of one table, n/d rows in each of d keys as the proposition assumes, the
slope from the unbiased estimator. Moments of x are sums over keys: their noise grows by sqrt(d). The covariance is a times
the between-key covariance of the key means, a = (n-1)/(d-1); with u_k, v_k the noise of those means,

    c~ - c = (a/d) sum [(m1_k - X) v_k + (m2_k - Y) u_k + (u_k - u)(v_k - v)],

two normal terms, and a product that given u is normal with deviation |u| times that of v, |u| bounded by its chi quantile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, ndtri

from saibot.errors import InvalidInput


@dataclass(frozen=True)
class SlopeNoise:
    """Rows, and the standard deviations of the noise of sum x (and sum y), sum x^2, and sum xy."""

    rows: float
    sums: float
    squares: float
    products: float

    @classmethod
    def union(cls, parts: Sequence[SlopeNoise]) -> SlopeNoise:
        """The noise of several tables added up."""
        return cls(
            sum(part.rows for part in parts),
            math.hypot(*(part.sums for part in parts)),
            math.hypot(*(part.squares for part in parts)),
            math.hypot(*(part.products for part in parts)),
        )

    def tails(self, p: float) -> tuple[float, float, float]:
        """t1, t2, t2o: what the noise of a mean, of E[x^2] and of E[xy] stays below, all four at once, but for p."""
        if not 0 < p < 1:
            raise InvalidInput(f"a confidence bound fails with a probability between 0 and 1, not {p}.")
        z = float(-ndtri(p / 8)) / max(self.rows, 1.0)
        return z * self.sums, z * self.squares, z * self.products


def theorem_bound(noise: SlopeNoise, *, p: float, bound: float, variance: float, slope: float) -> float:
    """tau_2 + tau_1/(1 - tau_1) (|beta| + tau_2), from the exact variance and slope; infinite where tau_1 >= 1."""
    t1, t2, t2o = noise.tails(p)
    B1, B2 = t2 + 2 * bound * t1 + t1**2, t2o + math.sqrt(2) * bound * t1 + t1**2
    return _theorem(B1, B2, variance, slope)


def computable_bound(
    noise: SlopeNoise, *, p: float, mean_x: float, mean_y: float, variance: float, covariance: float
) -> float:
    """A bound on |beta~ - beta| from private values only; infinite where the variance is not clear of its noise."""
    t1, t2, t2o = noise.tails(p)
    B1 = t2 + 2 * abs(mean_x) * t1 + t1**2
    B2 = t2o + (abs(mean_x) + abs(mean_y)) * t1 + t1**2
    return _computable(B1, B2, variance, covariance)


def fieller_interval(
    noise: SlopeNoise, *, p: float, mean_x: float, mean_y: float, variance: float, covariance: float
) -> tuple[float, float]:
    """{b : |c~ - b v~| <= z s(b)}, with coverage 1 - p to first order; unbounded where the variance is not clear of 0."""
    z2 = float(ndtri(p / 2)) ** 2 / max(noise.rows, 1.0) ** 2
    # n^2 s(b)^2 = sigma_xy^2 + b^2 sigma_xx^2 + sigma_1^2 (X^2 + (Y - 2 b X)^2)
    a = variance**2 - z2 * (noise.squares**2 + 4 * noise.sums**2 * mean_x**2)
    h = covariance * variance - z2 * 2 * noise.sums**2 * mean_x * mean_y
    c = covariance**2 - z2 * (noise.products**2 + noise.sums**2 * (mean_x**2 + mean_y**2))
    if not (variance > 0 and a > 0):
        return -math.inf, math.inf
    root = math.sqrt(max(h * h - a * c, 0.0))
    return (h - root) / a, (h + root) / a


@dataclass(frozen=True)
class JoinNoise:
    """n rows over d keys; noise per key of sum x, sum x^2 on one side and of sum y on the other."""

    rows: float
    keys: int
    sums_x: float
    squares_x: float
    sums_y: float


def join_bound(
    noise: JoinNoise,
    *,
    p: float,
    mean_x: float,
    variance: float,
    covariance: float,
    spread_x: float,
    spread_y: float,
    exact: bool = False,
) -> float:
    """A bound on |beta~ - beta| for the slope over a join, y on x, by the unbiased estimator.

    `spread_x`, `spread_y`: root of the sum over keys of squared deviations of the key means from the overall mean. From
    private values by default; with `exact` all are the exact ones, and the bound is the theorem's, for analysis.
    """
    if noise.keys < 2:
        raise InvalidInput("the unbiased estimator needs at least two keys.")
    n, d = max(noise.rows, 1.0), noise.keys
    # Seven events: the noise of E[x] and of E[x^2], two normal terms, the product, and the lengths of u and v (one-sided).
    z, chi = float(-ndtri(p / 14)), math.sqrt(float(chdtri(d - 1, p / 7)))
    t1, t2 = z * noise.sums_x * math.sqrt(d) / n, z * noise.squares_x * math.sqrt(d) / n
    u, v = noise.sums_x * d / n, noise.sums_y * d / n
    B1 = t2 + 2 * abs(mean_x) * t1 + t1**2
    # A private spread is off by at most the length of its own noise.
    along_x, along_y = (spread_x, spread_y) if exact else (spread_x + u * chi, spread_y + v * chi)
    B2 = (n - 1) / (d - 1) / d * (z * v * along_x + z * u * along_y + z * v * u * chi)
    if exact:
        return _theorem(B1, B2, variance, covariance / variance if variance > 0 else 0.0)
    return _computable(B1, B2, variance, covariance)


def theta_bound(
    gram: np.ndarray, cross: np.ndarray, gram_noise: np.ndarray, cross_noise: np.ndarray, *, p: float, draws: int = 2000
) -> float:
    """A bound on |theta~ - theta|_2 for theta~ = A~^-1 b~: (E_b + E_A |theta~|) / (lambda_min(A~) - E_A).

    E_A and E_b are the 1 - p/2 quantiles of the operator norm of A's noise and of the length of b's; infinite where the
    smallest eigenvalue is not clear of E_A. The draws only describe noise whose law is public.
    """
    m = len(cross)
    rng = np.random.default_rng(0)
    E = rng.normal(size=(draws, m, m)) * gram_noise
    E = np.triu(E) + np.swapaxes(np.triu(E, 1), 1, 2)
    E_A = float(np.quantile(np.abs(np.linalg.eigvalsh(E)).max(axis=1), 1 - p / 2))
    E_b = float(np.quantile(np.linalg.norm(rng.normal(size=(draws, m)) * cross_noise, axis=1), 1 - p / 2))
    smallest = float(np.linalg.eigvalsh(gram).min())
    if smallest <= E_A:
        return math.inf
    theta = np.linalg.solve(gram, cross)
    return (E_b + E_A * float(np.linalg.norm(theta))) / (smallest - E_A)


def _theorem(B1: float, B2: float, variance: float, slope: float) -> float:
    if not variance > B1:
        return math.inf
    tau1, tau2 = B1 / variance, B2 / variance
    return tau2 + tau1 / (1 - tau1) * (abs(slope) + tau2)


def _computable(B1: float, B2: float, variance: float, covariance: float) -> float:
    if not variance > B1:
        return math.inf
    return (B2 + abs(covariance / variance) * B1) / (variance - B1)
