"""The guided way: what is said by options is not asked, what is missing is named, and nobody is guessed to be one row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client.guiding import GuideQuestion, affordable_bounds, completed, nobody
from saibot.errors import InvalidInput
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, make_card
from saibot.privatize.drafting import Answers
from saibot.privatize.suggesting import names_individuals, vocabularies_of
from saibot.sketch import read_sketch

SAID = ["--individual", "one home", "--key", "ward", "--domain", "range:ward:1:20", "--feature", "age", "--epsilon", "1"]


def homes(rows: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    ward = rng.integers(1, 21, rows)
    return pd.DataFrame({"ward": ward, "age": rng.normal(40 + ward, 10).round(), "size": rng.integers(1, 9, rows)})


@pytest.fixture
def table(tmp_path: Path, saibot_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SAIBOT_PLATFORM", raising=False)
    path = tmp_path / "homes.csv"
    homes().to_csv(path, index=False)
    return path


def type_(*arguments: object) -> tuple[dict, BaseException | None]:
    done = CliRunner().invoke(app, ["publish", *map(str, arguments), "--json"])
    return (json.loads(done.stdout) if done.stdout else {}), done.exception


def answering(**answers: str) -> tuple[Callable[[GuideQuestion], str], list[GuideQuestion]]:
    asked: list[GuideQuestion] = []

    def ask(question: GuideQuestion) -> str:
        asked.append(question)
        return answers[question.name]

    return ask, asked


def test_one_command_line_makes_the_card_and_the_sketch(table: Path, tmp_path: Path, saibot_home: Path) -> None:
    said, problem = type_(table, *SAID, "--out", tmp_path / "h.saibot")
    assert problem is None
    sketch = read_sketch(tmp_path / "h.saibot")
    assert sketch.digest == said["digest"] and sketch.features == ("age",)
    assert sketch.header.dataset.individual == "one home" and sketch.header.preparation.kind == "bought"
    assert Card.read(tmp_path / "homes.toml").dataset.name == "homes"
    account = Ledger(saibot_home).account("homes")
    assert account is not None and account.spent_epsilon == pytest.approx(1, abs=1e-3)
    again, problem = type_(table, *SAID, "--out", tmp_path / "again.saibot")
    assert problem is None and again["repeated"] and again["digest"] == said["digest"]


@pytest.mark.parametrize("missing", ["--individual", "--key", "--domain", "--feature", "--epsilon"])
def test_without_a_terminal_a_missing_answer_is_an_error_that_names_its_option(
    missing: str, table: Path, tmp_path: Path, saibot_home: Path
) -> None:
    place = SAID.index(missing)
    _, problem = type_(table, *SAID[:place], *SAID[place + 2 :], "--out", tmp_path / "h.saibot")
    assert isinstance(problem, InvalidInput) and missing in (problem.hint or "")
    assert not (tmp_path / "h.saibot").exists() and not Ledger(saibot_home).accounts()


def test_it_has_to_be_said_where_the_sketch_goes(table: Path) -> None:
    _, problem = type_(table, *SAID)
    assert isinstance(problem, InvalidInput) and "--platform" in (problem.hint or "") and "--out" in (problem.hint or "")


def test_tables_and_sketches_are_not_mixed(table: Path, tmp_path: Path) -> None:
    for paths in ([table, tmp_path / "h.saibot"], [table, table]):
        _, problem = type_(*paths, "--out", tmp_path / "x.saibot")
        assert isinstance(problem, InvalidInput) and "one table by itself" in problem.message
    _, problem = type_(tmp_path / "h.saibot", "--epsilon", "1")
    assert isinstance(problem, InvalidInput) and "sketches are sent as they are" in problem.message


def test_options_do_not_contradict_a_card_that_is_there(table: Path, tmp_path: Path) -> None:
    assert type_(table, *SAID, "--out", tmp_path / "h.saibot")[1] is None
    _, problem = type_(table, *SAID, "--feature", "size", "--out", tmp_path / "h.saibot")
    assert isinstance(problem, InvalidInput) and "says something else" in problem.message
    said, problem = type_(table, "--epsilon", "1", "--out", tmp_path / "h.saibot")
    assert problem is None and said["repeated"]


def test_a_person_is_asked_for_all_that_is_missing_and_for_nothing_else() -> None:
    ask, asked = answering(
        name="homes",
        individual="one home",
        rows_per_individual="1",
        key="ward",
        domain="range:ward:1:20",
        feature="age size=0:20",
    )
    complete, columns = completed(homes(), Answers(), ask)
    assert [question.name for question in asked] == ["name", "individual", "rows_per_individual", "key", "domain", "feature"]
    assert complete.features == ("age", "size=0:20") and columns == ["ward", "age", "size"]
    ask, asked = answering()
    again, _ = completed(homes(), complete, ask)
    assert again == complete and not asked


def test_a_panel_does_not_pass_as_one_row_each_unless_somebody_says_so() -> None:
    panel = pd.DataFrame({"nr": np.repeat(np.arange(50), 8), "wage": np.arange(400.0), "state": ["CA"] * 400})
    said = Answers(name="wages", individual="one man", key="state", domain="us-state", features=("wage=0:400",))
    with pytest.raises(InvalidInput, match=r"How many rows|how many rows") as told:
        completed(panel, said, nobody)
    assert "--rows-per-individual" in (told.value.hint or "") and "'nr' come more than once" in (told.value.hint or "")
    ask, asked = answering(rows_per_individual="8", id="nr", max_rows="1000")
    complete, _ = completed(panel, said, ask)
    assert (complete.id, complete.rows_per_individual, complete.max_rows) == ("nr", 8, 1000)
    assert asked[0].suggested is None  # the number is never filled in where a column is called like an id


def test_a_vocabulary_is_suggested_by_the_name_of_the_column_and_the_share_of_its_values() -> None:
    table = pd.DataFrame({"home_state": ["CA", "NY", "TX", "Nowhere"] * 5, "x": range(20)})
    ask, asked = answering(domain="us-state", rows_per_individual="1")
    completed(table, Answers(name="t", individual="one", key="home_state", features=("x=0:20",)), ask)
    question = next(one for one in asked if one.name == "domain")
    assert question.suggested == "us-state" and any("us-state: 75 %" in line for line in question.seen)
    with pytest.raises(InvalidInput, match="By the column's name: us-state") as told:
        completed(table, Answers(name="t", individual="one", key="home_state", features=("x=0:20",)), nobody)
    assert "75" not in str(told.value)  # what rows say is on no screen but the provider's


@pytest.mark.parametrize(("column", "is_one"), [("patient_id", True), ("nr", True), ("customerID", True), ("age", False)])
def test_columns_called_like_ids_are_known(column: str, is_one: bool) -> None:
    assert names_individuals(column) is is_one


def test_columns_called_like_a_vocabulary_are_known() -> None:
    assert vocabularies_of("residenceCounty")[0] == "us-county-fips" and vocabularies_of("size") == []


def test_bounds_that_few_rows_would_not_place_are_asked_for_with_how_much_would_do() -> None:
    card = make_card(homes(500), name="t", individual="one home", key="ward", domain="range:ward:1:20", features=["age"])
    with pytest.raises(InvalidInput, match="bounds") as told:
        affordable_bounds(card, Budget("3", "1e-6"), 500, nobody)
    assert "500 rows" in (told.value.hint or "") and "0.334" in (told.value.hint or "")
    ask, _ = answering(feature="0:120")
    assert affordable_bounds(card, Budget("3", "1e-6"), 500, ask).features["age"].bounds == (0.0, 120.0)
    assert affordable_bounds(card, Budget("1", "1e-6"), 6000, nobody) == card


def test_an_unknown_vocabulary_is_refused_before_anything_else(table: Path, tmp_path: Path) -> None:
    said = [*SAID[:5], "no-such-list", *SAID[6:]]
    _, problem = type_(table, *said, "--out", tmp_path / "h.saibot")
    assert isinstance(problem, InvalidInput) and "no-such-list" in problem.message
