"""Maps have a shape for the keys of places, from an installed package."""

from __future__ import annotations

import json

import pytest

from saibot.domains import named_domain
from saibot.platform.errors import NotFound
from saibot.platform.pages.render import static_file
from saibot.report import places
from saibot.report.places import map_file, map_words, shapes_of, to_install


@pytest.mark.parametrize(
    "domain, without",
    [
        ("us-county-fips", 60),
        ("us-state", 6),
        ("us-state-fips", 6),
        ("iso-country", 80),  # islands too small for a map of the world
        ("iso-country-alpha-3", 80),
    ],
)
def test_nearly_every_key_has_a_shape(domain: str, without: int) -> None:
    shapes = shapes_of(domain)
    assert shapes is not None
    document = json.loads(static_file(shapes.file).read_bytes())
    drawn = {one.get("id") for one in document["objects"][shapes.objects]["geometries"]}
    missing = [key for key in named_domain(domain).values if shapes.number[key] not in drawn]
    assert len(missing) <= without


@pytest.mark.parametrize(
    "domain, told",
    [
        ("us-county-fips", "22 of the 3,235 keys have no shape on this map; they are in the table: 02063 · Chugach"),
        ("us-state", "4 of the 57 keys have no shape on this map; they are in the table: AS · American Samoa"),
        ("iso-country", "70 places too small for a shape are dots. 5 of the 249 keys have no shape"),
        ("iso-country-alpha-3", "70 places too small for a shape are dots. 5 of the 249 keys have no shape"),
    ],
)
def test_a_map_says_what_it_leaves_out(domain: str, told: str) -> None:
    shapes, keys = shapes_of(domain), named_domain(domain).values
    assert shapes is not None and map_words(domain, keys).startswith(told)
    shown = [key for key in keys if shapes.shows(key)]
    assert map_words(domain, [key for key in shown if shapes.has_shape(key)]) == "", "nothing is said where all is there"


def test_dots_lie_where_the_country_is() -> None:
    shapes = shapes_of("iso-country")
    assert shapes is not None and not shapes.has_shape("MT")
    assert shapes.dots["MT"] == pytest.approx((14.5, 35.9), abs=0.1)


def test_without_shapes_the_extras_are_named_and_the_command_to_those_who_may_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert to_install() == ()
    monkeypatch.setattr(places, "map_file", lambda name: None)
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    shapes_of.cache_clear()
    try:
        assert to_install("us-state") == ("maps", "vocabularies") and to_install("nyc-dbn") == ()
        assert "saibot[maps,vocabularies]" in map_words("us-state", ["TX"])
        plain = map_words("us-state", ["TX"], command=False)
        assert "the extra maps and the extra vocabularies" in plain and "pip" not in plain
        assert map_words("nyc-dbn", ["TX"]) == ""
    finally:
        shapes_of.cache_clear()


def test_a_domain_that_is_no_place_has_no_map() -> None:
    assert shapes_of("dates:2013-01-01:2013-12-31") is None and shapes_of("nyc-dbn") is None


def test_no_other_file_of_the_package_is_served() -> None:
    assert map_file("../pyplot.py") is None
    with pytest.raises(NotFound):
        static_file("EuropeMap.json")
