"""Sketches for discovery: made once by the real pipeline from a tiny invented table, varied by their headers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import Sketch

MakeSketch = Callable[..., Sketch]
PORTS = ["EWR", "JFK", "LGA"]

CARD: dict[str, Any] = {
    "dataset": {
        "name": "tiny-flights",
        "title": "Flüge ab New York",
        "description": "Sixty invented departures.",
        "individual": "one flight",
        "max_rows": 1000,
    },
    "features": {
        "arr_delay": {"bounds": [-30, 120], "unit": "minute", "missing": 0},
        "distance": {"bounds": [0, 3000], "unit": "mile"},
        "origin": {"levels": PORTS},
    },
    "keys": {
        "day": {"column": "date", "domain": {"dates": ["2013-01-01", "2013-02-28"]}, "levels": ["month"]},
        "plain_day": {"column": "date", "domain": {"dates": ["2013-01-01", "2013-02-28"]}},
        "port": {"column": "origin", "domain": {"values": PORTS, "id": "nyc-ports"}},
        "port_day": {"parts": ["port", "plain_day"]},
    },
}


def rows() -> pd.DataFrame:
    days = pd.date_range("2013-01-01", "2013-02-28").strftime("%Y-%m-%d")
    return pd.DataFrame(
        {
            "arr_delay": [float(i % 90 - 20) for i in range(60)],
            "distance": [100.0 + 40 * i for i in range(60)],
            "origin": [PORTS[i % 3] for i in range(60)],
            "date": [days[i % len(days)] if i % 10 else "2020-01-01" for i in range(60)],
        }
    )


@cache
def release(options: tuple[tuple[str, Any], ...]) -> Sketch:
    chosen = dict(options)
    if "mechanism" not in chosen:
        chosen["allocation"] = "alg2"  # the default one is chosen by a search that takes seconds
    budget = Budget(chosen.pop("epsilon", "1"), chosen.pop("delta", "1e-6"))
    request = ReleaseRequest(Card.parse(CARD), budget, chosen.pop("neighbours", Neighbours.REPLACE_ONE), **chosen)
    with TemporaryDirectory() as home:
        return privatize(rows(), request, Ledger(Path(home))).sketch


@pytest.fixture(scope="session")
def make_sketch() -> MakeSketch:
    """`make_sketch(key="day", features=("arr_delay",), epsilon="1", ...)`: a released sketch of the tiny table."""
    return lambda **options: release(tuple(sorted(options.items())))
