"""Cards and releases that buy bounds or a component from the budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Released, ReleaseRequest, privatize
from saibot.privatize.noise import NoiseSource

REPLACE_ONE = Neighbours.REPLACE_ONE
AMPLE = Budget("2000", "1e-6")  # with which two rows are enough to buy bounds


def card(**sections: Any) -> dict[str, Any]:
    base = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.25"}}, "y": {"bounds": [-10, 10]}}}
    return base | {"keys": {"k": {"domain": {"range": [1, 5]}}}} | sections


def buy(
    table: pd.DataFrame | Path,
    ledger: Ledger,
    document: dict[str, Any],
    budget: Budget,
    *,
    noise: NoiseSource | None = None,
    **options: Any,
) -> Released:
    terms = {"neighbours": REPLACE_ONE, "allocation": "equal"} | options
    return privatize(table, ReleaseRequest(Card.parse(document), budget, **terms), ledger, noise=noise)


def skewed(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.lognormal(3, 0.7, n), "y": rng.normal(0, 3, n), "k": rng.integers(1, 7, n)})
