"""The first card: a place for every public fact, and not one value from the rows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from saibot.errors import InvalidTable
from saibot.privatize import Card
from saibot.privatize.template import card_template

FRAME = pd.DataFrame(
    {
        "delay": [987654321.5, -42.25],
        "hits": [987654321, 4711],
        "late": [True, False],
        "origin": ["SECRET-4711", "EWR"],
        "when": pd.to_datetime(["1999-04-07", "2013-01-01"]),
        'odd "name"*': [1.5, 2.5],
    }
)


@pytest.fixture(params=[".csv", ".parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"my flights 2013.v2{request.param}"
    FRAME.to_csv(path, index=False) if request.param == ".csv" else FRAME.to_parquet(path)
    return path


def test_a_template_names_every_column_and_tells_no_value(table: Path) -> None:
    text = card_template(table)
    for column in ("delay", "hits", "late", "origin", "when"):
        assert column in text
    for value in ("987654321", "4711", "SECRET", "EWR", "42.25", "1999", "2.5"):
        assert value not in text


def test_a_template_becomes_a_card_once_its_blanks_are_filled(table: Path) -> None:
    card = Card.parse(tomllib.loads(card_template(table).replace("[FILL, FILL]", "[0, 10]")))
    assert card.dataset.name == "my-flights-2013"
    assert {"delay", "hits", "late"} <= set(card.features) and "origin" not in card.features
    odd = [facts.column for facts in card.features.values() if facts.column]
    assert odd == ['odd "name"*']
    assert card.features["late"].bounds == (0, 1)


def test_a_template_with_its_blanks_left_is_no_card(table: Path) -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(card_template(table))


def test_a_template_of_the_same_columns_is_the_same_whatever_the_rows(tmp_path: Path) -> None:
    one, other = tmp_path / "a" / "t.parquet", tmp_path / "b" / "t.parquet"
    for path, frame in ((one, FRAME), (other, FRAME[::-1].assign(delay=0.0, origin="x"))):
        path.parent.mkdir()
        frame.to_parquet(path)
    assert card_template(one) == card_template(other)


def test_there_is_no_template_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidTable):
        card_template(tmp_path / "gone.csv")


def test_the_domains_a_template_suggests_are_understood(table: Path) -> None:
    lines = card_template(table).replace("[FILL, FILL]", "[0, 10]").splitlines()
    suggested = [line.removeprefix("# ") for line in lines if line.startswith("# domain = ")]
    assert len(suggested) == 4
    for domain in suggested:
        written = "\n".join([*lines, "[keys.day]", 'column = "when"', domain.replace('["FILL", "FILL"]', '["a", "b"]')])
        assert Card.parse(tomllib.loads(written)).keys["day"].domain is not None


def test_the_card_of_the_tutorial_is_a_card() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    card = Card.parse(tomllib.loads(written))
    assert set(card.features) == {"nights", "respiratory"} and set(card.keys) == {"neighbourhood"}
