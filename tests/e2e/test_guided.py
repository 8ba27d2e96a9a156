"""From a CSV file to a sketch by hand: every answer typed in a terminal; and to a platform in one command line."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from saibot.sketch import read_sketch
from tests.support.shell import SAIBOT, run

SAID = ("--individual", "one patient", "--key", "ward", "--feature", "nights", "--epsilon", 1, "--out", "s.saibot")


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    ward = rng.integers(1, 31, 8000)
    nights = rng.gamma(2, 1 + ward / 15).round()
    patients = pd.DataFrame({"patient": [f"P{i:04d}" for i in range(8000)], "ward": ward, "nights": nights})
    patients.to_csv(tmp_path / "stays.csv", index=False)
    return tmp_path


def typed(folder: Path, *words: str, lines: list[str]) -> tuple[int, str]:
    """A command in a terminal of its own, with lines that a person types one after the other."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"SAIBOT_HOME": str(folder / "home"), "COLUMNS": "160"}
    process = subprocess.Popen([*SAIBOT, *words], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, "".join(f"{line}\n" for line in lines).encode())
    said = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while more := os.read(ours, 4096):
            said += more
    os.close(ours)
    return process.wait(timeout=120), said.decode()


ANSWERS = ["one patient", "1", "ward", "range:ward:1:30", "nights", ""]


def test_a_person_is_led_from_a_csv_to_a_sketch(clinic: Path) -> None:
    code, said = typed(clinic, "publish", "stays.csv", "--out", "s.saibot", lines=[*ANSWERS, "y"])
    assert code == 0, said
    assert "100 % of 8,000 rows have a key of the list" in said and "survives" in said
    assert said.count("Charge ε=1") == 1 and "charged stays" in said
    header = read_sketch(clinic / "s.saibot").header
    assert header.dataset.individual == "one patient" and header.preparation.kind == "bought"
    assert "P0" not in said  # cells of the table are on no screen


def test_whoever_says_no_is_charged_nothing(clinic: Path) -> None:
    code, said = typed(clinic, "publish", "stays.csv", "--out", "s.saibot", lines=[*ANSWERS, "n"])
    assert code == 1 and "nothing was charged" in said
    assert not (clinic / "s.saibot").exists() and not (clinic / "stays.toml").exists()
    assert "stays" not in run("ledger", cwd=clinic).stdout


def test_keys_of_the_wrong_list_are_told_before_anything_is_paid(clinic: Path) -> None:
    done = run("publish", "stays.csv", *SAID, "--domain", "range:ward:100:130", cwd=clinic)
    assert done.returncode == 1 and "no row has a key of the domain. Nothing was charged" in done.stderr
    assert "0 % of 8,000 rows" in done.stdout and "--yes" in done.stderr
    assert not (clinic / "s.saibot").exists()


def test_a_platform_that_does_not_answer_is_told_of_before_anything_is_paid(clinic: Path) -> None:
    words = [*SAID[:-2], "--domain", "range:ward:1:30", "--platform", "http://127.0.0.1:9"]
    done = run("publish", "stays.csv", *words, "--yes", cwd=clinic)
    assert done.returncode == 1 and "no platform answers" in done.stderr
    assert not (clinic / "stays.toml").exists() and "stays" not in run("ledger", cwd=clinic).stdout


def test_columns_that_would_be_noise_are_told_before_anything_is_paid(clinic: Path) -> None:
    words = [*SAID[:4], "--feature", "nights=0:1000000", *SAID[6:], "--domain", "range:ward:1:30"]
    done = run("publish", "stays.csv", *words, cwd=clinic)
    assert done.returncode == 1 and "nothing but noise would be left. Nothing was charged" in done.stderr
    assert run("publish", "stays.csv", *words, "--yes", cwd=clinic).returncode == 0
