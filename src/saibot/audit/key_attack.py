"""Tell two neighbouring tables apart by the keys that are found in them, and look for a key that one individual has alone.

Where a key has so many individuals that it is found about half of the time, whether it is found is the best test of one
individual more or less there is: its two errors are as far apart as the whole mu, which is claimed under add-remove.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
from scipy.special import betaincinv, logsumexp

from saibot.audit.likelihood_ratio import CONFIDENCE, Finding, separation
from saibot.privacy.mechanisms.found_keys import FindingPlan
from saibot.privacy.neighbours import Neighbours
from saibot.privatize.key_search import KeyCounts, keys_above_threshold
from saibot.privatize.noise import NoiseSource

# The threshold lies half-way between two and three individuals, and errors are not too rare to be counted.
PLAN = FindingPlan(mu=3.0, delta=Decimal("3.4e-6"), keys_each=1, neighbours=Neighbours.ADD_REMOVE)
OFTEN = replace(PLAN, mu=1.0, delta=Decimal("0.05"))  # a key of one individual is listed so often that it can be seen
USUAL = FindingPlan(mu=0.105, delta=Decimal("9.5e-8"), keys_each=2, neighbours=Neighbours.REPLACE_ONE)
DRAWS = 4  # times the releases of other mechanisms: a list of keys is only a few bits, and cheap
_TAIL = 40  # scales beyond the threshold, after which nothing is left


def audit_found_keys(*, releases: int, noise: NoiseSource) -> list[Finding]:
    """Three claims: mu of the list; how often a key of one individual is listed, by drawing; and the same by exact sums."""
    draws = DRAWS * releases

    def found(individuals: int, plan: FindingPlan) -> np.ndarray:
        """For many tables with one key of so many individuals, whether it was found."""
        keys = tuple(map(str, range(draws)))
        listed = set(keys_above_threshold(KeyCounts(keys, np.full(draws, individuals)), plan, noise))
        return np.array([key in listed for key in keys], dtype=float)

    told_apart = separation(found(2, PLAN), found(3, PLAN))
    alone = found(1, OFTEN)
    listed_alone = _lower(int(alone.sum()), draws)
    return [
        Finding("keys", "found", "gaussian", PLAN.mu, told_apart, draws),
        Finding("keys", "of one individual", "gaussian", float(OFTEN.delta), listed_alone, draws),
        Finding("keys", "of one, exactly", "gaussian", float(USUAL.delta), chance_of_one(USUAL) * USUAL.keys_each, 0),
    ]


def chance_of_one(plan: FindingPlan) -> float:
    """The probability that a key with one individual is found: a sum over the law of the noise, without a draw."""
    above = np.arange(plan.threshold - plan.multiplier + 1, plan.threshold + _TAIL * int(plan.scale), dtype=float)
    # The law's normaliser is that of the normal one, but for a relative e^(-2 pi^2 s^2), which is nothing.
    return float(np.exp(logsumexp(-(above**2) / (2 * plan.scale**2)) - math.log(plan.scale * math.sqrt(2 * math.pi))))


def _lower(hits: int, trials: int) -> float:
    """Clopper and Pearson's lower bound on a probability."""
    return float(betaincinv(hits, trials - hits + 1, 1 - CONFIDENCE)) if hits else 0.0
