"""The dataset card: the one of DESIGN section 13 is understood, and every mistake is one line that names its place."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from saibot.domains import DomainRegistry, KeyDomain
from saibot.errors import InvalidCard, InvalidDomain
from saibot.privacy import Budget, Neighbours
from saibot.privatize import Card
from saibot.privatize.schema import default_bound_squared, resolve_features, resolve_key
from saibot.privatize.template import card_template

CARD = """
[dataset]
name = "ua-flights-2013"
title = "United flights out of New York, 2013"
individual = "one flight"
neighbours = "replace-one"
max_rows = 1000000
[budget]
cap = { epsilon = "4", delta = "1e-6" }
[features.arr_delay]
bounds = [-30, 120]
unit = "minute"
missing = 0
[features.distance]
bounds = { buy = "0.1" }
[features.origin]
levels = ["EWR", "JFK", "LGA"]
[keys.school]
column = "DBN"
domain = { file = "nyc-dbn.csv", id = "nyc-dbn", version = 1 }
levels = ["district", "borough"]
[keys.day]
column = "date"
domain = { dates = ["2013-01-01", "2013-12-31"] }
[keys.origin_code]
domain = { values = ["EWR", "JFK", "LGA"], id = "nyc-airports" }
[keys.hour]
domain = { range = [0, 23] }
[keys.origin_day]
parts = ["origin_code", "day"]
"""
DOMAIN = "dbn,district,borough\n01M015,1,M\n01M019,1,M\n13K003,13,K\n"


@pytest.fixture
def card(tmp_path: Path) -> Card:
    (tmp_path / "card.toml").write_text(CARD, encoding="utf-8")
    (tmp_path / "nyc-dbn.csv").write_text(DOMAIN, encoding="utf-8")
    return Card.read(tmp_path / "card.toml")


def changed(*path: str, to: Any) -> dict[str, Any]:
    document = copy.deepcopy(tomllib.loads(CARD))
    place = document
    for step in path[:-1]:
        place = place.setdefault(step, {})
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return document


# ------------------------------------------------------------------------------------------------ what is understood


def test_the_card_of_the_design_is_understood(card: Card) -> None:
    assert card.dataset.name == "ua-flights-2013" and card.dataset.individual == "one flight"
    assert card.dataset.neighbours is Neighbours.REPLACE_ONE and card.dataset.max_rows == 1_000_000
    assert card.budget is not None and card.budget.limit == Budget("4", "1e-6")
    assert card.features["arr_delay"].bounds == (-30, 120) and card.features["arr_delay"].missing == 0
    assert card.features["origin"].levels == ("EWR", "JFK", "LGA")
    assert card.keys["day"].domain is not None and card.keys["day"].domain.dates == (date(2013, 1, 1), date(2013, 12, 31))


def test_defaults_are_one_row_per_individual_and_no_relation() -> None:
    card = Card.parse({"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 1]}}})
    assert card.dataset.rows_per_individual == 1 and card.dataset.neighbours is None and card.budget is None


def test_features_become_columns_with_their_bounds_and_missing_value(card: Card) -> None:
    columns = resolve_features(card, ())
    assert [c.name for c in columns] == ["arr_delay", "distance", "origin=EWR", "origin=JFK", "origin=LGA"]
    delay = columns[0].feature
    assert delay is not None and (delay.lower, delay.upper, delay.missing, delay.unit) == (-30, 120, 0, "minute")
    assert (delay.offset, delay.scale) == (45, 75)
    assert columns[1].feature is None and columns[1].to_buy is not None
    assert columns[2].feature is not None and (columns[2].feature.offset, columns[2].feature.scale) == (0, 1)


def test_missing_cells_take_the_midpoint_of_the_bounds_unless_the_card_says_otherwise() -> None:
    card = Card.parse({"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 10]}}})
    (column,) = resolve_features(card, ())
    assert column.feature is not None and column.feature.missing == 5


def test_the_default_bound_counts_numeric_and_categorical_features() -> None:
    features = {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 1]}, "o": {"levels": ["a", "b", "c"]}}
    card = Card.parse({"dataset": {"name": "t"}, "features": features})
    assert default_bound_squared(resolve_features(card, ())) == 3
    assert default_bound_squared(resolve_features(card, ("x", "o"))) == 2


@pytest.mark.parametrize(
    "features",
    [
        {"a": {"column": "o", "levels": ["E"]}, "b": {"column": "o", "levels": ["E", "J"]}},
        {"x": {"bounds": [0, 9]}, "as_text": {"column": "x", "levels": ["9"]}},
        {"x": {"column": "z", "bounds": [0, 9]}, "y": {"column": "z", "bounds": [0, 5]}},
    ],
)
def test_two_features_of_one_column_count_twice(features: dict[str, Any]) -> None:
    """A row can have a 1 in both, so its squared norm is 2. Counting columns would make the bound too small."""
    card = Card.parse({"dataset": {"name": "t"}, "features": features})
    assert default_bound_squared(resolve_features(card, ())) == 2


def test_keys_resolve_to_their_domains_with_levels_fine_to_coarse(card: Card) -> None:
    school = resolve_key(card, "school")
    assert school is not None and school.parts[0].column == "DBN" and school.level_sizes == (4, 3, 3)
    day, hour = resolve_key(card, "day"), resolve_key(card, "hour")
    assert day is not None and day.parts[0].dates and day.level_sizes == (366,)
    assert hour is not None and hour.parts[0].column == "hour" and hour.parts[0].domain.values[:2] == ("0", "1")
    both = resolve_key(card, "origin_day")
    assert both is not None and [p.column for p in both.parts] == ["origin_code", "date"] and both.level_sizes == (1096,)
    assert resolve_key(card, None) is None


@pytest.mark.parametrize(
    "domain, id, size, days",
    [
        ("us-state", "us-state", 57, False),
        ({"id": "us-state", "version": 1}, "us-state", 57, False),
        ("months:2013-01:2013-12", "months:2013-01:2013-12", 12, True),
        ("dates:2013-01-01:2013-01-31", "dates:2013-01-01:2013-01-31", 31, True),
        ("hour-of-day", "range:hour-of-day:0:23", 24, False),
        ("weekday", "range:weekday:1:7", 7, True),
        ({"range": [1, 15], "of": "department"}, "range:department:1:15", 15, False),
        ("range:department:1:15", "range:department:1:15", 15, False),
    ],
)
def test_a_domain_that_needs_no_list_is_named_by_its_id(domain: Any, id: str, size: int, days: bool) -> None:
    key = resolve_key(Card.parse(changed("keys", "k", to={"domain": domain})), "k")
    assert key is not None and (key.parts[0].domain.id, len(key.parts[0].domain), key.parts[0].dates) == (id, size, days)


def test_an_imported_domain_is_named_by_its_id(saibot_home: Path) -> None:
    DomainRegistry(saibot_home / "domains").register(KeyDomain.of("wards", ["n", "s"], parents={"side": ["up", "down"]}))
    key = resolve_key(Card.parse(changed("keys", "k", to={"domain": "wards", "levels": ["side"]})), "k")
    assert key is not None and key.parts[0].domain.values == ("n", "s") and key.level_sizes == (3, 3)


@pytest.mark.parametrize(
    "domain, told",
    [
        ("us-count", "no key domain 'us-count' is known.*us-county-fips"),
        ({"id": "us-state", "version": 2}, "no key domain 'us-state' version 2 is known.*Version 1"),
        ("months:2013-1:2013-2", "months:2013-01:2013-12"),
        ({"range": [1, 15], "of": "My Dept"}, "cannot be called 'My Dept'"),
    ],
)
def test_a_name_that_names_no_domain_is_told_with_the_ones_there_are(domain: Any, told: str, saibot_home: Path) -> None:
    with pytest.raises(InvalidDomain, match=told):
        resolve_key(Card.parse(changed("keys", "k", to={"domain": domain})), "k")


def test_the_domain_file_is_found_beside_the_card(card: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path.parent)
    assert resolve_key(card, "school") is not None


def test_a_card_read_twice_is_the_same_value() -> None:
    document = tomllib.loads(CARD)
    assert Card.parse(document) == Card.parse(copy.deepcopy(document))


# ------------------------------------------------------------------------------------------------ what is refused

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no dataset": (changed("dataset", to=None), r"\[dataset\]"),
    "no name": (changed("dataset", "name", to=None), r"\[dataset.name\]"),
    "a name with a slash": (changed("dataset", "name", to="a/b"), r"\[dataset.name\]"),
    "an empty name": (changed("dataset", "name", to=""), r"\[dataset.name\]"),
    "an unknown relation": (changed("dataset", "neighbours", to="anyone"), r"\[dataset.neighbours\]"),
    "no rows per individual": (changed("dataset", "rows_per_individual", to=0), r"\[dataset.rows_per_individual\]"),
    "rows per individual without id": (changed("dataset", "rows_per_individual", to=3), r"\[dataset\].*needs id"),
    "rows at most 0": (changed("dataset", "max_rows", to=0), r"\[dataset.max_rows\]"),
    "a typo in a section": (changed("feature", to={}), r"\[feature\]"),
    "a typo in a field": (changed("dataset", "titel", to="x"), r"\[dataset.titel\]"),
    "a typo in a feature": (changed("features", "arr_delay", "bound", to=1), r"\[features.arr_delay.bound\]"),
    "a cap without epsilon": (changed("budget", "cap", to={"delta": "1e-6"}), r"\[budget\].*epsilon"),
    "a cap of 0": (changed("budget", "cap", to={"epsilon": "0"}), r"\[budget\].*greater than 0"),
    "a cap with delta 1": (changed("budget", "cap", to={"epsilon": "1", "delta": "1"}), r"\[budget\].*less than 1"),
    "a cap that is no number": (changed("budget", "cap", to={"epsilon": "much"}), r"\[budget\].*decimal"),
    "a cap that is a truth": (changed("budget", "cap", to={"epsilon": True}), r"\[budget.cap.epsilon\].*string"),
    "no features": (changed("features", to={}), r"\[features\]"),
    "bounds upside down": (
        changed("features", "arr_delay", "bounds", to=[120, -30]),
        r"\[features.arr_delay\].*upside down",
    ),
    "bounds that are one": (changed("features", "arr_delay", "bounds", to=[5, 5]), r"\[features.arr_delay\].*upside down"),
    "one bound": (changed("features", "arr_delay", "bounds", to=[0]), r"\[features.arr_delay.bounds.1\]"),
    "three bounds": (changed("features", "arr_delay", "bounds", to=[1, 2, 3]), r"\[features.arr_delay.bounds"),
    "bounds as text": (changed("features", "arr_delay", "bounds", to=["low", "high"]), r"\[features.arr_delay.bounds"),
    "bounds not finite": (changed("features", "arr_delay", "bounds", to=[0, float("inf")]), r"\[features.arr_delay.bounds"),
    "bounds beyond floats": (changed("features", "arr_delay", "bounds", to=[0, 1.5e308]), r"\[features.arr_delay\].*large"),
    "bounds within one float": (
        changed("features", "arr_delay", "bounds", to=[0, 5e-324]),
        r"\[features.arr_delay\].*close",
    ),
    "neither bounds nor levels": (changed("features", "arr_delay", "bounds", to=None), r"\[features.arr_delay\].*bounds"),
    "bounds and levels": (changed("features", "arr_delay", "levels", to=["a"]), r"\[features.arr_delay\].*bounds"),
    "a share that is no number": (
        changed("features", "distance", "bounds", to={"buy": "x"}),
        r"\[features.distance.bounds.*buy",
    ),
    "a share of all": (changed("features", "distance", "bounds", to={"buy": "1"}), r"\[features.distance.bounds.*buy"),
    "quantiles upside down": (
        changed("features", "distance", "bounds", to={"buy": "0.1", "quantiles": [0.9, 0.1]}),
        r"\[features.distance.bounds.*quantiles",
    ),
    "a range upside down": (
        changed("features", "distance", "bounds", to={"buy": "0.1", "range": [9, 1]}),
        r"\[features.distance.bounds.*range is upside down",
    ),
    "a range too narrow for its size": (
        changed("features", "distance", "bounds", to={"buy": "auto", "range": [1e9, 1e9 + 1]}),
        r"\[features.distance.bounds.*shift the column",
    ),
    "no levels": (changed("features", "origin", "levels", to=[]), r"\[features.origin\].*levels"),
    "a level twice": (changed("features", "origin", "levels", to=["a", "a"]), r"\[features.origin\].*different"),
    "an empty level": (changed("features", "origin", "levels", to=["a", ""]), r"\[features.origin\].*empty"),
    "a level with a star": (changed("features", "origin", "levels", to=["a*b"]), r"\[features.origin\].*'\*'"),
    "a level too long": (changed("features", "origin", "levels", to=["a" * 300]), "'origin'.*too long"),
    "a missing level": (changed("features", "origin", "missing", to=0), r"\[features.origin\].*missing"),
    "a feature name with a star": (changed("features", "a*b", to={"bounds": [0, 1]}), r"'a\*b'"),
    "a feature called 1": (changed("features", "1", to={"bounds": [0, 1]}), "'1'"),
    "a key name with a colon": (changed("keys", "a:b", to={"domain": {"range": [0, 1]}}), "'a:b'"),
    "a key without domain": (changed("keys", "day", "domain", to=None), r"\[keys.day\].*domain"),
    "a domain without source": (changed("keys", "day", "domain", to={"version": 1}), r"\[keys.day.domain\].*exactly one"),
    "numbers of something that is no range": (
        changed("keys", "day", "domain", to={"values": ["a"], "id": "d", "of": "day"}),
        r"\[keys.day.domain\].*goes with range",
    ),
    "a domain of two sources": (
        changed("keys", "day", "domain", to={"range": [0, 1], "values": ["a"], "id": "d"}),
        r"\[keys.day.domain\].*exactly one",
    ),
    "a list without id": (changed("keys", "day", "domain", to={"values": ["a"]}), r"\[keys.day.domain\].*needs an id"),
    "a date that is none": (
        changed("keys", "day", "domain", to={"dates": ["2013-02-30", "2013-12-31"]}),
        r"\[keys.day.domain.dates",
    ),
    "a composite of one": (changed("keys", "origin_day", "parts", to=["day"]), r"\[keys.origin_day\].*at least two"),
    "a composite of one twice": (
        changed("keys", "origin_day", "parts", to=["day", "day"]),
        r"\[keys.origin_day\].*different",
    ),
    "a composite of unknown keys": (changed("keys", "origin_day", "parts", to=["day", "night"]), "'night'"),
    "a composite of composites": (changed("keys", "more", to={"parts": ["origin_day", "day"]}), "'origin_day'"),
    "a composite with levels": (changed("keys", "origin_day", "levels", to=["month"]), r"\[keys.origin_day\].*levels"),
    "a component of one": (changed("component", to={"of": ["distance"]}), r"\[component.of\]"),
    "a component for nothing": (
        changed("component", to={"of": ["distance", "arr_delay"], "buy": "0"}),
        r"\[component\].*buy",
    ),
}


@pytest.mark.parametrize("document, place", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_that_names_its_place(document: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidCard, match=place) as caught:
        Card.parse(document)
    message = str(caught.value)
    assert "\n" not in message and "pydantic" not in message and "Value error" not in message and len(message) < 300


@pytest.mark.parametrize(
    "ask, rule",
    [
        (lambda card: resolve_features(card, ("dep_delay",)), "no feature 'dep_delay'.*arr_delay, distance, origin"),
        (lambda card: resolve_features(card, ("arr_delay", "arr_delay")), "twice"),
        (lambda card: resolve_key(card, "night"), "no key 'night'.*school, day"),
    ],
)
def test_asking_for_what_the_card_does_not_have_says_what_it_has(
    ask: Callable[[Card], object], rule: str, card: Card
) -> None:
    with pytest.raises(InvalidCard, match=rule):
        ask(card)


def test_a_missing_value_outside_its_bounds_is_refused() -> None:
    card = Card.parse({"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 1], "missing": 2}}})
    with pytest.raises(InvalidCard, match="missing value of feature 'x'"):
        resolve_features(card, ())


def test_domains_that_cannot_be_are_refused_when_their_key_is_asked_for(tmp_path: Path) -> None:
    features = {"x": {"bounds": [0, 1]}}
    keys = {
        "gone": {"domain": {"file": "gone.csv", "id": "d"}},
        "backwards": {"domain": {"dates": ["2013-12-31", "2013-01-01"]}},
        "big": {"domain": {"range": [1, 100_000]}},
        "bigger": {"parts": ["big", "also"]},
        "also": {"domain": {"range": [1, 100_000]}},
        "levelled": {"domain": {"range": [1, 5]}, "levels": ["tens"]},
    }
    card = Card.parse({"dataset": {"name": "t"}, "features": features, "keys": keys}, folder=tmp_path)
    for name, rule in {"gone": "missing", "backwards": "dates", "bigger": "combinations", "levelled": "no level"}.items():
        with pytest.raises(InvalidDomain, match=rule) as caught:
            resolve_key(card, name)
        assert "\n" not in str(caught.value)


def test_a_card_that_is_not_there_or_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCard, match=r"there is no card.*saibot init"):
        Card.read(tmp_path / "card.toml")
    for content in (b"[dataset", b"\xff\xfe", b"name = \n"):
        (tmp_path / "card.toml").write_bytes(content)
        with pytest.raises(InvalidCard, match="not readable TOML") as caught:
            Card.read(tmp_path / "card.toml")
        assert "\n" not in str(caught.value)


def test_a_template_with_bounds_still_to_be_filled_in_says_so(tmp_path: Path) -> None:
    """As TOML it is not readable, which is not what its reader needs to hear."""
    table = tmp_path / "rows.csv"
    table.write_text("x,y\n1,2\n", encoding="utf-8")
    path = tmp_path / "card.toml"
    template = (
        card_template(table)
        .replace('individual = "FILL"', 'individual = "one"')
        .replace("individual = FILL", "individual = 1")
    )
    path.write_text(template, encoding="utf-8")
    with pytest.raises(InvalidCard, match="no feature yet") as caught:
        Card.read(path)
    assert "take the # off" in str(caught.value)
    chosen = template.replace("# y = { bounds", "y = { bounds")
    path.write_text(chosen, encoding="utf-8")
    (line,) = (number for number, text in enumerate(chosen.splitlines(), start=1) if text.startswith("y = "))
    with pytest.raises(InvalidCard, match=f"still says FILL: line {line}") as caught:
        Card.read(path)
    assert "public bounds or levels" in str(caught.value) and "TOML" not in str(caught.value)
    path.write_text(chosen.replace("[FILL, FILL]", "[0, 9]"), encoding="utf-8")
    assert Card.read(path).features["y"].bounds == (0, 9) and "x" not in Card.read(path).features


def test_a_part_of_a_request_is_a_dataset_of_its_own_without_key_levels() -> None:
    day = {"column": "day", "domain": {"dates": ["2013-01-01", "2013-12-31"]}, "levels": ["month"]}
    whole = Card.parse({"dataset": {"name": "flights"}, "features": {"delay": {"bounds": [-30, 120]}}, "keys": {"day": day}})
    part = whole.for_request("train")
    assert part.dataset.name == "flights-train" and part.keys["day"].levels == ()
    assert whole.dataset.name == "flights" and whole.keys["day"].levels == ("month",)
    assert part.features == whole.features and part.keys["day"].domain == whole.keys["day"].domain
