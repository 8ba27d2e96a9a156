"""Maps have a shape for the keys of places, from an installed package."""

from __future__ import annotations

import json

import pytest

from saibot.domains import named_domain
from saibot.platform.errors import NotFound
from saibot.platform.pages.render import static_file
from saibot.report.places import map_file, shapes_of


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


def test_a_domain_that_is_no_place_has_no_map() -> None:
    assert shapes_of("dates:2013-01-01:2013-12-31") is None and shapes_of("nyc-dbn") is None


def test_no_other_file_of_the_package_is_served() -> None:
    assert map_file("../pyplot.py") is None
    with pytest.raises(NotFound):
        static_file("EuropeMap.json")
