"""A small table with a canary in it, a card for it, and its release into a ledger in every way there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Released, ReleaseRequest, privatize
from saibot.privatize.noise import NoiseSource

CANARY, CANARY_NUMBER = "SECRET-4711", 987654321
CARD: dict[str, Any] = {
    "dataset": {"name": "t", "title": "a title", "description": "words", "individual": "one row"},
    "budget": {"cap": {"epsilon": "2", "delta": "1e-6"}},
    "features": {"x": {"bounds": [0, 10], "unit": "m"}, "y": {"bounds": [0, 10]}, "o": {"levels": ["a", "b"]}},
    "keys": {
        "k": {"column": "key", "domain": {"values": ["a", "b", "c"], "id": "abc", "version": 3}},
        "day": {"domain": {"dates": ["2013-01-30", "2013-02-02"]}, "levels": ["month"]},
        "kd": {"parts": ["k", "day"]},
        "gone": {"domain": {"file": "gone.csv", "id": "gone"}},
    },
}


def card(**changes: Any) -> Card:
    return Card.parse(CARD | changes)


def rows(n: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": rng.uniform(0, 10, n),
            "y": rng.uniform(0, 10, n),
            "o": rng.choice(["a", "b", CANARY], n),
            "key": rng.choice(["a", "b", CANARY], n),
            "day": rng.choice(["2013-01-30", "2013-02-01", "1999-01-01"], n),
            "number": CANARY_NUMBER,
        }
    )


def request(**options: Any) -> ReleaseRequest:
    terms = {"card": card(), "budget": Budget("0.5", "1e-7"), "neighbours": Neighbours.REPLACE_ONE, "key": "k"} | options
    if terms.get("mechanism", "joint") == "joint":
        terms.setdefault("allocation", "equal")
    return ReleaseRequest(**terms)


def release(table: Any, ledger: Ledger, noise: NoiseSource | None = None, **options: Any) -> Released:
    return privatize(table, request(**options), ledger, noise=noise)


def books(ledger: Ledger) -> list[dict[str, Any]]:
    return [account.to_json() for account in ledger.accounts()]


class Interrupted(KeyboardInterrupt):
    pass


class Fails:
    """A noise source that fails when it is first asked, and looks into the ledger before it does."""

    def __init__(self, ledger: Ledger, error: type[BaseException], *, simulated: bool = True) -> None:
        self.ledger, self.error, self.seen, self.simulated = ledger, error, -1, simulated

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        account = self.ledger.account("t")
        self.seen = len(account.entries) if account else 0
        raise self.error

    laplace = gaussian

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        self.gaussian(scores, epsilon, lambda _: None)
        raise AssertionError


AMPLE = {"cap": {"epsilon": "500", "delta": "1e-6"}}
BOUGHT = {"x": {"bounds": {"buy": "0.1"}}, "y": {"bounds": [0, 10]}}


WAYS: dict[str, dict[str, Any]] = {
    "Gaussian": {},
    "Laplace": {"budget": Budget("0.5")},
    "bought bounds": {"card": card(features=BOUGHT, budget=AMPLE), "budget": Budget("200", "1e-6")},  # 60 rows take that
    "component": {"card": card(component={"of": ["x", "y"]})},
    "paper": {"paper_preparation": True, "features": ("x", "y")},
}
