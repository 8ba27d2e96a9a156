"""As many features as are taken at once are released; one more is refused before anything is read or spent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.errors import InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.checking import MOST_SUMS

MOST = max(m for m in range(1000) if math.comb(m + 2, 2) <= MOST_SUMS)


def asked(features: int) -> ReleaseRequest:
    facts: dict[str, Any] = {
        "dataset": {"name": "wide"},
        "features": {f"f{i}": {"bounds": [0, 10]} for i in range(features)},
        "keys": {"k": {"domain": {"values": ["a", "b"], "id": "k"}}},
    }
    return ReleaseRequest(Card.parse(facts), Budget("1", "1e-6"), Neighbours.REPLACE_ONE, key="k")


def test_the_widest_table_is_released(ledger: Ledger) -> None:
    frame = pd.DataFrame(np.ones((20, MOST)), columns=[f"f{i}" for i in range(MOST)]).astype(str).assign(k="a")
    assert len(privatize(frame, asked(MOST), ledger).sketch.header.features) == MOST == 139


def test_a_wider_one_is_refused_before_it_is_read(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match=f"products of {MOST + 1} features are 10,011 sums"):
        privatize("nowhere.csv", asked(MOST + 1), ledger)
