"""The first card: a place for every public fact, and not one value from the rows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from saibot.errors import InvalidCard, InvalidTable
from saibot.privatize import Card
from saibot.privatize.blanks import unfilled
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


def written(frame: pd.DataFrame, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.fixture(params=[".csv", ".parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return written(FRAME, tmp_path / f"my flights 2013.v2{request.param}")


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    return written(FRAME, tmp_path / "my flights 2013.v2.csv")


@pytest.fixture
def typed_file(tmp_path: Path) -> Path:
    return written(FRAME, tmp_path / "my flights 2013.v2.parquet")


def filled(template: str, *columns: str) -> str:
    """As a provider would: the first line of each of these columns, with bounds."""
    for column in columns:
        template = template.replace(f"# {column} = {{ bounds = [FILL, FILL] }}", f"{column} = {{ bounds = [0, 10] }}")
    template = template.replace('individual = "FILL"', 'individual = "one flight"').replace(
        "individual = FILL", "individual = 1"
    )
    return template.replace("[FILL, FILL]", "[0, 10]")


def test_a_template_names_every_column_and_tells_no_value(table: Path) -> None:
    text = card_template(table)
    for column in ("delay", "hits", "late", "origin", "when"):
        assert column in text
    for value in ("987654321", "4711", "SECRET", "EWR", "42.25", "1999", "2.5"):
        assert value not in text


def test_a_template_becomes_a_card_once_its_blanks_are_filled(typed_file: Path) -> None:
    card = Card.parse(tomllib.loads(filled(card_template(typed_file))))
    assert card.dataset.name == "my-flights-2013"
    assert {"delay", "hits", "late"} <= set(card.features) and "origin" not in card.features
    odd = [facts.column for facts in card.features.values() if facts.column]
    assert odd == ['odd "name"*']
    assert card.features["late"].bounds == (0, 1)


def test_a_text_file_offers_every_column_both_ways_and_decides_nothing(text_file: Path) -> None:
    text = card_template(text_file)
    for column in ("delay", "hits", "late", "origin", "when"):
        assert f"# {column} = {{ bounds = [FILL, FILL] }}\n" in text
        assert f'# {column} = {{ levels = ["FILL", "FILL"] }}\n' in text
    assert tomllib.loads(filled(text))["features"] == {}


def test_who_is_protected_is_never_filled_in(table: Path, tmp_path: Path) -> None:
    text = card_template(table)
    lines = {line.split(" = ")[0].removeprefix("# "): line for line in text.splitlines() if " = " in line}
    for field in ("individual", "rows_per_individual", "id", "max_rows"):
        assert "FILL" in lines[field] and "#" in lines[field], "a blank, and a sentence beside it"
    path = tmp_path / "card.toml"
    path.write_text(filled(text, "delay").replace('individual = "one flight"', 'individual = "FILL"'), encoding="utf-8")
    with pytest.raises(InvalidCard, match="still says FILL"):
        Card.read(path)


def test_either_choice_of_a_text_file_is_a_feature_once_it_is_filled_in(text_file: Path) -> None:
    text = (
        card_template(text_file)
        .replace('individual = "FILL"', 'individual = "one"')
        .replace("individual = FILL", "individual = 1")
    )
    choices = [line.removeprefix("# ") for line in text.splitlines() if re.match(r"# .* = \{.*FILL", line)]
    choices = [line for line in choices if not line.startswith("domain")]
    assert len(choices) == 2 * len(FRAME.columns)
    for number, column in enumerate(FRAME.columns):
        for line in choices[2 * number : 2 * number + 2]:
            line = line.replace("[FILL, FILL]", "[0, 10]").replace('["FILL", "FILL"]', '["a", "b"]')
            (entry,) = Card.parse(tomllib.loads(text.replace("[features]\n", f"[features]\n{line}\n"))).features.items()
            assert (entry[1].column or entry[0]) == column


def test_a_template_with_its_blanks_left_is_no_card(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text(card_template(table), encoding="utf-8")
    with pytest.raises(InvalidCard, match=r"still says FILL|no feature yet"):
        Card.read(path)


def test_a_template_of_the_same_columns_is_the_same_whatever_the_rows(table: Path, tmp_path: Path) -> None:
    other = written(FRAME[::-1].assign(delay=0.0, origin="x"), tmp_path / "other" / table.name)
    assert card_template(table) == card_template(other)


def test_not_even_the_types_of_a_text_file_come_from_its_rows(text_file: Path, tmp_path: Path) -> None:
    rows = {column: ["SECRET", "2013-01-01"] if column != "origin" else [1, 2] for column in FRAME.columns}
    other = written(pd.DataFrame(rows), tmp_path / "other" / text_file.name)
    none = written(FRAME[:0], tmp_path / "none" / text_file.name)
    assert card_template(text_file) == card_template(other) == card_template(none)


def test_a_text_file_without_a_heading_gives_no_template_unless_somebody_vouches_for_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("SECRET,4711\nEWR,4712\n")
    with pytest.raises(InvalidTable, match="2nd cell is a number") as caught:
        card_template(path)
    assert "SECRET" not in str(caught.value) and "4711" not in str(caught.value)
    assert "# 4711 = { bounds" in card_template(path, header_is_names=True)


NAMES = ["a\nb", 'quote"', "back\\slash", "tab\there", "1", "del\x7f", "x*y", "dotted.name", "# no", "\x1b[2J"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_column_of_any_name_stays_on_its_line_and_is_found_by_it(tmp_path: Path, name: str, ending: str) -> None:
    table = written(pd.DataFrame({name: [1.0]}), tmp_path / f"t{ending}")
    text = card_template(table, header_is_names=True)
    lines = [line.removeprefix("# ") if line.endswith("bounds = [FILL, FILL] }") else line for line in text.splitlines()]
    card = Card.parse(tomllib.loads(filled("\n".join(lines))))
    assert [facts.column or label for label, facts in card.features.items()] == [name]


def test_columns_whose_names_differ_in_a_mark_only_are_told_apart(tmp_path: Path) -> None:
    table = written(pd.DataFrame({"a*": [1.0], "a:": [1.0], "a_": [1.0]}), tmp_path / "t.parquet")
    card = Card.parse(tomllib.loads(filled(card_template(table))))
    assert sorted(facts.column or label for label, facts in card.features.items()) == ["a*", "a:", "a_"]


def test_there_is_no_template_of_nothing(tmp_path: Path) -> None:
    for name in ("gone.csv", "gone.parquet"):
        with pytest.raises(InvalidTable):
            card_template(tmp_path / name)


def test_the_domains_a_template_suggests_are_understood(table: Path) -> None:
    lines = filled(card_template(table), "delay").splitlines()
    suggested = [line.removeprefix("# ") for line in lines if line.startswith("# domain = ")]
    assert len(suggested) == 5
    for domain in suggested:
        text = "\n".join([*lines, "[keys.day]", 'column = "when"', domain.replace('["FILL", "FILL"]', '["a", "b"]')])
        assert Card.parse(tomllib.loads(text)).keys["day"].domain is not None


# ------------------------------------------------------------------------------------------------ blanks


@pytest.mark.parametrize(
    "line",
    [
        *("x = { bounds = [FILL, FILL] }", "bounds = [0, FILL]", 'levels = ["FILL", "FILL"]', 'column = "FILL"'),
        *('domain = { file = "FILL.csv", id = "k" }', 'domain = { values = ["a"], id = "FILL" }', '"a # b" = [FILL, FILL]'),
        'domain = { range = [1, 9], of = "FILL" }',
    ],
)
def test_a_blank_is_found_where_it_is(line: str) -> None:
    assert unfilled(f"[dataset]\n# {line}\n{line}  # FILL\n") == [3]


@pytest.mark.parametrize(
    "line", ['levels = ["FILL", "CANCEL"]', "bounds = [0, 1]  # FILL", 'title = "FILL me in # FILL"', "REFILL = 3", ""]
)
def test_what_only_looks_like_a_blank_is_none(line: str) -> None:
    assert unfilled(line) == []
