"""Privacy amplification by shuffling: n locally private reports in random order are worth a larger local budget each.

Three bounds on the central (epsilon, delta) of n reports that are e0-locally private, all for replacing one row:

* `erlingsson` (Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta 2019, theorem 7): 12 e0 sqrt(ln(1/delta)/n),
  proved for e0 <= 1/2 and n >= 1000.
* `feldman` (Feldman, McMillan and Talwar 2022, "Hiding among the clones", theorem 3.1), for e0 <= ln(n / (16 ln(2/delta))):
  ln(1 + (e^e0 - 1)/(e^e0 + 1) (8 sqrt(e^e0 ln(4/delta)/n) + 8 e^e0/n)).
* `numeric`: what that theorem is derived from. The rows that stay each produce, with probability e^-e0, a report that is a
  clone of one of the two that must be told apart, which one is a coin flip. So the shuffled reports are no easier to tell
  apart than (A + D, C - A + 1 - D) from (A + 1 - D, C - A + D), C ~ Bin(n-1, e^-e0), A ~ Bin(C, 1/2), D one with
  probability e^e0/(e^e0 + 1). The exact delta of that pair is a sum over C of binomial tails.

The closed forms say nothing for small n: with epsilon = 1, delta = 1e-6 the second begins at n = 631, the numeric bound at a
few dozen rows. Without amplification a report simply has the central epsilon, which always holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc
from scipy.stats import binom

Bound = Literal["closed", "numeric"]
TAIL = 1e-15  # of the number of clones: left out of the sum, and added to delta
LARGEST = 20.0  # a local epsilon beyond which a report is as good as the row itself


def erlingsson(local: float, *, n: int, delta: float) -> float:
    """Central epsilon, infinite where the theorem does not speak."""
    if not (0 < local <= 0.5 and n >= 1000 and 0 < delta < 0.01):
        return math.inf
    return 12 * local * math.sqrt(math.log(1 / delta) / n)


def feldman(local: float, *, n: int, delta: float) -> float:
    """Central epsilon, infinite where the theorem does not speak."""
    if not 0 < local <= math.log(max(n / (16 * math.log(2 / delta)), 1e-300)):
        return math.inf
    grown = math.exp(local)
    clones = 8 * math.sqrt(grown * math.log(4 / delta) / n) + 8 * grown / n
    return math.log1p((grown - 1) / (grown + 1) * clones)


def numeric_delta(local: float, *, n: int, epsilon: float) -> float:
    """The delta of the pair of the numeric bound, rounded up by the tails of C that are left out."""
    hidden = binom(n - 1, math.exp(-local))
    low, high = int(hidden.ppf(TAIL)), int(hidden.isf(TAIL))
    clones = np.arange(low, high + 1)
    weights = hidden.pmf(clones)
    # Given C = c, the first number a has probability P(a) = p b(a-1) + (1-p) b(a) or Q(a) = (1-p) b(a-1) + p b(a), b that of
    # Bin(c, 1/2). P/Q = (p a + (1-p)(c+1-a)) / ((1-p) a + p (c+1-a)) rises in a, so P > e^epsilon Q above a threshold.
    p = 1 / (1 + math.exp(-local))
    times = math.exp(epsilon)
    start = np.floor((clones + 1) * (p * times - (1 - p)) / ((2 * p - 1) * (1 + times))) + 1
    start = np.clip(start, 0, clones + 2)
    above, one_less = _at_least(start, clones), _at_least(start - 1, clones)
    gap = p * one_less + (1 - p) * above - times * ((1 - p) * one_less + p * above)
    return float(weights @ np.maximum(gap, 0.0)) + 2 * TAIL


def _at_least(start: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """P[Bin(trials, 1/2) >= start]."""
    inside = betainc(np.maximum(start, 1), np.maximum(trials - start + 1, 1), 0.5)
    return np.where(start <= 0, 1.0, np.where(start > trials, 0.0, inside))


@lru_cache(maxsize=4096)
def local_epsilon(*, n: int, epsilon: float, delta: float, bound: Bound) -> float:
    """The largest local epsilon that shuffling n reports brings to the central (epsilon, delta); at least epsilon itself."""
    if delta < 1e3 * TAIL or n < 2:  # a delta that the sum below could not resolve: no amplification is claimed
        return epsilon
    if bound == "numeric":
        return _numeric_local(n, epsilon, delta)
    best = _largest(lambda local: erlingsson(local, n=n, delta=delta) <= epsilon, 0.5)
    valid = math.log(max(n / (16 * math.log(2 / delta)), 1.0))
    return max(epsilon, best, _largest(lambda local: feldman(local, n=n, delta=delta) <= epsilon, min(valid, LARGEST)))


def _numeric_local(n: int, epsilon: float, delta: float) -> float:
    """By the root of log delta, and from there to the safe side."""

    def excess(local: float) -> float:
        return math.log(numeric_delta(local, n=n, epsilon=epsilon) / delta)

    if excess(LARGEST) <= 0:
        return LARGEST
    if excess(epsilon * (1 + 1e-9)) >= 0:
        return epsilon
    found = float(brentq(excess, epsilon * (1 + 1e-9), LARGEST, xtol=1e-6))
    while found > epsilon and excess(found) > 0:
        found -= 2e-6
    return max(found, epsilon)


def _largest(holds: Callable[[float], bool], high: float) -> float:
    """The largest value up to `high` at which a condition holds that holds below a threshold; 0 if nowhere."""
    if high <= 0:
        return 0.0
    if holds(high):
        return high
    low = 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
