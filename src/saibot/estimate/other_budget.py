"""What a published sketch would be worth at another budget, from its own numbers and public facts alone.

*Assumed*: the same release otherwise. The rows, the bounds, the keys and the features are those of the sketch, its noise is
divided between its blocks as it is, and its keys differ as much as the sketch now says they do. Then a budget changes one
number, the size of all noise (`noise_ratio`), and the posterior of `saibot.estimate.lookup` says how much of the true
values' spread would be kept: its variance depends on noise, weights and spreads, not on what was read.

*Not known*: how much keys truly differ. It is taken where the sketch's likelihood is largest, with an interval, and without
the caution that values are shrunk with: that moves all of a column's values alike, and so no model that is fitted on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from saibot.errors import SaibotError
from saibot.estimate.factors import FactorPosterior, Factors, Readings, apply
from saibot.estimate.lookup import sketch_readings
from saibot.estimate.tree import Smoother, likely_spread, reliability_of, row_sums
from saibot.privacy import Budget
from saibot.privacy.calibration import calibrated_mu
from saibot.privacy.mechanisms import Plan, make_plan
from saibot.privacy.mechanisms.joint import MECHANISM as JOINT
from saibot.sketch import Sketch

EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
Kept = Callable[[float, np.ndarray], float]
QUANTILE = 1.645  # of both ends of a 90 % interval


def noise_ratio(plan: Plan, epsilon: float, *, now: Decimal) -> float | None:
    """The size of the noise at another epsilon, of a release that costs `now`, as a multiple of what it is; delta stays.

    None where the mechanism has no proof for such a budget.
    """
    asked = plan.request
    share = Decimal(repr(epsilon)) / now  # a part of the whole may have paid for bounds or for coverage: it still does
    budget = Budget(asked.budget.epsilon * share, asked.budget.delta)
    try:
        if plan.mu is None:
            return float(asked.budget.epsilon / budget.epsilon)
        if asked.mechanism == JOINT.name:
            whole = [calibrated_mu(one, plan.calibration, touched=plan.touched) for one in (asked.budget, budget)]
            return whole[0] / whole[1]
        other = make_plan(replace(asked, budget=budget))
    except SaibotError:
        return None
    return other.blocks[0].sigma / plan.blocks[0].sigma


@dataclass(frozen=True)
class Signal:
    """How much of the true values' spread the private ones would keep at each budget, with a 90 % interval.

    None where there is no such release. The interval is about how much keys truly differ, which is estimated from the
    sketch: relative variance 2/S, with S the sum of squared reliabilities.
    """

    now: float
    share: tuple[float | None, ...]
    interval: tuple[tuple[float, float] | None, ...]

    @classmethod
    def of(cls, kept: Kept, sure: np.ndarray, ratios: Sequence[float | None]) -> Signal:
        """From the share at a size of noise and at a multiple of the likeliest spread."""
        far = np.exp(QUANTILE * np.sqrt(2 / np.maximum(sure, 1e-3)))
        none = np.ones_like(far)
        return cls(
            now=kept(1.0, none),
            share=tuple(None if ratio is None else kept(ratio, none) for ratio in ratios),
            interval=tuple(None if ratio is None else (kept(ratio, 1 / far), kept(ratio, far)) for ratio in ratios),
        )


def own_signal(
    sketch: Sketch, parents: Sequence[np.ndarray], features: np.ndarray, ratios: Sequence[float | None]
) -> Signal:
    """Of the values that a sketch gives by itself: the mean over its keys and over these features."""
    found, _ = sketch_readings(sketch, parents)
    likely = likely_spread(found.readings, found.weight, found.noise, found.up, found.cap)
    now = Smoother(found.weight, found.noise, found.up, likely).variances.deviations
    sure = np.sum([row_sums(reliability_of(v, t) ** 2) for v, t in zip(now, likely, strict=True)], axis=0)

    def kept(ratio: float, factor: np.ndarray) -> float:
        noise = [ratio**2 * level for level in found.noise]
        spreads = [np.minimum(factor * t, found.cap) for t in likely]
        left = Smoother(found.weight, noise, found.up, spreads).variances.values[0]
        return float(reliability_of(left, np.sum(spreads, axis=0)).mean(axis=1)[features].mean())

    return Signal.of(kept, sure, ratios)


def helped_signal(factors: Factors, readings: Readings, ratios: Sequence[float | None]) -> Signal:
    """The same of values that shared factors help, with the factors as well known as they are now."""
    tau2 = apply(factors, readings).tau2[:, None]
    prior = factors.prior_variance

    def reliability(ratio: float, factor: np.ndarray) -> np.ndarray:
        other = replace(readings, noise=tuple(ratio**2 * noise for noise in readings.noise))
        scaled = np.minimum(factor * tau2, np.maximum(readings.cap[:, None], tau2))
        variance = FactorPosterior(other, factors.loadings, factors.shares, scaled[:, 0]).variance
        return reliability_of(variance, scaled * prior)

    def kept(ratio: float, factor: np.ndarray) -> float:
        return float(reliability(ratio, factor).mean())

    sure = row_sums(reliability(1.0, np.ones_like(tau2)) ** 2)
    return Signal.of(kept, sure, ratios)
