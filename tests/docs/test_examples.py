"""Every example runs as a stranger would run it, and every notebook cell after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__notebook__"}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"), names)
            assert cell["outputs"] == [], "notebooks are kept without outputs"
    assert names["found"].columns == ("clinic-stays.nights",)  # type: ignore[attr-defined]
    assert names["remaining"] == []
