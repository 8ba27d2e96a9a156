"""`saibot plan`: what it prints without a table is what `saibot privatize` does with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from saibot.cli.app import app

CARD = """
[dataset]
name = "wards"
neighbours = "replace-one"
[features.age]
bounds = [0, 100]
[keys.ward]
domain = { values = [%s], id = "wards" }
[keys.day]
domain = { dates = ["2013-01-01", "2013-03-31"] }
levels = ["month"]
"""


def printed(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "wards.toml").write_text(CARD % ", ".join(f'"w{i}"' for i in range(40)))
    (tmp_path / "wards.csv").write_text(
        "ward,day,age\n" + "".join(f"w{i % 40},2013-01-0{1 + i % 9},{i}\n" for i in range(80))
    )
    return tmp_path / "wards.csv"


@pytest.mark.parametrize(
    "key, sizes, levels, layout", [("ward", "40", 1, "lookup"), ("ward", "40", 1, "semiring"), ("day", "90,3", 2, "lookup")]
)
def test_a_plan_without_a_table_is_the_plan_of_its_release(
    table: Path, key: str, sizes: str, levels: int, layout: str
) -> None:
    """Every key level has a catch-all besides the keys of its domain: it counts in both."""
    facts = ["--keys", sizes, "--levels", levels, "--rows", 80, "--neighbours", "replace-one"]
    planned = printed("plan", *facts, "--layout", layout)
    released = printed("privatize", table, "--key", key, "--layout", layout, "--dry-run")
    assert planned["request"] == released["plan"]["request"]
    assert planned["blocks"] == released["plan"]["blocks"] and planned["events"] == released["events"]
