"""Individuals privatise their own row, each on their own machine; somebody who sees no row adds their reports up."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.client import Provider, Requester
from saibot.embedded import embedded
from saibot.sketch import read_sketch
from tests.support import shell

CARD = """
[dataset]
name = "commuters"
individual = "one commuter"
neighbours = "replace-one"
[budget]
cap = { epsilon = "2", delta = "1e-6" }
[features.minutes]
bounds = [0, 120]
[features.mode]
levels = ["bike", "train"]
[keys.town]
domain = { values = ["north", "south", "west"], id = "towns" }
"""
ASKED = ("--card", "commuters.toml", "--key", "town", "--epsilon", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "commuters.toml").write_text(CARD)
    (tmp_path / "bert.csv").write_text("name,minutes,mode,town\nBert,35,train,south\n")
    (tmp_path / "clara.json").write_text(json.dumps({"minutes": 50, "mode": None, "town": "west"}))
    return tmp_path


def run(*arguments: object, cwd: Path, person: str = "collector") -> subprocess.CompletedProcess[str]:
    return shell.run(*arguments, cwd=cwd, home=f"home of {person}")


def contributed(cwd: Path, person: str, *row: object) -> dict[str, Any]:
    done = run("contribute", *row, *ASKED, "--out", f"reports/{person}.saibot", "--json", cwd=cwd, person=person)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def collected(folder: Path) -> Path:
    contributed(folder, "anna", "--value", "minutes=20", "--value", "mode=bike", "--value", "town=north")
    contributed(folder, "bert", "bert.csv")
    contributed(folder, "clara", "clara.json")
    done = run("collect", "reports", "--out", "commuters.saibot", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "3 reports" in done.stdout
    return folder / "commuters.saibot"


def test_individuals_contribute_and_what_is_collected_is_shown_packed_and_searched(folder: Path) -> None:
    sketch = read_sketch(collected(folder))
    assert sketch.header.model == "local" and sketch.header.rows == 3
    assert not (folder / "home of collector").exists()  # no row, no ledger
    for person in ("anna", "bert", "clara"):
        books = json.loads(run("ledger", "--json", cwd=folder, person=person).stdout)["accounts"]
        assert [one["dataset"] for one in books] == ["commuters"] and 0.9 < books[0]["spent_epsilon"] <= 1
    shown = run("inspect", "commuters.saibot", cwd=folder)
    assert shown.returncode == 0 and "3 reports" in shown.stdout
    packed = run("pack", "corpus", "commuters.saibot", cwd=folder)
    assert packed.returncode == 0 and "packed commuters.saibot" in packed.stdout, packed.stderr
    lines = [f"{['north', 'south', 'west'][i % 3]},{i % 7}" for i in range(60)]
    (folder / "mine.csv").write_text("\n".join(["town,cost", *lines]) + "\n")
    (folder / "towns.csv").write_text("town\nnorth\nsouth\nwest\n")
    found = run(
        *("search", "--corpus", "corpus", "--train", "mine.csv", "--target", "cost", "--key", "town"),
        *("--domain", "towns.csv", "--domain-id", "towns", "--json"),
        cwd=folder,
    )
    assert found.returncode == 0, found.stderr
    assert "commuters" in found.stdout


def test_a_platform_takes_what_was_collected(folder: Path, tmp_path: Path, saibot_home: Path) -> None:
    sketch = read_sketch(collected(folder))
    with embedded(tmp_path / "platform") as platform:
        provider = Provider(platform.as_account("collector", ["provider"]), saibot_home)
        provider.publish(sketch, card=folder / "commuters.toml")
        (listed,) = provider.datasets()
        assert listed.name == "commuters"
        requester = Requester(platform.as_account("town-hall", ["requester"]), saibot_home, cache=tmp_path / "cache")
        own = pd.DataFrame({"town": np.resize(["north", "south", "west"], 90), "cost": np.arange(90.0) % 7})
        assert requester.search(own[:60], own[60:], target="cost", key="town", local=True).result.candidates


def test_the_same_report_again_is_the_same_file_and_free(folder: Path) -> None:
    first = contributed(folder, "bert", "bert.csv")
    again = contributed(folder, "bert", "bert.csv")
    assert again["repeated"] and again["digest"] == first["digest"] and again["charged"]["epsilon"] == "0"


def test_reports_have_names_of_their_own_so_that_a_folder_can_hold_them(folder: Path) -> None:
    for person in ("bert", "doris"):
        done = run("contribute", "bert.csv", *ASKED, cwd=folder, person=person)
        assert done.returncode == 0 and "charged your ledger" in done.stdout, done.stderr
    assert len(list(folder.glob("commuters-town-report-*.saibot"))) == 2


SECRET = "SECRET-4711"


@pytest.mark.parametrize(
    "row, said",
    [
        (("two.csv",), "more than one row"),
        ((), "whose row?"),
        (("bert.csv", "--value", "minutes=5"), "whose row?"),
        (("--value", f"{SECRET}=minutes"), "does not begin with a column"),
        (("--value", "minutes=5", "--value", f"minutes={SECRET}"), "given twice"),
        (("--value", f"minutes={SECRET}", "--value", "mode=bike", "--value", "town=west"), "no number"),
        (("--value", "minutes=5", "--value", f"mode={SECRET}"), "no cell for column 'town'"),
    ],
)
def test_what_is_not_one_own_row_is_refused_without_a_cell_and_costs_nothing(
    folder: Path, row: tuple[str, ...], said: str
) -> None:
    (folder / "two.csv").write_text(f"minutes,mode,town\n5,bike,{SECRET}\n6,train,north\n")
    done = run("contribute", *row, *ASKED, cwd=folder, person="anna")
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert SECRET not in done.stderr and len(done.stderr.strip().splitlines()) <= 2
    assert not list(folder.glob("*.saibot"))
    assert json.loads(run("ledger", "--json", cwd=folder, person="anna").stdout)["accounts"] == []


def test_a_provider_cannot_take_the_whole_table_for_the_local_model(folder: Path) -> None:
    done = run("privatize", "bert.csv", *ASKED, "--per-tuple", cwd=folder)
    assert done.returncode == 2 and "--per-tuple" in done.stderr


def test_collecting_the_same_report_twice_is_refused_and_writes_nothing(folder: Path) -> None:
    contributed(folder, "bert", "bert.csv")
    (folder / "reports" / "copy.saibot").write_bytes((folder / "reports" / "bert.saibot").read_bytes())
    done = run("collect", "reports", "--out", "all.saibot", cwd=folder)
    assert done.returncode == 1 and "the same report as" in done.stderr
    assert not (folder / "all.saibot").exists()
