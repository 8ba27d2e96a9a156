"""How the golden sketches were made, once: `python tests/contract/golden/make.py`. Never run it to make a test pass.

The golden files are what readers of a format version must understand for good: `v2-*` of version 2, those without prefix of
version 1, which an earlier state of this file made. Noise is simulated from a seed, so the sketches say so, and nothing
about them is private. `v2-open-levels` has none: it is open.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.open_table import OpenRequest, exact_sketch
from saibot.sketch import SUFFIX, Sketch, read_sketch, write_sketch
from saibot.sketch.header import Signature

HERE = Path(__file__).parent


class SeededNoise:
    """Simulated noise: rounded normal and Laplace draws from a seed."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return values + np.rint(self._rng.normal(0, scale, values.shape)).astype(np.int64)

    def laplace(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return values + np.rint(self._rng.laplace(0, scale, values.shape)).astype(np.int64)

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        return int((scores + self._rng.exponential(2 * sensitivity / epsilon, scores.shape)).argmin())


CARD: dict[str, Any] = {
    "dataset": {
        "name": "golden-flights",
        "title": "Flüge, erfunden",
        "description": "Forty invented flights.",
        "individual": "one flight",
        "max_rows": 1000,
    },
    "budget": {"cap": {"epsilon": "4", "delta": "1e-6"}},
    "features": {
        "delay": {"bounds": [-30, 120], "unit": "minute", "missing": 0},
        "distance": {"bounds": [0, 3000], "unit": "mile"},
        "origin": {"levels": ["EWR", "JFK"]},
    },
    "keys": {
        "day": {"column": "date", "domain": {"dates": ["2013-01-30", "2013-02-03"]}, "levels": ["month"]},
        "port": {"column": "origin", "domain": {"values": ["EWR", "JFK", "Zürich"], "id": "ports", "version": 2}},
        "weekday": {"domain": {"range": [1, 3]}},
        "port_weekday": {"parts": ["port", "weekday"]},
    },
}
RELEASES: dict[str, dict[str, Any]] = {
    "lookup-levels": {"key": "day", "features": ("delay", "origin")},
    "semiring-composite": {"key": "port_weekday", "features": ("delay", "distance"), "layout": "semiring"},
    "union-laplace": {"features": ("delay", "distance"), "budget": Budget("1"), "neighbours": Neighbours.ADD_REMOVE},
}
SIGNATURE = Signature(scheme="to-come", signer="nobody", value="neither made nor checked by version 2's first readers")


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(2013)
    days = np.array(["2013-01-30", "2013-01-31", "2013-02-01", "2013-02-09"])
    return pd.DataFrame(
        {
            "delay": np.where(rng.random(40) < 0.1, np.nan, rng.normal(10, 40, 40)),
            "distance": rng.integers(100, 3200, 40),
            "origin": rng.choice(["EWR", "JFK", "LGA"], 40),
            "date": rng.choice(days, 40),
            "weekday": rng.integers(1, 5, 40),
        }
    )


def listing(sketch: Sketch) -> dict[str, Any]:
    """All that a reader gets to see."""
    return {
        "header": sketch.header.model_dump(mode="json"),
        "levels": [
            {"keys": [part.tolist() for part in level.keys], "values": level.values.tolist()} for level in sketch.levels
        ],
    }


def make(folder: Path) -> None:
    """The first two are on one account, which has paid for both when the second is written; the third has room signed."""
    with tempfile.TemporaryDirectory() as home:
        for seed, (name, options) in enumerate(RELEASES.items()):
            terms = {"budget": Budget("1", "1e-6"), "neighbours": Neighbours.REPLACE_ONE, "allocation": "alg2"} | options
            ledger = Ledger(Path(home) / str(terms["neighbours"]))
            sketch = privatize(rows(), ReleaseRequest(Card.parse(CARD), **terms), ledger, noise=SeededNoise(seed)).sketch
            if name == "union-laplace":
                sketch = Sketch(sketch.header.model_copy(update={"signature": SIGNATURE}), sketch.levels)
            keep(folder / f"v2-{name}", sketch)


def make_open(folder: Path) -> None:
    """The exact sketch of the same rows, as if they were no secret."""
    facts = {"name": "golden-timetable", "title": "Flüge, erfunden", "description": "Forty invented flights."}
    card = Card.parse({"dataset": facts, "features": CARD["features"], "keys": CARD["keys"]})
    request = OpenRequest(card, "Invented for a test, https://example.org/flights.csv", "day", ("delay", "origin"))
    with tempfile.TemporaryDirectory() as home:
        keep(folder / "v2-open-levels", exact_sketch(rows(), request, Ledger(Path(home))).sketch)


def keep(place: Path, sketch: Sketch) -> None:
    content = write_sketch(sketch)
    place.with_suffix(SUFFIX).write_bytes(content)
    text = json.dumps(listing(read_sketch(content)), indent=1, ensure_ascii=False, sort_keys=True)
    place.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(HERE)
    make_open(HERE)
