"""Every example runs as a stranger would run it, and every notebook cell after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

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


def run_notebook(name: str) -> dict[str, Any]:
    """Every cell after the other; the names that it ends with."""
    names: dict[str, Any] = {"__name__": "__notebook__"}
    for cell in json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "notebooks are kept without outputs"
            exec(compile("".join(cell["source"]), f"{name}:{cell['id']}", "exec"), names)
    return names


def test_the_quickstart_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_notebook("quickstart.ipynb")
    assert names["found"].columns == ("clinic-stays.nights",)
    assert names["remaining"] == []


def test_the_pipeline_notebook_finds_what_helps_on_wards_it_has_not_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    with threadpool_limits(1):  # boosting on all cores at once is far slower where other tests run, too
        names = run_notebook("pipeline.ipynb")
    assert "clinic.nights" in names["found"].columns
    new = names["scores"]["new wards"]
    assert new["own features"] < 0.6 < 0.7 < new["private columns"]
    assert len(names["figure"].axes) == 2


def test_every_notebook_is_run_by_a_test():
    assert {path.name for path in EXAMPLES.glob("*.ipynb")} == {"quickstart.ipynb", "pipeline.ipynb"}
