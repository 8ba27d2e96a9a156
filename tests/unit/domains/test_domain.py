"""Key domains: public, ordered, without surprises, and the same for everybody who holds the same digest."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.domains import OTHER, KeyDomain, different, generated_domain, level_domain, normal_key
from saibot.domains import domain as domain_module
from saibot.errors import InvalidDomain

SCHOOLS = ["01M015", "01M019", "02M001", "13K003"]
DISTRICTS = ["1", "1", "2", "13"]
BOROUGHS = ["M", "M", "M", "K"]


def schools(*, levels: tuple[str, ...] = ("district", "borough"), **changes: list[str]) -> KeyDomain:
    parents = {"district": DISTRICTS, "borough": BOROUGHS} | changes
    return KeyDomain.of("nyc-dbn", SCHOOLS, parents=parents).with_levels(levels)


def test_keys_are_composed_text_without_surrounding_space_and_keep_their_case() -> None:
    assert normal_key("  Zu\u0308rich\t") == "Z\u00fcrich"
    assert normal_key("zürich") != normal_key("Zürich")
    assert normal_key("a b") == "a b"


@given(st.text())
def test_bringing_a_key_to_its_normal_form_twice_changes_nothing_more(text: str) -> None:
    assert normal_key(normal_key(text)) == normal_key(text)


def test_a_domain_keeps_its_order_and_knows_every_place() -> None:
    domain = KeyDomain.of("letters", ["b", "a", "ä"])
    assert domain.values == ("b", "a", "ä") and len(domain) == 3
    assert domain.index == {"b": 0, "a": 1, "ä": 2}


def test_a_range_holds_both_its_ends() -> None:
    assert KeyDomain.of_range(-1, 2).values == ("-1", "0", "1", "2")
    assert KeyDomain.of_range(7, 7).values == ("7",)
    assert KeyDomain.of_range(-1, 2).id == "range:-1:2"


def test_dates_hold_every_day_leap_days_too_and_offer_month_and_year() -> None:
    domain = KeyDomain.of_dates(date(2011, 12, 31), date(2012, 3, 1))
    assert len(domain) == 62 and "2012-02-29" in domain.index
    assert domain.level_names == ()
    domain = domain.with_levels(["month", "year"])
    assert domain.level_values(1) == ("2011-12", "2012-01", "2012-02", "2012-03")
    assert domain.level_values(2) == ("2011", "2012")


def test_levels_are_chosen_by_name_and_in_order() -> None:
    domain = schools(levels=())
    assert domain.level_names == ()
    assert domain.with_levels(["borough"]).level_values(1) == ("M", "K")
    assert domain.with_levels(["district", "borough"]).level_values(1) == ("1", "2", "13")
    with pytest.raises(InvalidDomain, match=r"no level 'state'.*district, borough"):
        domain.with_levels(["state"])
    with pytest.raises(InvalidDomain, match="not nested"):
        domain.with_levels(["borough", "district"])  # coarse before fine


def test_level_values_come_in_order_of_appearance() -> None:
    assert schools().level_values(0) == tuple(SCHOOLS)
    assert schools().level_values(1) == ("1", "2", "13")
    assert schools().level_values(2) == ("M", "K")


def test_every_key_finds_its_parent_and_the_catch_all_its_own() -> None:
    domain = schools()
    assert domain.parent_index(0).tolist() == [0, 1, 2, 3, 4]
    assert domain.parent_index(1).tolist() == [0, 0, 1, 2, 3]
    assert domain.parent_index(2).tolist() == [0, 0, 0, 1, 2]
    for level, parents in ((1, DISTRICTS), (2, BOROUGHS)):
        with_other = [*domain.level_values(level), OTHER]
        assert [with_other[i] for i in domain.parent_index(level)] == [*parents, OTHER]


@pytest.mark.parametrize(
    "wrong, rule",
    [
        (lambda: KeyDomain.of("d", []), "empty"),
        (lambda: KeyDomain.of("d", ["a", ""]), "empty key"),
        (lambda: KeyDomain.of("d", ["a", "  "]), "empty key"),
        (lambda: KeyDomain.of("d", ["a", OTHER]), "reserved"),
        (lambda: KeyDomain.of("d", ["a", "b", "a"]), "twice"),
        (lambda: KeyDomain.of("d", ["a", " a"]), "twice"),
        (lambda: KeyDomain.of("d", ["Zürich", "Zu\u0308rich"]), "twice"),
        (lambda: KeyDomain.of("d", ["a\x1fb"]), "control character"),
        (lambda: schools(district=["1\x1fa", "1\x1fa", "2", "13"]), "control character"),
        (lambda: KeyDomain.of("", ["a"]), "id"),
        (lambda: KeyDomain.of("d", ["a"], version=0), "version"),
        (lambda: KeyDomain.of_range(2, 1), "range"),
        (lambda: KeyDomain.of_range(0, 10**12), "range"),
        (lambda: KeyDomain.of_dates(date(2013, 1, 2), date(2013, 1, 1)), "range of days"),
        (lambda: schools(district=["1", "1", "2"]), "every key a parent"),
        (lambda: schools(district=["1", "1", "2", ""]), "every key a parent"),
        (lambda: schools(district=["1", "1", "2", OTHER]), "every key a parent"),
        (lambda: schools(district=["1", "1", "1", "1"]), "not nested"),
    ],
)
def test_what_cannot_be_a_domain_is_refused_in_one_line(wrong: object, rule: str) -> None:
    with pytest.raises(InvalidDomain, match=rule) as caught:
        wrong()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_a_domain_of_too_many_keys_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_module, "MAX_KEYS", 2)
    KeyDomain.of("d", ["a", "b"])
    with pytest.raises(InvalidDomain, match="more than 2 keys"):
        KeyDomain.of("d", ["a", "b", "c"])


def test_the_digest_depends_on_values_order_parents_and_level_names_only() -> None:
    one = schools()
    same = KeyDomain.of("another-name", SCHOOLS, version=7, parents={"district": DISTRICTS, "borough": BOROUGHS})
    assert one.digest == same.digest and len(one.digest) == 64
    others = [
        KeyDomain.of("nyc-dbn", SCHOOLS[::-1], parents={"district": DISTRICTS[::-1], "borough": BOROUGHS[::-1]}),
        KeyDomain.of("nyc-dbn", SCHOOLS, parents={"district": DISTRICTS}),
        KeyDomain.of("nyc-dbn", SCHOOLS, parents={"zone": DISTRICTS, "borough": BOROUGHS}),
        KeyDomain.of("nyc-dbn", SCHOOLS, parents={"district": ["1", "1", "3", "13"], "borough": BOROUGHS}),
        KeyDomain.of("nyc-dbn", SCHOOLS),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 6


def test_levels_that_are_not_in_use_are_under_the_digest_too_and_those_in_use_do_not_change_it() -> None:
    assert schools().digest == schools(levels=()).digest == schools(levels=("borough",)).digest


def test_the_digest_is_fixed_for_good() -> None:
    """Were it computed another way, no sketch of today would find its domain tomorrow."""
    assert KeyDomain.of("d", ["a", "b"]).digest == DIGEST_OF_A_B
    assert schools().digest == DIGEST_OF_SCHOOLS


keys = st.text(st.characters(codec="utf-8", exclude_characters="\x1f"), min_size=1, max_size=4)


@given(st.lists(st.lists(keys.map(normal_key).filter(bool), min_size=1, max_size=4, unique=True), min_size=2, max_size=6))
def test_domains_of_different_keys_have_different_digests(many: list[list[str]]) -> None:
    domains = {tuple(values): KeyDomain.of("d", values) for values in many}
    assert len({domain.digest for domain in domains.values()}) == len(domains)
    assert len({domain.keys_digest for domain in domains.values()}) == len(domains)


def test_the_digest_of_the_keys_alone_does_not_depend_on_their_parents() -> None:
    assert schools().keys_digest == KeyDomain.of("other", SCHOOLS).keys_digest != KeyDomain.of("d", SCHOOLS[:3]).keys_digest


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_parent_sums_reach_every_level_completely(parents: list[int]) -> None:
    domain = KeyDomain.of("d", [str(i) for i in range(len(parents))], parents={"up": [f"p{p}" for p in parents]})
    domain = domain.with_levels(["up"])
    weights = np.arange(1, len(parents) + 2)
    up = np.zeros(len(domain.level_values(1)) + 1)
    np.add.at(up, domain.parent_index(1), weights)
    assert up.sum() == weights.sum() and up[-1] == weights[-1]


DIGEST_OF_A_B = "bfc664eab5db9afd08279c0f08dc398eeadc2724cb4528d27b904b77b7577303"
DIGEST_OF_SCHOOLS = "93a90eec5620eae3d0c167d9a424c107e5a3b68255f9d0cb2c8cd18702f7f0e9"


def test_days_lie_in_iso_weeks_and_meet_those_of_others() -> None:
    days = generated_domain("dates:2020-12-28:2021-01-10")
    assert days is not None
    weeks = days.with_levels(["week"])
    assert weeks.level_values(1) == ("2020-W53", "2021-W01") and weeks.parent_index(1).tolist() == [0] * 7 + [1] * 7 + [2]
    listed = generated_domain("weeks:2020-W53:2021-W01")
    assert listed is not None and level_domain(days, "week").values == listed.values
    assert not different(f"{days.id}.week", listed.id) and different(f"{days.id}.month", listed.id)
    with pytest.raises(InvalidDomain, match="not nested"):
        days.with_levels(["week", "year"])


def test_weeks_do_not_change_the_digest_that_days_had_before_them() -> None:
    days = KeyDomain.of_dates(date(2013, 1, 1), date(2013, 3, 1))
    before = KeyDomain(days.id, 1, days.values, tuple(one for one in days.parents if one[0] != "week"))
    assert len(before.parents) == 2 and days.digest == before.digest and days.keys_digest == before.keys_digest
