"""Key coverage, bought: a noisy count of the rows whose key is in the domain. It decides whether a release goes on.

It is charged by itself and before the rest, so that a list of keys which matches no row costs a hundredth of the budget and
not all of it. Asked for again, the same count is handed out. A release by several keys buys one for each of them that has a
public list: any of the lists may be the wrong one. Keys that are found in the rows are in them, and need none.
Proof: ../privacy/mechanisms/preparation.proof.md, line 14.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from saibot.errors import SaibotError
from saibot.privacy.account import Charge
from saibot.privacy.budget import Budget, plain
from saibot.privacy.calibration import STEPS_PER_SIGMA
from saibot.privacy.events import Event, GaussianEvent, PureEvent, pure_mu
from saibot.privacy.ledger import Ledger
from saibot.privatize.aggregate import ExactStatistics
from saibot.privatize.noise import NoiseSource, gaussian_measurement, laplace_measurement

TELLING = 20  # rows times epsilon of the purchase, below which noise says more than the count
LOW = 0.1  # of the rows: fewer than these in the domain, and the list of keys is taken to be the wrong one
_MARK = {False: "coverage:", True: "simulated coverage:"}  # by whether its noise is simulated


@dataclass(frozen=True)
class KeyCoverage:
    """A noisy count of rows, its noise (one standard deviation), and the public number of rows, where there is one."""

    count: float
    deviation: float
    rows: int | None

    @property
    def low(self) -> bool:
        """Whether so few rows have a key of the domain that the release is hardly meant so."""
        return self.count < max(LOW * self.rows if self.rows is not None else 0.0, 2 * self.deviation)

    @property
    def share(self) -> float | None:
        """Of all rows, between 0 and 1; None where their number is not public."""
        return None if self.rows is None else min(max(self.count / self.rows, 0.0), 1.0)

    def in_words(self) -> str:
        """For the header and for people: all of it is paid for."""
        if self.rows is None or self.share is None:
            return f"about {max(self.count, 0):,.0f} rows (± {self.deviation:,.0f}) have a key of the domain"
        error = self.deviation / self.rows
        return f"about {100 * self.share:.0f} % of all rows (± {100 * error:.1f} %) have a key of the domain"


def coverage_price(share: str | None, budget: Budget, *, most_rows: int, rows_per_individual: int) -> Decimal | None:
    """The epsilon that the count is bought for; None where it is not asked for, or rows are too few to tell anything."""
    if share is None:
        return None
    price = budget.share(share).epsilon
    return price if most_rows * price >= TELLING * rows_per_individual else None


def coverage_event(price: Decimal, budget: Budget) -> Event:
    """What the count costs the ledger. With delta, it has Gaussian noise that tells no more than Laplace noise would."""
    return PureEvent(price) if budget.pure else GaussianEvent(pure_mu(price), touched=1)


def noisy_count(count: int, event: Event, rows_per_individual: int, noise: NoiseSource) -> tuple[float, float]:
    """The count with noise, and its standard deviation. One individual moves the count by `rows_per_individual` at most."""
    match event:
        case GaussianEvent():
            sigma = rows_per_individual / event.mu
            steps = max(math.ceil(STEPS_PER_SIGMA / sigma), 1)  # of the integer grid per row
            scale = steps * sigma * (1 + 1e-12)  # what floats lose goes to the noise
            _confirm(gaussian_measurement(scale).map(float(steps * rows_per_individual)), event.mu**2 / 2)
            drawn = noise.gaussian(np.array([count * steps], np.int64), scale, lambda _: None)
            return float(drawn[0]) / steps, scale / steps
        case PureEvent():
            decay = rows_per_individual / float(event.epsilon) * (1 + 1e-12)
            _confirm(laplace_measurement(decay).map(rows_per_individual), float(event.epsilon))
            return float(noise.laplace(np.array([count], np.int64), decay, lambda _: None)[0]), math.sqrt(2) * decay
    raise SaibotError("internal: a count has no such noise.")


def _confirm(given: float, claimed: float) -> None:
    if given > claimed * (1 + 1e-9):
        raise SaibotError("internal: OpenDP's map does not confirm a count; nothing was released. Please report this.")


def coverage_charge(charge: Charge, event: Event, price: Decimal, ledger: Ledger, *, key: str) -> Charge:
    """What the count by a key asks of the ledger, beside the charge of the release that it decides about.

    A new account gets its terms from the whole release: its cap, and what it sets aside of delta for finding other keys.
    """
    known = ledger.account(charge.account) is not None
    return replace(
        charge,
        cap=charge.cap or (None if known else charge.asked),
        aside=charge.aside if known else charge.set_aside,
        asked=Budget(price, charge.asked.delta),
        events=(event,),
        release=ledger.fingerprint([b"coverage of ", charge.release, key.encode()]),
        new_version=False,
    )


def buy_coverage(
    charge: Charge, found: ExactStatistics, rows: int | None, noise: NoiseSource, ledger: Ledger, *, anew: bool
) -> KeyCoverage:
    """Charge the count and draw it; where it was bought before and is not wanted `anew`, hand it out again."""
    (event,) = charge.events
    mark = _MARK[noise.simulated]
    before = None if anew else ledger.find(charge.dataset, charge.release)
    if before is not None and before.digest is not None and before.digest.startswith(mark):
        count, deviation = (float(text) for text in before.digest.removeprefix(mark).split("±"))
        return KeyCoverage(count, deviation, rows)
    inside = int(found.rows - found.levels[0][-1, 0])
    entry = ledger.charge(charge)
    count, deviation = noisy_count(inside, event, charge.rows_per_individual, noise)
    ledger.receipt(entry, f"{mark}{count:.6g}±{deviation:.6g}")
    return KeyCoverage(float(f"{count:.6g}"), float(f"{deviation:.6g}"), rows)


def price_in_words(price: Decimal, budget: Budget) -> str:
    event = coverage_event(price, budget)
    return f"μ={event.mu:.3g}" if isinstance(event, GaussianEvent) else f"ε={plain(price)}"
