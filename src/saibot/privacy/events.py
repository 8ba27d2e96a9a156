"""What a release costs, as values that the ledger keeps for ever.

Events are never removed and never change meaning: an old ledger must price the same in every later version.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

from saibot.errors import InvalidBudget, SaibotError
from saibot.privacy.budget import EXACT, Budget, exact_decimal, plain
from saibot.privacy.calibration import STEPS_PER_SIGMA, certified_delta


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """A release of discrete Gaussian noise: mu-GDP up to the integer grid, which `touched` and `steps` account for."""

    mu: float
    touched: int
    steps: int = STEPS_PER_SIGMA

    def __post_init__(self) -> None:
        if not 0 <= self.mu < math.inf or self.touched < 1 or self.steps < 1:
            raise InvalidBudget("a Gaussian event has a finite mu >= 0, at least one number touched and at least one step.")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "gaussian", "mu": self.mu, "touched": self.touched, "steps": self.steps}


@dataclass(frozen=True, slots=True)
class PureEvent:
    """A release that is epsilon-DP with delta = 0: discrete Laplace noise."""

    epsilon: Decimal

    def __post_init__(self) -> None:
        if not self.epsilon.is_finite() or self.epsilon < 0:  # a negative one would be a refund
            raise InvalidBudget("a pure event has a finite epsilon >= 0.")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "pure", "epsilon": plain(self.epsilon)}


Event = GaussianEvent | PureEvent


def event_from_json(document: dict[str, Any]) -> Event:
    """Read an event back; an unknown kind is refused, for it cannot be priced."""
    match document.get("kind"):
        case "gaussian":
            return GaussianEvent(float(document["mu"]), int(document["touched"]), int(document["steps"]))
        case "pure":
            return PureEvent(exact_decimal(document["epsilon"], name="epsilon"))
        case kind:
            raise SaibotError(f"the ledger holds an event of unknown kind {kind!r}; a newer saibot wrote it.")


@dataclass(frozen=True, slots=True)
class Spent:
    """The composition of many events on one dataset: Gaussian mu^2 add, pure epsilons add.

    What a later release is about may depend on earlier answers. Where both kinds occur, its price may not: see
    integer_release.proof.md, composition.
    """

    mu_squared: float
    touched: int
    steps: int
    pure_epsilon: Decimal

    @classmethod
    def of(cls, events: Iterable[Event]) -> Spent:
        mu_squared, touched, steps, pure = 0.0, 0, STEPS_PER_SIGMA, Decimal(0)
        for event in events:
            match event:
                case GaussianEvent():
                    mu_squared += event.mu**2
                    touched += event.touched
                    steps = min(steps, event.steps)
                case PureEvent():
                    with localcontext(EXACT):
                        pure += event.epsilon
        return cls(mu_squared, touched, steps, pure)

    def within(self, cap: Budget) -> bool:
        """Whether all of it together is (epsilon, delta)-DP at the cap."""
        if self.pure_epsilon > cap.epsilon:
            return False
        # Decided by delta at the cap's epsilon, with the function that plans use: a plan for the whole cap then fits it.
        left = float(cap.epsilon - self.pure_epsilon)
        if self.mu_squared == 0:
            return True
        if cap.pure:
            return False
        mu, delta = self.mu_squared**0.5, float(cap.delta)
        return certified_delta(mu, left, touched=self.touched, steps=self.steps, target=delta) <= delta

    def epsilon_at(self, delta: Decimal) -> float:
        """Epsilon of everything spent, at the given delta: what people are shown."""
        if self.mu_squared == 0:
            return float(self.pure_epsilon)
        if delta <= 0:
            return float("inf")
        target, low, high = float(delta), 0.0, 1.0
        mu = self.mu_squared**0.5

        def fits(epsilon: float) -> bool:
            return certified_delta(mu, epsilon, touched=self.touched, steps=self.steps, target=target) <= target

        while not fits(high):
            if math.isinf(high):
                return high
            low, high = high, high * 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return float(self.pure_epsilon) + high
