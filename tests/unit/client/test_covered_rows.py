"""How many rows of a table the joined datasets know the keys of: always told, and none of them is an error."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Augmented, Corpus, Domains, SearchOptions, find_augmentation, local_request
from saibot.client.augmented import CoverageWarning
from saibot.errors import InvalidInput


@pytest.fixture
def found(rows: pd.DataFrame, corpus: Corpus) -> Augmented:
    request = local_request(
        rows[:2000], test=rows[2000:], target="sales", features=["price"], keys=["shop", "day"], domains=Domains(corpus)
    )
    return find_augmentation(request, corpus, SearchOptions(engine="threads"))


def typed(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["augment", *words])
    return done.exit_code, done.output + str(done.exception or "")


def test_coverage_is_the_share_of_rows_with_a_key_that_is_listed(found: Augmented, rows: pd.DataFrame) -> None:
    assert found.coverage(rows) == {"shops-survey.level": 1.0, "day-weather.level": 1.0}
    strange = rows[:10].assign(shop=["elsewhere"] * 4 + rows.shop[4:10].tolist())
    assert found.coverage(strange) == {"shops-survey.level": 0.6, "day-weather.level": 1.0}
    assert found.coverage(rows[:0]) == {"shops-survey.level": 1.0, "day-weather.level": 1.0}


def test_keys_that_nobody_lists_are_an_error_and_few_of_them_a_warning(found: Augmented, rows: pd.DataFrame) -> None:
    with pytest.raises(InvalidInput, match=r"no row has a key that shops-survey\.level is listed by"):
        found.augment(rows.assign(shop="elsewhere"))
    few = rows[:10].assign(shop=["elsewhere"] * 8 + rows.shop[8:10].tolist())
    with pytest.warns(CoverageWarning, match=r"shops-survey\.level lists the keys of 20 % of the rows only"):
        assert len(found.augment(few)) == 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.augment(rows)


def test_a_model_predicts_for_keys_that_nobody_lists(found: Augmented, rows: pd.DataFrame) -> None:
    """A new shop is no mistake there: the value of all unlisted keys serves it."""
    assert len(found.model().predict(rows[:3].assign(shop="elsewhere"))) == 3


def test_the_command_tells_the_coverage_of_every_column(
    found: Augmented, rows: pd.DataFrame, corpus: Corpus, tmp_path: Path
) -> None:
    found.save(tmp_path / "result.json")
    few = rows[:10].assign(shop=["elsewhere"] * 8 + rows.shop[8:10].tolist())
    for name, table in (("few", few), ("none", rows.assign(shop="elsewhere"))):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    words = (str(tmp_path / "result.json"), str(tmp_path / "few.csv"), "--corpus", str(corpus.folder))
    code, told = typed(*words, "--out", str(tmp_path / "wide.csv"))
    assert code == 0 and "lists the keys of 20 % of the rows" in told and "lists the keys of 100 % of the rows" in told
    code, document = typed(*words, "--out", str(tmp_path / "wide.csv"), "--json")
    shares = {column["name"]: column["coverage"] for column in json.loads(document)["columns"]}
    assert code == 0 and shares == {"shops-survey.level": 0.2, "day-weather.level": 1.0}
    code, told = typed(words[0], str(tmp_path / "none.csv"), *words[2:], "--out", str(tmp_path / "nothing.csv"))
    assert code == 1 and "no row has a key" in told and not (tmp_path / "nothing.csv").exists()
