"""Shapes of places whose keys a shipped vocabulary lists: countries, and states and counties of the United States.

They are files of the package bqplot (Apache-2.0), which the extra `maps` installs, and are read as files: nothing of that
package is run. Without it places have no map.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from saibot.domains import named_domain
from saibot.errors import InvalidDomain
from saibot.report.key_charts import MapShapes

PACKAGE = "bqplot"
WORLD, STATES_AND_COUNTIES = "WorldMap.json", "USCountiesMap.json"
FILES = (WORLD, STATES_AND_COUNTIES)


@cache
def shapes_of(domain: str) -> MapShapes | None:
    """The map of a key domain by its id; None where it has none, or the packages for it are not installed."""
    if domain not in _MAPS or map_file(_MAPS[domain][0]) is None:
        return None
    file, objects, projection, ratio, numbers = _MAPS[domain]
    try:
        return MapShapes(file, objects, projection, ratio, numbers())
    except (InvalidDomain, ImportError):
        return None


@cache
def map_file(name: str) -> Path | None:
    """Where a file of shapes is on this machine."""
    try:
        path = Path(str(distribution(PACKAGE).locate_file(f"{PACKAGE}/map_data/{name}")))
    except PackageNotFoundError:
        return None
    return path if name in FILES and path.is_file() else None


def _by_number(domain: str) -> Callable[[], dict[str, int]]:
    return lambda: {key: int(key) for key in named_domain(domain).values}


def _states() -> dict[str, int]:
    states = named_domain("us-state")
    return {key: int(number) for key, number in zip(states.values, dict(states.parents)["fips"], strict=True)}


def _countries(letters: str) -> Callable[[], dict[str, int]]:
    def numbers() -> dict[str, int]:
        import pycountry

        return {getattr(one, letters): int(one.numeric) for one in pycountry.countries}

    return numbers


_MAPS: dict[str, tuple[str, str, str, float, Callable[[], dict[str, int]]]] = {
    "iso-country": (WORLD, "subunits", "equalEarth", 0.5, _countries("alpha_2")),
    "iso-country-alpha-3": (WORLD, "subunits", "equalEarth", 0.5, _countries("alpha_3")),
    "us-state": (STATES_AND_COUNTIES, "states", "albersUsa", 0.6, _states),
    "us-state-fips": (STATES_AND_COUNTIES, "states", "albersUsa", 0.6, _by_number("us-state-fips")),
    "us-county-fips": (STATES_AND_COUNTIES, "subunits", "albersUsa", 0.6, _by_number("us-county-fips")),
}
