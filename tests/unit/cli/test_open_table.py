"""`saibot publish --open` asks before anything becomes public, and says that it cost nothing and where it is from."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.errors import InvalidCard, InvalidInput
from saibot.sketch import read_sketch

CARD = """
[dataset]
name = "beds"
[features.beds]
bounds = [0, 40]
[keys.ward]
domain = { values = ["a", "b"], id = "wards" }
[keys.wing]
domain = { values = ["east", "west"], id = "wings" }
"""
SOURCE = "https://example.org/beds.csv"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAIBOT_HOME", str(tmp_path / "home"))
    (tmp_path / "beds.toml").write_text(CARD)
    (tmp_path / "beds.csv").write_text("ward,wing,beds\na,east,3\nb,west,5\nb,east,7\n")
    return tmp_path / "beds.csv"


def typed(*words: str, reads: str | None = None) -> str:
    done = CliRunner().invoke(app, ["publish", "--open", "beds.csv", *words], input=reads)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def sketches(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.saibot"))


def test_every_key_of_the_card_gets_a_sketch_that_says_it_is_open(table: Path, tmp_path: Path) -> None:
    told = typed("--source", SOURCE, "--yes", "--out", "open")
    assert sketches(tmp_path / "open") == ["beds-ward.saibot", "beds-wing.saibot"]
    assert told.count(f"open, no privacy cost, source: {SOURCE}") == 2
    header = read_sketch(tmp_path / "open" / "beds-ward.saibot").header
    assert (header.open, header.source, header.rows) == (True, SOURCE, 3)


def test_a_file_takes_one_sketch_and_no_more(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="several keys"):
        typed("--source", SOURCE, "--yes", "--out", "beds.saibot")
    typed("--source", SOURCE, "--yes", "--out", "beds.saibot", "--key", "ward")
    assert read_sketch(tmp_path / "beds.saibot").header.open


def test_one_key_can_be_chosen_and_json_is_one_document(table: Path, tmp_path: Path) -> None:
    told = json.loads(typed("--source", SOURCE, "--yes", "--key", "wing", "--layout", "semiring", "--out", "o", "--json"))
    assert told == {"sketches": ["o/beds-wing.saibot"], "open": True, "source": SOURCE}
    assert read_sketch(tmp_path / "o" / "beds-wing.saibot").layout == "semiring"


@pytest.mark.parametrize("answer, made", [("yes", True), ("y", False), ("no", False), ("", False)])
def test_somebody_at_a_terminal_has_to_type_yes(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, made: bool
) -> None:
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("saibot.cli.open_table.sys", SimpleNamespace(stdin=terminal, stderr=terminal))
    if made:
        assert "anybody may see it, cell by cell" in typed("--source", SOURCE, "--out", "open", reads=f"{answer}\n")
    else:
        with pytest.raises(InvalidInput, match="Nobody has said"):
            typed("--source", SOURCE, "--out", "open", reads=f"{answer}\n")
    assert (tmp_path / "open").exists() == made


def test_without_a_terminal_it_needs_the_word_and_without_a_source_nothing_is_made(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Nobody has said"):
        typed("--source", SOURCE, "--out", "open")
    with pytest.raises(InvalidInput, match="needs its source"):
        typed("--yes", "--out", "open")
    assert not (tmp_path / "open").exists()


def test_a_card_with_a_budget_is_refused_before_anybody_is_asked(table: Path, tmp_path: Path) -> None:
    (tmp_path / "beds.toml").write_text(CARD + '[budget]\ncap = { epsilon = "1" }\n')
    with pytest.raises(InvalidCard, match=r"\[budget\]"):
        typed("--source", SOURCE, "--yes", "--out", "open")


def test_options_of_open_tables_are_not_taken_for_sketches(table: Path) -> None:
    done = CliRunner().invoke(app, ["publish", "x.saibot", "--source", SOURCE])
    assert isinstance(done.exception, InvalidInput) and "--open" in str(done.exception)
