"""What a release costs, as values that the ledger keeps for ever.

Events are never removed and never change meaning: an old ledger must price the same in every later version.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import Any

from saibot.errors import InvalidBudget, LedgerConflict, SaibotError
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

    def doubled(self) -> GaussianEvent:
        """For two changes in place of one, which touch twice as many numbers."""
        return GaussianEvent(2 * self.mu, 2 * self.touched, self.steps)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "gaussian", "mu": self.mu, "touched": self.touched, "steps": self.steps}


@dataclass(frozen=True, slots=True)
class PureEvent:
    """A release that is epsilon-DP with delta = 0: discrete Laplace noise."""

    epsilon: Decimal

    def __post_init__(self) -> None:
        if not self.epsilon.is_finite() or self.epsilon < 0:  # a negative one would be a refund
            raise InvalidBudget("a pure event has a finite epsilon >= 0.")

    def doubled(self) -> PureEvent:
        return PureEvent(2 * self.epsilon)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "pure", "epsilon": plain(self.epsilon)}


@dataclass(frozen=True, slots=True)
class ChoiceEvent:
    """Choices by the exponential mechanism, which together are mu-GDP. Proof: preparation.proof.md, bounded range."""

    mu: float

    def __post_init__(self) -> None:
        if not 0 <= self.mu < math.inf:
            raise InvalidBudget("a choice has a finite mu >= 0.")

    def doubled(self) -> ChoiceEvent:
        return ChoiceEvent(2 * self.mu)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "choice", "mu": self.mu}


@dataclass(frozen=True, slots=True)
class KeysEvent:
    """Keys found among noisy counts: mu-GDP, but for `delta`, the chance that somebody's own key is among them.

    Proof: mechanisms/found_keys.proof.md.
    """

    mu: float
    touched: int
    delta: Decimal
    steps: int = STEPS_PER_SIGMA

    def __post_init__(self) -> None:
        GaussianEvent(self.mu, self.touched, self.steps)
        if not self.delta.is_finite() or not 0 <= self.delta < 1:  # a negative one would be a refund
            raise InvalidBudget("finding keys has a delta of at least 0 and less than 1.")

    def doubled(self) -> KeysEvent:
        """Two individuals may have brought the same new key, for which the threshold was not made."""
        raise LedgerConflict(
            "keys that are found by individual have no price where single rows are protected.",
            hint="Give these individuals an account of their own, or a card without id.",
        )

    def to_json(self) -> dict[str, Any]:
        steps = {"touched": self.touched, "steps": self.steps}
        return {"kind": "keys", "mu": self.mu, "delta": plain(self.delta)} | steps


Event = GaussianEvent | PureEvent | ChoiceEvent | KeysEvent


def event_from_json(document: dict[str, Any]) -> Event:
    """Read an event back; an unknown kind is refused, for it cannot be priced."""
    match document.get("kind"):
        case "gaussian":
            return GaussianEvent(float(document["mu"]), int(document["touched"]), int(document["steps"]))
        case "pure":
            return PureEvent(exact_decimal(document["epsilon"], name="epsilon"))
        case "choice":
            return ChoiceEvent(float(document["mu"]))
        case "keys":
            delta = exact_decimal(document["delta"], name="delta")
            return KeysEvent(float(document["mu"]), int(document["touched"]), delta, int(document["steps"]))
        case kind:
            raise SaibotError(f"the ledger holds an event of unknown kind {kind!r}; a newer saibot wrote it.")


@dataclass(frozen=True, slots=True)
class Spent:
    """The composition of many events on one dataset. Proof: integer_release.proof.md, composition.

    `of`: events whose prices are fixed before the first answer, such as those of one release. The mu^2 of Gaussian releases
    and of choices add, pure epsilons add. `of_releases`: releases one after the other, each priced by somebody who has seen
    the answers before it.

    `delta` is what finding keys may do beyond all that. A history has a limit for it, `aside`, that was fixed before the
    first answer and counts as spent whether it is or not; events that are priced together have their sum.
    """

    mu_squared: float
    touched: int
    steps: int
    pure_epsilon: Decimal
    delta: Decimal = Decimal(0)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Spent:
        squares, touched, steps, pure, delta = [0.0], 0, STEPS_PER_SIGMA, Decimal(0), Decimal(0)
        for event in events:
            match event:
                case GaussianEvent() | KeysEvent():
                    squares.append(event.mu**2)
                    touched += event.touched
                    steps = min(steps, event.steps)
                    if isinstance(event, KeysEvent):
                        with localcontext(EXACT):
                            delta += event.delta
                case ChoiceEvent():  # draws no Gaussian noise, so it touches no number of the integer grid
                    squares.append(event.mu**2)
                case PureEvent():
                    with localcontext(EXACT):
                        pure += event.epsilon
        # The squares are rounded once, so that small ones are not lost beside a large one.
        return cls(math.fsum(squares), touched, steps, pure, delta)

    @classmethod
    def of_releases(cls, releases: Sequence[Sequence[Event]], cap: Budget, aside: Decimal = Decimal(0)) -> Spent:
        """What a history comes to. While all of it is Gaussian, or all of it pure, the sums of `of` hold as they are.

        Where the kinds mix, somebody who has seen answers could choose the one that is more telling after them. So each pure
        release counts as the Gaussian one that tells at least as much, and mu^2 adds, which holds however prices are chosen.
        If the first release alone would be too much in this way, its pure part is the only one ever, known from the start.
        """
        everything = [event for release in releases for event in release]
        together = cls.of(everything)
        if len(releases) < 2 or together.mu_squared == 0 or together.pure_epsilon == 0:
            return together
        pure_later = any(isinstance(event, PureEvent) for release in releases[1:] for event in release)
        if pure_later or cls.of_gaussians(releases[0]).within(cap, aside):
            return cls.of_gaussians(everything)
        return together

    @classmethod
    def of_gaussians(cls, events: Iterable[Event]) -> Spent:
        """All events as Gaussian ones, the pure ones replaced by those that tell at least as much."""
        plain_sum = cls.of(events := tuple(events))
        replaced = sum(pure_mu(event.epsilon) ** 2 for event in events if isinstance(event, PureEvent))
        return replace(plain_sum, mu_squared=plain_sum.mu_squared + replaced, pure_epsilon=Decimal(0))

    def within(self, cap: Budget, aside: Decimal = Decimal(0)) -> bool:
        """Whether all of it together is (epsilon, delta)-DP at the cap, `aside` of whose delta is for finding keys."""
        if self.pure_epsilon > cap.epsilon:
            return False
        # Decided by delta at the cap's epsilon, with the function that plans use: a plan for the whole cap then fits it.
        left = float(cap.epsilon - self.pure_epsilon)
        if self.mu_squared == 0:
            return True
        kept = max(aside, self.delta)
        if cap.delta <= kept:
            return False
        target = float(cap.delta - kept)
        return self._delta(left + _lost_to(kept), target) <= target

    def epsilon_at(self, delta: Decimal, aside: Decimal = Decimal(0)) -> float:
        """Epsilon of everything spent, at the given delta: what people are shown."""
        if self.mu_squared == 0:
            return float(self.pure_epsilon)
        kept = max(aside, self.delta)
        if delta <= kept:
            return float("inf")
        target, low, high = float(delta - kept), 0.0, 1.0

        def fits(epsilon: float) -> bool:
            return self._delta(epsilon, target) <= target

        if math.isinf(self.mu_squared):
            return math.inf
        while not fits(high):
            if math.isinf(high):
                return high
            low, high = high, high * 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return float(self.pure_epsilon) + high - _lost_to(kept)

    def _delta(self, epsilon: float, target: float) -> float:
        """Delta of the Gaussian part at an epsilon."""
        if math.isinf(self.mu_squared):
            return 1.0
        mu, touched = self.mu_squared**0.5, max(self.touched, 1)
        return certified_delta(mu, epsilon, touched=touched, steps=self.steps, target=target)


def _lost_to(aside: Decimal) -> float:
    """The epsilon, negative, that is lost where keys may be found: proof found_keys.proof.md, the other direction."""
    return math.log1p(-float(aside))


def pure_mu(epsilon: Decimal) -> float:
    """The least mu for which every epsilon-DP release is mu-GDP: 2 Phi^-1(e^epsilon / (1 + e^epsilon)), rounded up."""
    from scipy.special import erfinv, expit, ndtri  # here, as everybody who reads a document loads this module

    exact = float(epsilon)
    # Two ways to write the same: below 1, the probability is so close to 1/2 that a float would lose epsilon in it.
    mu = 2 * 2**0.5 * erfinv(math.tanh(exact / 2)) if exact < 1 else -2 * ndtri(expit(-exact))
    return float(mu) * (1 + 1e-9)


def bounded_range_mu(epsilon: Decimal) -> float:
    """The least mu for which every choice of bounded range epsilon is mu-GDP: half of epsilon to either side at worst."""
    return pure_mu(epsilon / 2)
