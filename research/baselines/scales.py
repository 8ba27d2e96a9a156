"""Noise scales that the baselines share, from epsilon and delta as plain numbers: they split budgets below any real one."""

from __future__ import annotations

import math

from scipy.optimize import brentq

from research.baselines.noise import EntryNoise
from saibot.privacy import sensitivity
from saibot.privacy.calibration import gaussian_delta


def classical_mu(epsilon: float, delta: float) -> float:
    """Delta/sigma of the classical Gaussian, as the paper uses it; beyond epsilon = 1, where that has no proof, analytic."""
    if epsilon > 1:
        return continuous_mu(epsilon, delta)
    return epsilon / math.sqrt(2 * math.log(1.25 / delta))


def continuous_mu(epsilon: float, delta: float) -> float:
    """The largest mu at which the continuous Gaussian is (epsilon, delta)-DP."""
    high = 1.0
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2
    return float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-12, high, xtol=1e-15, rtol=1e-12))


def zcdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose (mu^2/2)-zCDP converts to (epsilon, delta), by Canonne, Kamath and Steinke 2020."""
    high = 1.0
    while _zcdp_log_delta(high, epsilon) <= math.log(delta):
        high *= 2
    low = 1e-3 * epsilon / math.sqrt(2 * math.log(1.25 / delta))
    return float(brentq(lambda mu: _zcdp_log_delta(mu, epsilon) - math.log(delta), low, high, xtol=1e-15, rtol=1e-12))


def _zcdp_log_delta(mu: float, epsilon: float) -> float:
    """min over orders a > 1 of (a-1)(a rho - epsilon) + a ln(1 - 1/a) - ln(a-1)."""
    rho = mu**2 / 2

    def log_delta(a: float) -> float:
        return (a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1)

    def slope(a: float) -> float:
        return (2 * a - 1) * rho - epsilon + math.log1p(-1 / a)

    # The derivative runs from -infinity at 1 to +infinity, and rises throughout: one minimum.
    high = 2.0
    while slope(high) < 0:
        high *= 2
    best = float(brentq(slope, 1 + 1e-12, high, xtol=1e-14))
    return log_delta(best)


def whole_table_noise(*, features: int, bound_squared: float, epsilon: float, delta: float) -> EntryNoise:
    """Alg. 1 for a union: one scale for orders 1 and 2, none for the public count. Laplace by l1 when delta = 0."""
    if delta == 0:
        moved = (sensitivity.replaced_l1(order=i, bound_squared=bound_squared, features=features) for i in (1, 2))
        scale = sum(moved) / epsilon
        return EntryNoise.by_order("laplace", features, (0.0, scale, scale))
    scale = sensitivity.union_l2(order=2, bound_squared=bound_squared, features=features) / classical_mu(epsilon, delta)
    return EntryNoise.by_order("gaussian", features, (0.0, scale, scale))
