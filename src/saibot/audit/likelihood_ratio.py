"""Tell two neighbouring tables apart from real releases, with the best test there is, and bound what that reveals.

Half of the releases choose the threshold, the other half count errors; Clopper and Pearson's intervals turn the counts into
bounds that hold with the stated confidence. For Gaussian noise the result is a lower bound on mu. For Laplace noise the same
separation, in normal deviates, is compared with what the claimed law itself would show at the best threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from saibot.audit.worst_pairs import audited_plans, exact_vector, noise_vector, worst_pair
from saibot.privacy.mechanisms import Plan
from saibot.privatize.noise import ExactNoise, NoiseSource
from saibot.privatize.release import NoisyStatistics, release

CONFIDENCE = 0.9999
IN_BULK = "gaussian, in bulk"


@dataclass(frozen=True)
class Finding:
    """What the plan claims and what the attack can prove. `broken` means the claim is disproved."""

    mechanism: str
    layout: str
    noise: str
    claim: float
    lower_bound: float
    releases: int

    @property
    def broken(self) -> bool:
        return self.lower_bound > self.claim

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "layout": self.layout,
            "noise": self.noise,
            "claim": self.claim,
            "lower_bound": self.lower_bound,
            "releases": self.releases,
            "verdict": "BROKEN" if self.broken else "not disproved",
        }


class RescaledNoise:
    """Real noise at a wrong scale, to show that the audit would notice."""

    simulated = True

    def __init__(self, factor: float, real: NoiseSource | None = None) -> None:
        self._factor, self._real = factor, real or ExactNoise()

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return self._real.gaussian(values, float(round(scale * self._factor)), done)  # noise in bulk takes whole numbers

    def laplace(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return self._real.laplace(values, scale * self._factor, done)

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        return self._real.choose(scores, sensitivity, epsilon / self._factor)


def audit_all(
    *,
    releases: int,
    epsilon: str = "16",
    noise_factor: float = 1.0,
    tell: Callable[[str, float], None] = lambda s, p: None,
) -> list[Finding]:
    """Audit every mechanism, layout and noise law; Gaussian noise as it is drawn one by one, and as it is drawn in bulk."""
    plans = audited_plans(epsilon)
    findings = []
    for number, plan in enumerate(plans):
        tell(f"auditing {plan.request.mechanism} {plan.request.layout} ({plan.noise})", number / len(plans))
        findings.append(audit(plan, releases=releases, noise=audited_noise(noise_factor)))
        if plan.noise == "gaussian":
            found = audit(plan, releases=releases, noise=audited_noise(noise_factor, in_bulk=True))
            findings.append(replace(found, noise=IN_BULK))
    return findings


def audited_noise(factor: float = 1.0, *, in_bulk: bool = False) -> NoiseSource:
    """The noise of releases; for any factor but 1 at a wrong scale. `in_bulk`: as very large releases have it."""
    real = ExactNoise(many=1) if in_bulk else ExactNoise()
    return real if factor == 1.0 else RescaledNoise(factor, real)


def audit(plan: Plan, *, releases: int, noise: NoiseSource) -> Finding:
    """`releases` of each of the two tables; the claim is mu, or its counterpart for Laplace noise."""
    one, other, most_rows = worst_pair(plan)
    before, after, spread = exact_vector(one, plan), exact_vector(other, plan), noise_vector(one, plan)

    def ratios(statistics: Any) -> np.ndarray:
        drawn = [_vector(release(statistics, plan, noise, most_rows=most_rows), plan) for _ in range(releases)]
        return log_ratio(np.array(drawn), before, after, spread, plan.noise)

    found = separation(ratios(one), ratios(other))
    claim = plan.mu if plan.mu is not None else _claimed_separation(before, after, spread)
    return Finding(plan.request.mechanism, plan.request.layout, plan.noise, float(claim), found, releases)


def log_ratio(drawn: np.ndarray, before: np.ndarray, after: np.ndarray, spread: np.ndarray, law: str) -> np.ndarray:
    """log p(drawn | after) - log p(drawn | before) under the claimed law: the most powerful statistic."""
    far, near = (drawn - after) / spread, (drawn - before) / spread
    if law == "gaussian":
        answer = (near**2 - far**2).sum(axis=1) / 2
    else:
        answer = np.sqrt(2) * (np.abs(near) - np.abs(far)).sum(axis=1)
    return np.asarray(answer)


def separation(before: np.ndarray, after: np.ndarray) -> float:
    """A lower bound, at CONFIDENCE, on the distance in normal deviates between two samples of log ratios."""
    half = len(before) // 2
    candidates = np.quantile(np.concatenate([before[:half], after[:half]]), np.linspace(0.02, 0.98, 97))
    scores = [_deviates(before[:half] > t, after[:half] <= t) for t in candidates]
    threshold = candidates[int(np.argmax(scores))]
    return _deviates(before[half:] > threshold, after[half:] <= threshold)


def _deviates(false_alarms: np.ndarray, misses: np.ndarray) -> float:
    return -float(ndtri(_upper(false_alarms)) + ndtri(_upper(misses)))


def _upper(events: np.ndarray) -> float:
    """Clopper and Pearson's upper bound on a probability; each of two bounds takes half of the doubt."""
    hits, trials = int(events.sum()), len(events)
    if hits == trials:
        return 1 - 1e-12
    return float(betaincinv(hits + 1, trials - hits, 1 - (1 - CONFIDENCE) / 2))


def _claimed_separation(before: np.ndarray, after: np.ndarray, spread: np.ndarray) -> float:
    """The largest separation that the claimed Laplace law shows between the two tables, at any threshold, by simulation."""
    rng = np.random.default_rng(0)
    moved = np.flatnonzero(before != after)
    scale = spread[moved] / np.sqrt(2)
    noise = rng.laplace(size=(400_000, len(moved))) * scale
    null = log_ratio(before[moved] + noise, before[moved], after[moved], spread[moved], "laplace")
    shifted = log_ratio(after[moved] + noise, before[moved], after[moved], spread[moved], "laplace")
    best = 0.0
    for threshold in np.quantile(np.concatenate([null, shifted]), np.linspace(0.02, 0.98, 97)):
        alarms, misses = float(np.mean(null > threshold)), float(np.mean(shifted <= threshold))
        if min(alarms, misses) > 20 / len(null):
            best = max(best, -float(ndtri(alarms) + ndtri(misses)))
    return best


def _vector(noisy: NoisyStatistics, plan: Plan) -> np.ndarray:
    """A release in the order of `exact_vector`."""
    parts = []
    used: dict[int, int] = {}
    m = plan.request.features
    for block in plan.blocks:
        if block.scope == "global":
            parts.append(noisy.whole[block.order])
        else:
            start = used.get(block.level, 0)
            used[block.level] = start + block.entries(m)
            parts.append(noisy.levels[block.level][:, start : start + block.entries(m)].ravel())
    return np.concatenate(parts)
