"""Key domains have names that people read."""

from __future__ import annotations

import pytest

from saibot.domains.naming import coarser_id, domain_name, key_kind, listed_size


@pytest.mark.parametrize(
    "id, name",
    [
        ("dates:2013-01-01:2013-12-31", "days of 2013"),
        ("dates:2013-01-01:2014-12-31", "days of 2013 to 2014"),
        ("dates:2012-02-01:2012-02-29", "days of February 2012"),
        ("dates:2013-03-05:2014-03-31", "days from 5 March 2013 to 31 March 2014"),
        ("weeks:2013-W01:2013-W52", "weeks of 2013"),
        ("weeks:2020-W01:2020-W52", "weeks 2020-W01 to 2020-W52"),  # that year has 53
        ("months:2013-01:2013-12", "months of 2013"),
        ("months:2013-03:2014-12", "months from March 2013 to December 2014"),
        ("years:2010:2019", "years 2010 to 2019"),
        ("range:1:15", "whole numbers 1 to 15"),
        ("range:department:1:15", "department 1 to 15"),
        ("range:shop:1:100000", "shop 1 to 100,000"),
        ("range:1:100000", "whole numbers 1 to 100,000"),
        ("range:year:1998:2024", "year 1998 to 2024"),
        ("range:zip-code:10001:11697", "zip-code 10001 to 11697"),  # codes are no amounts
        ("range:weekday:1:7", "Days of a week, Monday 1 to Sunday 7"),
        ("iso-country", "Countries by two letters"),
        ("us-county-fips", "Counties of the United States by FIPS code, five digits"),
    ],
)
def test_an_id_that_tells_what_its_keys_are_has_a_name_in_words(id: str, name: str) -> None:
    assert domain_name(id) == name


@pytest.mark.parametrize("id", ["nyc-dbn", "dates:yesterday", "dates:2013-02-30:2013-03-01", "range:x", "", "a:b:c"])
def test_other_ids_are_names_already(id: str) -> None:
    assert domain_name(id) == id


@pytest.mark.parametrize(
    ("id", "kind", "size"),
    [
        ("dates:2013-01-01:2013-12-31", "dates and times", 365),
        ("range:hour-of-day:0:23", "dates and times", 24),
        ("range:commune:1:194", "numbers", 194),
        ("us-state", "places", 57),
        ("iso-currency", "codes", 178),
        ("us-stores", "codes", None),  # a list of somebody's own
    ],
)
def test_a_list_is_told_by_what_its_keys_are_and_how_many(id: str, kind: str, size: int | None) -> None:
    assert (key_kind(id), listed_size(id)) == (kind, size)


@pytest.mark.parametrize(
    "id, level, keys, known",
    [
        ("dates:2013-01-01:2013-12-31", "month", ["2013-01", "2013-12"], "months:2013-01:2013-12"),
        ("dates:2012-12-31:2013-02-01", "week", ["2013-W01", "2013-W05"], "weeks:2013-W01:2013-W05"),
        ("months:2011-01:2013-12", "year", ["2011", "2012", "2013"], "years:2011:2013"),
        ("us-county-fips", "state", ["01", "02"], "us-state-fips"),
        ("shops", "region", ["north", "south"], "region"),
        ("range:1:100", "month", ["2013-01"], "month"),
    ],
)
def test_a_coarser_level_is_a_domain_of_its_own(id: str, level: str, keys: list[str], known: str) -> None:
    assert coarser_id(id, level, keys) == known
