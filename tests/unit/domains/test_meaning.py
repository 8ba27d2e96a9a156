"""The same text may mean two things: what ids say about it, and what is asked where they say nothing."""

from __future__ import annotations

import pytest

from saibot.domains import different, doubt
from saibot.domains.meaning import bare_numbers, meaning

NUMBERS = tuple(map(str, range(1, 16)))


@pytest.mark.parametrize(
    "id, told",
    [
        ("range:department:1:15", "department"),
        ("range:1:15", None),
        ("dates:2013-01-01:2013-12-31", "day"),
        ("dates:2013-01-01:2013-12-31.month", "month"),
        ("months:2013-01:2013-12.year", "year"),
        ("us-county-fips", "us-county-fips"),
        ("us-county-fips.state-postal", "us-state"),
        ("nyc-dbn", None),
        ("nyc-dbn.borough", None),
    ],
)
def test_ids_of_ranges_calendars_and_vocabularies_say_what_their_keys_are(id: str, told: str | None) -> None:
    assert meaning(id) == told


@pytest.mark.parametrize(
    "ours, theirs, apart",
    [
        ("range:department:1:15", "range:commune:1:15", True),
        ("range:department:1:15", "range:department:1:90", False),
        ("range:department:1:15", "range:1:15", False),
        ("us-state", "iso-country", True),
        ("us-county-fips.state-postal", "us-state", False),
        ("us-county-fips", "my-counties", False),
    ],
)
def test_two_things_are_different_where_both_ids_say_so(ours: str, theirs: str, apart: bool) -> None:
    assert different(ours, theirs) is apart and different(theirs, ours) is apart


@pytest.mark.parametrize(
    "ours, theirs, asked",
    [
        ("range:1:15", "range:1:15", True),
        ("range:1:15", "departments", True),
        ("departments", "communes", True),
        ("range:department:1:15", "range:1:15", True),
        ("departments", "departments", False),
        ("range:department:1:15", "range:department:1:90", False),
        ("range:hour-of-day:0:23", "range:0:23", True),
        ("range:year:1:15", "years:0001:0015", False),
    ],
)
def test_bare_numbers_are_asked_about_unless_both_have_one_name(ours: str, theirs: str, asked: bool) -> None:
    question = "these keys are bare numbers, 1 to 15: are they the same thing in both tables?"
    assert doubt(ours, theirs, NUMBERS) == (question if asked else "")
    assert doubt(theirs, ours, NUMBERS) == (question if asked else "")


def test_codes_that_happen_to_be_digits_are_no_bare_numbers() -> None:
    assert bare_numbers(("1", "2", "4")) and bare_numbers(("-1", "0", "1")) and bare_numbers(("2013",))
    for keys in (("01", "02"), ("1001", "6037", "48201"), ("1", "x"), ("1.0", "2.0"), ("²", "1"), ("1" * 5000,)):
        assert not bare_numbers(keys)
