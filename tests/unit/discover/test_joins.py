"""Which lists of keys meet, at what share, and what is said of those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.discover import Joinable, Meetings, NotJoinable, OwnKeys
from saibot.discover.joins import part_id
from saibot.domains import DomainCard, KeyDomain, named_domain, vocabulary
from saibot.domains.file import card_of
from saibot.domains.minhash import signature

SCHOOLS = KeyDomain.of("schools", [f"s{i}" for i in range(50)], parents={"town": [f"t{i % 5}" for i in range(50)]})
DAYS = KeyDomain.of_range(1, 31)


class Lists:
    """Key lists in memory; counts how often keys had to be read."""

    def __init__(self, *domains: KeyDomain, signed: bool = True) -> None:
        self.domains = {part_id(domain.keys_digest): domain for domain in domains}
        self.signed, self.read = signed, 0

    def key_list(self, part: str) -> KeyDomain | None:
        self.read += 1
        return self.domains.get(part)

    def key_signature(self, part: str) -> tuple[DomainCard, np.ndarray] | None:
        domain = self.domains.get(part)
        return (card_of(domain), signature(domain.values)) if domain is not None and self.signed else None


def join(own: list[OwnKeys], *parts: KeyDomain, signed: bool = True) -> Joinable | NotJoinable:
    return Meetings(own, Lists(*parts, signed=signed)).join([(part.keys_digest, part.id) for part in parts])


@pytest.mark.parametrize("signed", [True, False])
def test_the_same_list_a_part_of_it_and_a_level_are_met(signed: bool) -> None:
    own = OwnKeys.of("school", SCHOOLS)
    assert join(own, SCHOOLS, signed=signed) == Joinable((("school", None),), 1.0, "joined on all 50 keys of schools")
    half = join(own, KeyDomain.of("half", SCHOOLS.values[:25]), signed=signed)
    assert isinstance(half, Joinable) and half.share == 0.5 and half.labels == (("school", None),)
    towns = join(own, KeyDomain.of("towns", ["T4", "T0", "T1"]), signed=signed)
    assert isinstance(towns, Joinable) and towns.share == 0.6 and towns.labels == (("school", "town"),)
    assert towns.why == "joined on 60 % of the keys of schools.town (3 of 5), which towns lists in another case"


def test_of_a_composite_key_every_part_must_be_met_by_a_column_of_its_own() -> None:
    own = [*OwnKeys.of("school", SCHOOLS), *OwnKeys.of("day", DAYS)]
    both = join(own, KeyDomain.of("days", [str(i) for i in range(31, 0, -1)]), SCHOOLS)
    assert isinstance(both, Joinable) and both.labels == (("day", None), ("school", None)) and both.share == 1
    assert isinstance(join(own[:1], SCHOOLS, DAYS), NotJoinable)
    twice = join(own, SCHOOLS, SCHOOLS)
    assert isinstance(twice, NotJoinable) and "two of its parts" in twice.reason


def test_strangers_are_ruled_out_without_reading_their_keys_and_named() -> None:
    strange = KeyDomain.of("strange", [f"x{i}" for i in range(50)])
    lists = Lists(strange)
    meetings = Meetings([OwnKeys(("school", None), "schools", SCHOOLS.values)], lists)
    found = meetings.join([(strange.keys_digest, "strange")])
    assert found == NotJoinable("few or none of the keys of schools are among strange") and lists.read == 0
    found = join([OwnKeys(("school", None), "schools", SCHOOLS.values)], strange, signed=False)
    assert found == NotJoinable("0 of the 50 keys of schools are among strange")


def test_a_small_list_within_a_large_one_is_never_ruled_out() -> None:
    large = KeyDomain.of("large", [f"s{i}" for i in range(20_000)])
    found = join([OwnKeys(("school", None), "schools", SCHOOLS.values)], large)
    assert isinstance(found, Joinable) and found.share == 1
    assert found.why == "joined on all 50 keys of schools, which large lists among 19,950 others"


def test_less_than_a_tenth_of_the_keys_is_no_join() -> None:
    own = [OwnKeys(("school", None), "schools", SCHOOLS.values)]
    four = join(own, KeyDomain.of("four", SCHOOLS.values[:4]), signed=False)
    assert four == NotJoinable("4 of the 50 keys of schools are among four")
    assert isinstance(join(own, KeyDomain.of("five", SCHOOLS.values[:5]), signed=False), Joinable)


def test_what_nobody_knows_and_what_has_no_key_is_said() -> None:
    own = OwnKeys.of("school", SCHOOLS)
    assert Meetings(own, Lists()).join([(DAYS.keys_digest, "days")]) == NotJoinable("its keys are not known here")
    assert Meetings(own, Lists()).join([]) == NotJoinable("it has no key")


QUESTION = "these keys are bare numbers, 1 to 15: are they the same thing in both tables?"
NUMBERS, DEPARTMENTS, COMMUNES = (KeyDomain.of_range(1, 15, of=name) for name in (None, "department", "commune"))


@pytest.mark.parametrize("signed", [True, False])
def test_numbers_of_two_names_are_two_things(signed: bool) -> None:
    found = join(OwnKeys.of("department", DEPARTMENTS), COMMUNES, signed=signed)
    assert found == NotJoinable("its keys are commune 1 to 15, not department 1 to 15")


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    "own, other",
    [
        (NUMBERS, NUMBERS),
        (NUMBERS, DEPARTMENTS),
        (DEPARTMENTS, NUMBERS),
        (NUMBERS, KeyDomain.of("wards", NUMBERS.values)),
        (KeyDomain.of("wards", NUMBERS.values), KeyDomain.of("desks", NUMBERS.values[::-1])),
    ],
)
def test_bare_numbers_that_nobody_named_join_with_a_question(own: KeyDomain, other: KeyDomain, signed: bool) -> None:
    found = join(OwnKeys.of("k", own), other, signed=signed)
    assert isinstance(found, Joinable) and found.share == 1 and found.why.endswith(f"; {QUESTION}")


def test_numbers_of_one_name_join_without_a_question() -> None:
    more = KeyDomain.of_range(1, 90, of="department")
    for own, other in ((DEPARTMENTS, DEPARTMENTS), (DEPARTMENTS, more), (KeyDomain.of("wards", NUMBERS.values),) * 2):
        found = join(OwnKeys.of("department", own), other)
        assert isinstance(found, Joinable) and found.share == 1 and "bare numbers" not in found.why


@pytest.mark.parametrize("signed", [True, False])
def test_counties_meet_states_by_their_level_and_countries_not_at_all(signed: bool) -> None:
    counties = OwnKeys.of("county", vocabulary("us-county-fips"))
    by_number, by_letters = (join(counties, vocabulary(id), signed=signed) for id in ("us-state-fips", "us-state"))
    assert isinstance(by_number, Joinable) and by_number.labels == (("county", "state"),) and by_number.share == 1
    assert isinstance(by_letters, Joinable) and by_letters.labels == (("county", "state-postal"),) and by_letters.share == 1
    countries = join(counties, vocabulary("iso-country"), signed=signed)
    assert (
        isinstance(countries, NotJoinable)
        and "its keys are Countries, not Counties of the United States" in countries.reason
    )


def test_days_meet_months_and_years_and_two_spellings_of_a_country_meet() -> None:
    days = OwnKeys.of("day", named_domain("dates:2012-11-15:2013-02-10"))
    for id, level in (("months:2012-11:2013-02", "month"), ("years:2012:2013", "year")):
        found = join(days, named_domain(id))
        assert isinstance(found, Joinable) and found.labels == (("day", level),) and "bare numbers" not in found.why
    found = join(OwnKeys.of("country", vocabulary("iso-country")), vocabulary("iso-country-alpha-3"))
    assert isinstance(found, Joinable) and found.labels == (("country", "alpha-3"),) and found.share == 1
