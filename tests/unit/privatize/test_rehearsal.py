"""A dry run says what a release would be, and leaves everything as it was; Python and the shell say the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Platform, Provider
from saibot.errors import BudgetExceeded, InvalidInput
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import dry_run
from tests.support.releases import books, card, release, request, rows

CARD = """
[dataset]
name = "wards"
neighbours = "replace-one"
[budget]
cap = { epsilon = "1", delta = "1e-6" }
[features.age]
bounds = [0, 100]
[keys.ward]
domain = { values = ["A", "B"], id = "wards" }
"""


def test_a_dry_run_is_the_plan_and_the_price_of_the_release(ledger: Ledger) -> None:
    found = dry_run(rows(), request(), ledger)
    assert books(ledger) == [] and not (ledger.home / "sketches").exists()
    released = release(rows(), ledger)
    assert found.plan == released.sketch.plan and not found.repeated
    assert found.events == released.entry.events
    assert found.values == sum(level.values.size for level in released.sketch.levels) + 4 + 10


def test_what_could_not_be_paid_is_refused(ledger: Ledger) -> None:
    release(rows(), ledger, card=card(budget=None))
    with pytest.raises(BudgetExceeded):
        dry_run(rows(), request(card=card(budget=None), budget=Budget("0.6", "1e-7")), ledger)
    with pytest.raises(InvalidInput):
        dry_run(rows(), request(features=("nothing",)), ledger)


def test_a_release_that_was_bought_before_would_cost_nothing_even_where_nothing_is_left(ledger: Ledger) -> None:
    whole = card(budget=None)
    release(rows(), ledger, card=whole)
    before = books(ledger)
    assert dry_run(rows(), request(card=whole), ledger).repeated and books(ledger) == before
    with pytest.raises(BudgetExceeded):
        dry_run(rows(), request(card=whole, new_version=True), ledger)


def test_python_and_the_shell_give_the_same_object(tmp_path: Path, saibot_home: Path) -> None:
    (tmp_path / "wards.toml").write_text(CARD)
    (tmp_path / "wards.csv").write_text("ward,age\n" + "A,30\nB,40\n" * 30)
    table, described = tmp_path / "wards.csv", tmp_path / "wards.toml"
    shell = CliRunner().invoke(app, ["privatize", str(table), "--key", "ward", "--epsilon", "0.5", "--dry-run", "--json"])
    assert shell.exit_code == 0, shell.output
    provider = Provider(Platform("http://platform.invalid"))
    assert provider.plan(table, described, epsilon="0.5", key="ward").to_json() == json.loads(shell.stdout)
    assert Ledger(saibot_home).accounts() == []
    provider.privatize(table, described, epsilon="0.5", key="ward")
    assert provider.plan(table, described, epsilon="0.5", key="ward").repeated
    again = CliRunner().invoke(app, ["privatize", str(table), "--key", "ward", "--epsilon", "0.5", "--dry-run"])
    assert "at no further cost" in again.output
