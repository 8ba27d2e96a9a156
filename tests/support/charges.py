"""Charges against a ledger, and everything that its file holds."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from typing import Any

from saibot.privacy.account import Charge
from saibot.privacy.budget import Budget
from saibot.privacy.calibration import analytic_mu
from saibot.privacy.events import GaussianEvent, PureEvent
from saibot.privacy.ledger import Ledger
from saibot.privacy.neighbours import Neighbours

CAP = Budget("1", "1e-6")


def pure(epsilon: str, **other: Any) -> Charge:
    """A charge of so much epsilon against the cap, each for a release of its own unless said otherwise."""
    facts: dict[str, Any] = {
        "account": other.get("dataset", "taxi"),
        "dataset": "taxi",
        "neighbours": Neighbours.REPLACE_ONE,
        "unit": None,
        "cap": CAP,
        "asked": Budget(epsilon),
        "events": (PureEvent(Decimal(epsilon)),),
        "source": b"rows",
        "release": b"release " + epsilon.encode(),
    }
    return Charge(**(facts | other))


def gaussian(parts: int) -> Charge:
    """One of so many equal parts of the whole cap."""
    event = GaussianEvent(analytic_mu(CAP, touched=12 * parts) / parts**0.5, 12)
    return pure("0.5", asked=CAP, events=(event,))


def dump(ledger: Ledger) -> list[str]:
    """Everything that is in the ledger's file."""
    with sqlite3.connect(ledger.home / "ledger.sqlite") as db:
        return list(db.iterdump())
