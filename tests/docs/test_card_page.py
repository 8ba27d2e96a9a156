"""docs/reference/card.md names every field that a card has, and every example on it is a card."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from saibot.privatize import Card, card

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "card.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## |^Bought bounds|^A domain of your own", PAGE, flags=re.MULTILINE)
PLACES = {
    "[dataset]": card.DatasetFacts,
    "[budget]": card.BudgetFacts,
    "[features.NAME]": card.FeatureFacts,
    ", `bounds = { buy": card.BoughtBounds,
    "[keys.NAME]": card.KeyFacts,
    ", `domain = { file": card.DomainFacts,
    "[component]": card.ComponentFacts,
}


@pytest.mark.parametrize("place", PLACES)
def test_every_field_has_its_line_in_its_section(place: str) -> None:
    (section,) = [text for text in SECTIONS if text.startswith(place)]
    named = {
        name
        for line in section.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert named == set(PLACES[place].model_fields)


def test_every_part_of_a_card_has_a_section() -> None:
    parts = {kind for kind in vars(card).values() if isinstance(kind, type) and issubclass(kind, card.CardPart)}
    assert parts - {card.CardPart, card.Card} == set(PLACES.values())


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL))
def test_every_example_is_a_card(example: str) -> None:
    Card.parse(tomllib.loads(example))


def test_the_python_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    frame = pd.DataFrame({"ward": [1], "age": [2], "size": [3], "farm": ["yes"]})
    names: dict[str, object] = {"frame": frame}
    exec(example, names)
    made = names["card"]
    assert isinstance(made, Card) and list(made.features) == ["age", "size"] and list(made.keys) == ["ward", "year"]
