"""From a budget to a noise level, and back.

`mu` is the l2 sensitivity in units of the noise: a Gaussian release with that ratio is mu-GDP, and every (epsilon, delta)
statement about it follows from one curve (Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022). The integer release is
not exactly Gaussian; `certified_delta` bounds what that costs (proof: mechanisms/integer_release.proof.md).
"""

from __future__ import annotations

import math
from functools import lru_cache

from saibot.errors import UnsupportedPlan
from saibot.privacy.budget import Budget, plain

# Noise scales of the integer release are at least this many steps, whatever the data: see integer_release.proof.md.
STEPS_PER_SIGMA = 4096
# Guard against rounding in Phi and the root finder; 1e-9 of sigma is nothing, an epsilon too small is a broken promise.
_GUARD = 1e-9


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta at which a mu-GDP release is (epsilon, delta)-DP. Tight for the continuous Gaussian."""
    from scipy.special import log_ndtr, ndtr  # here, as everywhere in this folder: reading needs no arithmetic

    if mu <= 0:
        return 0.0
    upper = mu / 2 - epsilon / mu
    lower = -mu / 2 - epsilon / mu
    tail = math.exp(min(epsilon + float(log_ndtr(lower)), 0.0))
    return max(float(ndtr(upper)) - tail, 0.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which a mu-GDP release is (epsilon, delta)-DP."""
    from scipy.optimize import brentq

    if mu <= 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0:  # no Gaussian is pure; the curve only underflows to 0
        return math.inf
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    root = float(brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, high, xtol=1e-13, rtol=1e-13))
    return root * (1 + _GUARD) + 1e-12


def classical_mu(budget: Budget) -> float:
    """epsilon / sqrt(2 ln(1.25/delta)): Dwork and Roth 2014, theorem A.1, proved for epsilon <= 1 only."""
    if budget.pure:
        raise UnsupportedPlan("the classical Gaussian needs delta > 0.", hint="With delta = 0, Laplace noise is used.")
    if budget.epsilon > 1:
        raise UnsupportedPlan(
            f"the classical Gaussian is proved for epsilon <= 1 only, not {budget.epsilon}.",
            hint="Use --calibration analytic.",
        )
    return float(budget.epsilon) / math.sqrt(2 * math.log(1.25 / float(budget.delta)))


def calibrated_mu(budget: Budget, calibration: str, *, touched: int) -> float:
    """The mu of a plan. A classical one is lower than the analytic one except where epsilon is so small that the integer
    grid's own loss matters; there the lemma decides."""
    if calibration == "analytic":
        return analytic_mu(budget, touched=touched)
    return min(classical_mu(budget), analytic_mu(budget, touched=touched))


@lru_cache(maxsize=4096)  # corpora have thousands of sketches of a few plans, and each is confirmed when it is read
def analytic_mu(budget: Budget, *, touched: int, steps: int = STEPS_PER_SIGMA) -> float:
    """The largest mu whose *integer* release is (epsilon, delta)-DP; `touched` as in `certified_delta`."""
    from scipy.optimize import brentq

    if budget.pure:
        raise UnsupportedPlan("the Gaussian needs delta > 0.", hint="With delta = 0, Laplace noise is used.")
    epsilon, delta = float(budget.epsilon), float(budget.delta)

    def slack(mu: float) -> float:
        return certified_delta(mu, epsilon, touched=touched, steps=steps, target=delta) - delta

    low, high = 1e-12, 1.0
    if slack(low) > 0:  # the lemma's own loss is more than the whole budget
        raise UnsupportedPlan(
            f"epsilon {plain(budget.epsilon)} is too small for an integer release of {touched} numbers.",
            hint="Raise --epsilon, or release fewer features or orders.",
        )
    while slack(high) <= 0:
        high *= 2
    mu = float(brentq(slack, low, high, xtol=1e-15, rtol=1e-13)) * (1 - _GUARD)
    while slack(mu) > 0:  # the root finder may stop on the wrong side
        mu *= 1 - _GUARD
    return mu


def certified_delta(mu: float, epsilon: float, *, touched: int, steps: float, target: float) -> float:
    """A delta at which the integer release is (epsilon, delta)-DP, for discrete Gaussian noise of at least `steps`.

    `touched` counts the coordinates that one individual can move (T). With k = T/(8 S^2), R = mu + sqrt(T)/(2S) + the upper
    t-quantile of chi_T and h = R^2/(8 S^2): delta <= e^k (delta(mu, epsilon - h - k) + t), for every t in (0, 1); t is
    taken as a small part of `target`, which is where the bound is near its minimum.
    """
    from scipy.special import chdtri

    tail = max(target, 1e-300) * 1e-6
    k = touched / (8 * steps**2)
    if k > 100:
        return 1.0
    chi = math.sqrt(float(chdtri(touched, tail)))
    h = (mu + math.sqrt(touched) / (2 * steps) + chi) ** 2 / (8 * steps**2)
    return min(math.exp(k) * (gaussian_delta(mu, epsilon - h - k) + tail), 1.0)
