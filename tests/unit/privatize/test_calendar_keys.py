"""A column of times serves for hours, weekdays, weeks, months and years: each cell is read as the key that it lies in."""

from __future__ import annotations

import pandas as pd
import pytest

from research.seeded import Seeded
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize

TIMES = pd.to_datetime(pd.Series(["2013-01-05 17:30:00", "2013-01-06 17:00:00", "2013-02-07 03:00:00", None]))
FORMS = {
    "times": TIMES,
    "text": TIMES.astype(str),
    "text of a program": TIMES.dt.strftime("%Y-%m-%dT%H:%M:%S"),
    "with a zone": TIMES.dt.tz_localize("UTC"),
    "with microseconds": TIMES + pd.Timedelta("1us"),
}
EXPECTED = {
    "hour-of-day": {"3": 1, "17": 2},
    "weekday": {"4": 1, "6": 1, "7": 1},
    "month-of-year": {"1": 2, "2": 1},
    "weeks:2013-W01:2013-W06": {"2013-W01": 2, "2013-W06": 1},
    "months:2013-01:2013-02": {"2013-01": 2, "2013-02": 1},
    "years:2013:2014": {"2013": 3},
}


@pytest.mark.parametrize("form, engine", [*((form, "duckdb") for form in FORMS), ("times", "polars"), ("text", "polars")])
def test_times_are_counted_at_the_key_they_lie_in(form: str, engine: str, ledger: Ledger) -> None:
    frame = pd.DataFrame({"when": FORMS[form], "x": [1.0, 2.0, 3.0, 4.0]})
    card = Card.parse({
        "dataset": {"name": "calls"},
        "budget": {"cap": {"epsilon": "1e12", "delta": "1e-5"}},
        "features": {"x": {"bounds": [0, 10]}},
        "keys": {f"k{i}": {"column": "when", "domain": domain} for i, domain in enumerate(EXPECTED)},
    })  # fmt: skip
    for i, expected in enumerate(EXPECTED.values()):
        request = ReleaseRequest(card, Budget("1000000", "1e-6"), Neighbours.REPLACE_ONE, key=f"k{i}", backend=engine)
        level = privatize(frame, request, ledger, noise=Seeded(i)).sketch.levels[0]
        counts = {str(key): round(count) for key, count in zip(level.keys[0], level.values[:, 0], strict=True)}
        assert {key: count for key, count in counts.items() if count} == expected | {"__other__": 1}
