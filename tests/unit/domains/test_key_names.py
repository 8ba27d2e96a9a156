"""Keys of lists that ship have names, where a package says them."""

from __future__ import annotations

import pytest

from saibot.domains import named_domain
from saibot.domains.naming import key_labels
from saibot.domains.vocabularies import key_names


@pytest.mark.parametrize(
    "id, key, name",
    [
        ("us-state", "TX", "Texas"),
        ("us-state", "GU", "Guam"),
        ("us-state-fips", "48", "Texas"),
        ("us-county-fips", "01001", "Autauga County, AL"),
        ("iso-country", "BO", "Bolivia"),
        ("iso-country-alpha-3", "BOL", "Bolivia"),
        ("continent", "EU", "Europe"),
    ],
)
def test_every_key_of_a_place_has_a_name(id: str, key: str, name: str) -> None:
    assert key_names(id)[key] == name
    assert set(named_domain(id).values) <= set(key_names(id)), "and so have all others"


def test_a_name_stands_beside_its_key_and_other_keys_stay_as_they_are() -> None:
    keys = ["TX", "Atlantis"]
    assert key_labels("us-state", keys) == ["TX · Texas", "Atlantis"]
    assert key_labels("nyc-dbn", keys) is keys
