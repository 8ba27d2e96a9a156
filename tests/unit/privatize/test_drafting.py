"""Cards from a provider's answers, and cards as objects: edited, written, read back."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from saibot.errors import InvalidCard, InvalidInput
from saibot.privatize import Card, make_card
from saibot.privatize.card_text import card_text

FRAME = pd.DataFrame({"ward": [1, 2], "age": [30, 40], "size": [2, 3], "farm": ["yes", "no"], "a:b": [1.0, 2.0]})
SAID = {"name": "homes", "individual": "one home", "key": "ward", "domain": "range:ward:1:20"}


def test_a_card_is_made_from_a_frame_and_a_few_words() -> None:
    card = make_card(FRAME, **SAID, features=["age", "size=0:20", "farm=yes|no", "a:b=buy:0:9"])
    assert card.document()["features"] == {
        "age": {"bounds": {"buy": "auto"}},
        "size": {"bounds": [0.0, 20.0]},
        "farm": {"levels": ["yes", "no"]},
        "a_b": {"column": "a:b", "bounds": {"buy": "auto", "range": [0.0, 9.0]}},
    }
    assert card.dataset.individual == "one home" and card.keys["ward"].domain is not None
    assert card.keys["ward"].domain.id == "range:ward:1:20"


@pytest.mark.parametrize("text", ["size=0-20", "size= 0 .. 20", "size=0,20", "size=0 to 20"])
def test_bounds_that_are_written_in_another_way_are_no_level(text: str) -> None:
    """Such a level is in no row: all of the budget would buy noise."""
    with pytest.raises(InvalidInput, match="one level") as refused:
        make_card(FRAME, **SAID, features=[text])
    assert "size=0:20" in str(refused.value.hint)
    assert make_card(FRAME, **SAID, features=["farm=0-4|5-9"]).features["farm"].levels == ("0-4", "5-9")


def test_a_column_that_is_almost_there_is_named() -> None:
    with pytest.raises(InvalidInput) as refused:
        make_card(FRAME, **SAID, features=["szie=0:20"])
    assert "Did you mean 'size'?" in str(refused.value.hint)


def test_a_component_is_made_of_all_numeric_features() -> None:
    card = make_card(FRAME, **SAID, features=["age", "size"], component=True)
    assert card.component is not None and card.component.of == ("age", "size")
    with pytest.raises(InvalidInput, match="at least two columns of numbers"):
        make_card(FRAME, **SAID, features=["age", "farm=yes|no"], component=True)


@pytest.mark.parametrize("missing", ["name", "individual", "domain", "features"])
def test_what_a_card_needs_is_named_where_it_is_missing(missing: str) -> None:
    said = SAID | {"features": ["age"]}
    del said[missing]
    with pytest.raises(InvalidInput, match=f"needs {missing}="):
        make_card(FRAME, **said)


@pytest.mark.parametrize("feature", ["height", "height=0:3"])
def test_a_column_that_is_not_there_is_told_with_those_that_are(feature: str) -> None:
    with pytest.raises(InvalidInput, match=r"no column 'height'.* It has ward, age, size, farm"):
        make_card(FRAME, **SAID, features=[feature])


def test_a_feature_that_cannot_be_read_is_told_with_the_ways_to_write_one() -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read.*age=0:100"):
        make_card(FRAME, **SAID, features=["age=low:high"])


def test_a_card_is_edited_as_an_object_and_stays_checked() -> None:
    card = make_card(FRAME, **SAID, features=["age", "size"])
    edited = card.with_feature("age", bounds=(0, 100)).without("size").with_dataset(individual="one household")
    edited = edited.with_key("year", domain="years:2010:2019")
    assert list(edited.features) == ["age"] and edited.features["age"].bounds == (0.0, 100.0)
    assert edited.dataset.individual == "one household" and list(edited.keys) == ["ward", "year"]
    assert list(card.features) == ["age", "size"]  # the first one is as it was
    with pytest.raises(InvalidCard, match="upside down"):
        card.with_feature("age", bounds=(100, 0))
    with pytest.raises(InvalidCard, match="no feature or key 'height'"):
        card.without("height")


def test_a_card_that_was_written_reads_back_the_same(tmp_path: Path) -> None:
    card = make_card(FRAME, **SAID, features=["age", "size=0:20", "farm=yes|no", "a:b"], title='a "title" # with\nmarks')
    card = Card.parse(
        card.document() | {"budget": {"cap": {"epsilon": 1, "delta": "1e-6"}}, "component": {"of": ["age", "size"]}}
    )
    path = tmp_path / "card.toml"
    path.write_text(card_text(card), encoding="utf-8")
    assert Card.read(path).document() == card.document()


def test_numbers_in_a_card_are_the_decimals_that_they_are_written_as() -> None:
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": 0.1}}}, "budget": {"cap": {"epsilon": 0.5}}}
    card = Card.parse(document)
    assert card.budget is not None and card.budget.cap == {"epsilon": "0.5"}
    assert card.document()["features"]["x"]["bounds"]["buy"] == "0.1"


@pytest.mark.parametrize(
    ("document", "place", "meant"),
    [
        ({"dataset": {"nme": "t"}}, "dataset.nme", "name"),
        ({"features": {"x": {"bound": [0, 1]}}}, "features.x.bound", "bounds"),
        ({"features": {"x": {"bounds": {"bye": "0.1"}}}}, "features.x.bounds.bye", "buy"),
        ({"keys": {"k": {"domain": {"fil": "a.csv"}}}}, "keys.k.domain.fil", "file"),
        ({"component": {"off": ["a", "b"]}}, "component.off", "of"),
        ({"budgets": {}}, "budgets", "budget"),
    ],
)
def test_a_typo_in_a_card_suggests_the_field(document: dict, place: str, meant: str) -> None:
    base = {"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 1]}}}
    whole = base | document
    if "dataset" in document:
        whole["dataset"] = {"name": "t"} | document["dataset"]
    with pytest.raises(InvalidCard) as told:
        Card.parse(whole)
    assert place in told.value.message and f"Did you mean {meant!r}?" in (told.value.hint or "")
