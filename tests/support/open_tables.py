"""Public tables with the same causes in common as those of `shared_tables`, as exact sketches."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from saibot.privacy.ledger import Ledger
from saibot.privatize import Card
from saibot.privatize.open_table import OpenRequest, exact_sketch
from saibot.sketch import Sketch
from tests.support.shared_tables import DOMAIN, KEYS, SHARED

SOURCE = "Census of made-up places, https://example.org/places.csv"


def open_facts(name: str, **changes: Any) -> dict[str, Any]:
    """The card of a public table."""
    key = {"column": "place", "domain": {"id": DOMAIN.id, "values": list(DOMAIN.values)}}
    return {"dataset": {"name": name}, "features": {"x": {"bounds": [-1, 1]}}, "keys": {"place": key}} | changes


def open_rows(number: int, seed: int = 3) -> tuple[pd.DataFrame, np.ndarray]:
    """A public table of the world of this seed, and the means of its keys."""
    causes = np.random.default_rng(seed).normal(size=(KEYS, SHARED))
    rng = np.random.default_rng((seed, 1000 + number))
    means = 0.35 * (causes @ rng.normal(size=SHARED) / np.sqrt(SHARED) * 0.9 + 0.4 * rng.normal(size=KEYS))
    place = rng.integers(0, KEYS, 1500)
    frame = pd.DataFrame({"place": np.array(DOMAIN.values)[place], "x": np.clip(means[place], -1, 1)})
    return frame, np.clip(means, -1, 1)


@cache
def open_sketch(number: int, seed: int = 3, **options: Any) -> Sketch:
    """The exact sketch of such a table."""
    request = OpenRequest(Card.parse(open_facts(f"open{number}")), SOURCE, **{"key": "place"} | options)
    with tempfile.TemporaryDirectory() as home:
        return exact_sketch(open_rows(number, seed)[0], request, Ledger(Path(home))).sketch
