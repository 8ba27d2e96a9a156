"""Keys that are found privately: individuals are counted by key, and keys whose noisy count is high enough are listed.

Releases: the keys themselves, in the order of their texts; no count.
Guarantee: mu-GDP, but for delta, the chance that a key which one individual alone has is listed.
Assumes: every individual is counted with at most so many keys, once with each, chosen by their own rows alone.
Cost: one event with mu and delta; that delta is taken off the budget's before anything else is planned.
Proof: found_keys.proof.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import Any

from saibot.errors import UnsupportedPlan
from saibot.privacy.budget import EXACT, Budget, plain
from saibot.privacy.calibration import STEPS_PER_SIGMA
from saibot.privacy.events import KeysEvent
from saibot.privacy.neighbours import Neighbours

TAKEN = Decimal("0.1")  # of delta, by all keys of a release that are found
USED = Decimal("0.95")  # of that for the threshold; the rest is what the opposite direction costs
MOST_DELTA = Decimal("1e-3")  # somebody's own key is listed as often as this
_UP = 1 + 1e-9  # more than what floats lose


@dataclass(frozen=True, slots=True)
class FindingPlan:
    """How keys are found. Counts are multiplied by `multiplier`, get noise of `scale`, and must pass `threshold`."""

    mu: float
    delta: Decimal
    keys_each: int  # with how many keys an individual is counted at most
    neighbours: Neighbours

    @property
    def moved(self) -> int:
        return keys_moved(self.keys_each, self.neighbours)

    @property
    def multiplier(self) -> int:
        """Such that noise has at least as many steps as the integer lemma asks for."""
        return max(math.ceil(STEPS_PER_SIGMA * self.mu / math.sqrt(self.moved)), 1)

    @property
    def scale(self) -> float:
        """A whole number, rounded up."""
        return float(math.ceil(max(self.multiplier * math.sqrt(self.moved) / self.mu * _UP, STEPS_PER_SIGMA)))

    @property
    def threshold(self) -> int:
        """What a scaled noisy count must exceed. That of one individual does with probability delta/keys_each at most."""
        from scipy.special import ndtri

        deviates = -float(ndtri(float(self.delta) / self.keys_each))
        return self.multiplier + math.ceil(self.scale * deviates * _UP)

    @property
    def sigma(self) -> float:
        """The noise of a count, in individuals."""
        return self.scale / self.multiplier

    @property
    def least_individuals(self) -> int:
        """With so many individuals, a key is found five times out of six."""
        return math.ceil((self.threshold + self.scale) / self.multiplier)

    @property
    def event(self) -> KeysEvent:
        return KeysEvent(self.mu, self.moved, self.delta)

    def to_json(self) -> dict[str, Any]:
        return {
            "mu": self.mu,
            "delta": plain(self.delta),
            "keys_each": self.keys_each,
            "sigma": self.sigma,
            "threshold": self.threshold / self.multiplier,
            "least_individuals": self.least_individuals,
        }


def keys_moved(keys_each: int, neighbours: Neighbours) -> int:
    """How many counts one individual can move, each by 1: their own keys', and under replace-one their successor's."""
    return keys_each * (2 if neighbours is Neighbours.REPLACE_ONE else 1)


def without_keys(budget: Budget) -> Budget:
    """What finding keys leaves of a budget's delta to everything else; epsilon is shared by mu^2."""
    if budget.pure:
        raise UnsupportedPlan(
            "keys cannot be found with delta = 0: a key that one individual has would have to be as likely without them.",
            hint="Give a --delta such as 1e-6, or a public list of keys.",
        )
    if budget.delta > MOST_DELTA:
        raise UnsupportedPlan(
            f"keys are found with a delta of at most {plain(MOST_DELTA)}, not {plain(budget.delta)}: it is the chance that "
            "somebody's own key is listed.",
            hint="Lower --delta.",
        )
    with localcontext(EXACT):
        return Budget(budget.epsilon, budget.delta - budget.delta * TAKEN)


def keys_delta(budget: Budget, lists: int = 1) -> Decimal:
    """The delta of the threshold of each of so many lists that are found in one release."""
    with localcontext(EXACT):
        used = budget.delta * TAKEN * USED
    return used if lists == 1 else (used / lists).quantize(used.scaleb(-6), rounding=ROUND_FLOOR)
