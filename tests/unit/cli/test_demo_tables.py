"""`saibot demo --write-tables`: the story's own tables as files, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from saibot.cli.app import app


def test_households_are_written_with_the_halves_of_the_communes_apart(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--write-tables", str(tmp_path / "tables"), "--json"])
    assert done.exit_code == 0, done.output
    tables = {Path(path).stem: pd.read_csv(path) for path in json.loads(done.stdout)["tables"]}
    assert len(tables["households"]) == 5_999 and "educyr" in tables["households"]
    surveyed, unseen = set(tables["surveyed"].commune), set(tables["unseen"].commune)
    assert len(surveyed) == len(unseen) == 97 and not surveyed & unseen
    assert not any(name.startswith("ln") for name in tables["households"])  # what is nearly the answer is left out
    assert {path.name for path in tmp_path.iterdir()} == {"tables"}  # no story was told


def test_flights_are_written_with_their_cards(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--story", "flights", "--write-tables", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert len(list(tmp_path.glob("*.parquet"))) == 17 and len(list(tmp_path.glob("*.toml"))) == 17
    assert "wrote" in done.stdout
