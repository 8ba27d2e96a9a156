"""What `saibot split` promises depends on what it was told."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from saibot.cli.app import app


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("patient,nights\n" + "".join(f"{i // 2},{i % 5}\n" for i in range(40)))
    return path


def test_with_an_id_every_individual_is_promised_to_be_in_one_part(visits):
    told = CliRunner().invoke(app, ["split", str(visits), "--id", "patient"]).output
    assert "Every individual" in told and "one part only" in told


def test_without_an_id_the_split_promises_nothing_about_individuals(visits):
    told = CliRunner().invoke(app, ["split", str(visits)]).output
    assert "--id COLUMN" in told and "only if every individual has one row" in told
    assert "one part only" not in told
