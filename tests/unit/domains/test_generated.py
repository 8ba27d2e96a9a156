"""Domains that an id spells out: what they list, which ids are none, and how days and times are read by coarser ones."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.domains import KeyDomain, KnownDomains, UnknownDomain, generated_domain, named_domain, spelled_size
from saibot.domains.naming import domain_name
from saibot.errors import InvalidDomain


def test_months_weeks_and_years_list_all_there_are_with_the_year_above() -> None:
    months = generated_domain("months:2012-11:2013-02")
    assert months is not None and months.values == ("2012-11", "2012-12", "2013-01", "2013-02")
    assert months.with_levels(["year"]).level_values(1) == ("2012", "2013")
    weeks = generated_domain("weeks:2020-W52:2021-W01")  # 2020 has a week 53
    assert weeks is not None and weeks.values == ("2020-W52", "2020-W53", "2021-W01")
    assert dict(weeks.parents)["year"] == ("2020", "2020", "2021")
    years = generated_domain("years:2010:2012")
    assert years is not None and years.values == ("2010", "2011", "2012") and not years.parents


def test_days_keep_their_month_and_year() -> None:
    days = generated_domain("dates:2012-12-31:2013-01-01")
    assert days is not None and days.with_levels(["month", "year"]).level_values(2) == ("2012", "2013")


@pytest.mark.parametrize(
    "id",
    [
        *("months:2013-13:2014-01", "months:2013-00:2013-02", "months:2013-02:2013-01", "months:2013-1:2013-2"),
        *("weeks:2021-W53:2022-W01", "weeks:2021-W02:2021-W01", "weeks:0000-W01:0001-W01"),
        *("years:2013:2012", "years:13:14", "range:01:15", "range:Department:1:15", "range:1:2:3", "range:a b:1:2"),
        *("range::1:15", "range:x:5:1", "range:x:0:99999999", "hours:0:23", "months:2013-01"),
    ],
)
def test_what_spells_out_no_domain_is_none_and_a_card_hears_how_they_are_written(id: str) -> None:
    assert generated_domain(id) is None
    with pytest.raises(UnknownDomain, match="months:2013-01:2013-12" if not id.startswith("hours") else "saibot domains"):
        named_domain(id)


@pytest.mark.parametrize(
    "id", ["months:2013-01:2013-12", "weeks:2013-W01:2013-W52", "years:2010:2019", "range:-3:12", "range:department:1:15"]
)
def test_an_id_is_enough_for_a_card_and_for_whoever_reads_a_sketch(id: str) -> None:
    domain = named_domain(id)
    assert domain.id == id and KnownDomains.of().find(_Part(domain)) == domain


def test_a_day_and_a_time_are_read_as_the_month_the_week_and_the_year_that_they_lie_in() -> None:
    texts = ["2013-12-30", "2013-12-30 17:00:00", "2013-12-30T17:00:00.5", "2013-13-30", "2013-12-301", "x"]
    for id, place in (("months:2013-01:2013-12", 11), ("weeks:2013-W01:2014-W01", 52), ("years:2013:2014", 0)):
        assert named_domain(id).places(texts).tolist() == [place] * 3 + [-1] * 3


def test_a_list_that_only_looks_like_months_reads_no_days() -> None:
    assert KeyDomain.of("shifts", ["2013-01"]).places(["2013-01-05"]).tolist() == [-1]


def test_a_named_range_has_the_keys_of_its_name_and_a_nameless_one_those_it_always_had() -> None:
    bare, departments, communes = (KeyDomain.of_range(1, 15, of=name) for name in (None, "department", "commune"))
    assert bare.id == "range:1:15" and departments.id == "range:department:1:15"
    assert bare.values == departments.values == communes.values
    assert len({bare.keys_digest, departments.keys_digest, communes.keys_digest}) == 3


@pytest.mark.parametrize(
    "domain, digest, keys_digest",
    [
        (
            KeyDomain.of_range(1, 15),
            "7950a47c923978030577223bd60cad02d4b82e8246bec5ca8be8dafee2c1cf43",
            "554b78c2b23ea785cbe7731def35a84ab800e55fb631d5f7b0a094b02a05eb58",
        ),
        (
            KeyDomain.of_dates(date(2013, 1, 1), date(2013, 12, 31)),
            "2c48bb03ed144cbad45e1245a5095d060aed97dc6062d9849fbe54b65e85808d",
            "d15f608f9111931f64a1091cb69ad176543d693507cca39ab8b67f8d90388ded",
        ),
    ],
)
def test_published_sketches_name_days_and_ranges_by_these_digests(domain: KeyDomain, digest: str, keys_digest: str) -> None:
    assert (domain.digest, domain.keys_digest) == (digest, keys_digest)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys were made, list by list."""
    sizes: list[int] = []
    before = KeyDomain.__post_init__

    def note(domain: KeyDomain) -> None:
        sizes.append(len(domain.values))
        before(domain)

    monkeypatch.setattr(KeyDomain, "__post_init__", note)
    return sizes


@pytest.mark.parametrize(
    "id, size, name",
    [
        ("dates:1901-01-01:2440-12-31", 197_232, "days of 1901 to 2440"),
        ("weeks:1901-W01:2440-W52", 28_176, "weeks 1901-W01 to 2440-W52"),
        ("months:1901-01:9999-12", 97_188, "months of 1901 to 9999"),
        ("years:1901:9999", 8_099, "years 1901 to 9999"),
        ("range:thing:1:199999", 199_999, "thing 1 to 199,999"),
    ],
)
def test_an_id_is_named_and_known_for_what_it_is_without_making_its_keys(
    id: str, size: int, name: str, made: list[int]
) -> None:
    """Names stand in lists of tables: a page of twenty tiny sketches with such ids took 86 s."""
    assert spelled_size(id) == size and domain_name(id) == name
    tiny = _Part(KeyDomain.of("x", ["a"]))
    tiny.domain = id
    assert KnownDomains.of().find(tiny) is None and max(made) == 1, "its sketch has one key"
    domain = generated_domain(id, size=size)
    assert domain is not None and len(domain) == size and domain.id == id


@given(st.from_regex(r"(dates:[0-9]{4}-[0-9]{2}-[0-9]{2}|weeks:[0-9]{4}-W[0-9]{2}|months:[0-9]{4}-[0-9]{2}|years:[0-9]{4}"
                     r"|range:(x:)?-?[0-9]{1,5}):", fullmatch=True), st.integers(0, 400), st.data())  # fmt: skip
def test_what_an_id_is_said_to_spell_out_is_what_it_spells_out(start: str, step: int, data: st.DataObject) -> None:
    first = start.rstrip(":").split(":")[-1]
    number = re.search(r"-?[0-9]+", first)
    assert number is not None
    other = str(int(number[0]) + step).zfill(len(number[0])) + first[number.end() :]
    id = start + data.draw(st.sampled_from([first, other]))
    domain, size = generated_domain(id), spelled_size(id)
    assert (None if domain is None else len(domain)) == size
    assert domain is None or domain.id == id


@pytest.mark.parametrize("name", ["Department", "1", "a:b", "", "a" * 41])
def test_a_name_that_no_id_could_hold_is_refused(name: str) -> None:
    with pytest.raises(InvalidDomain, match="cannot be called"):
        KeyDomain.of_range(1, 15, of=name)


class _Part:
    def __init__(self, domain: KeyDomain) -> None:
        self.domain, self.version, self.size = domain.id, domain.version, len(domain)
        self.digest, self.keys_digest = domain.digest, domain.keys_digest
