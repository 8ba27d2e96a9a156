"""The provider's commands as a person types them: real processes, real files, real ledger."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from saibot.privacy.ledger import Ledger
from tests.support.shell import SAIBOT, run

CARD = """
[dataset]
name = "clinic"
individual = "one patient"
neighbours = "replace-one"
[budget]
cap = { epsilon = "2", delta = "1e-6" }
[features.age]
bounds = [0, 100]
unit = "year"
[features.stay]
bounds = [0, 30]
[keys.ward]
column = "ward"
domain = { values = ["A", "B", "C", "D"], id = "wards" }
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    lines = ["ward,age,stay"] + [f"{'ABC'[i % 3]},{20 + i % 60},{i % 14}" for i in range(900)]
    (tmp_path / "clinic.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "clinic.toml").write_text(CARD)
    return tmp_path


def spent(folder: Path) -> float:
    found = json.loads(run("ledger", "--json", cwd=folder).stdout)["accounts"]
    return found[0]["spent_epsilon"] if found else 0.0


def test_a_provider_gets_from_a_table_to_a_sketch_and_sees_what_it_says(clinic):
    done = run("privatize", "clinic.csv", "--key", "ward", cwd=clinic)
    assert done.returncode == 0, done.stderr
    assert "charged clinic" in done.stdout
    shown = run("inspect", "clinic-ward.saibot", cwd=clinic)
    assert shown.returncode == 0, shown.stderr
    for expected in ("clinic", "replace-one", "age", "private profile", "900 (public)"):
        assert expected in shown.stdout
    assert 0.9 < spent(clinic) <= 1.0


def test_json_output_is_one_document_and_nothing_else(clinic):
    for command in (
        ("plan", "--json"),
        ("privatize", "clinic.csv", "--key", "ward", "--dry-run", "--json"),
        ("privatize", "clinic.csv", "--key", "ward", "--json"),
        ("inspect", "clinic-ward.saibot", "--json"),
        ("ledger", "--json"),
    ):
        done = run(*command, cwd=clinic)
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)
        assert done.stderr == ""


def test_the_same_release_again_costs_nothing_and_gives_the_same_file(clinic):
    run("privatize", "clinic.csv", "--key", "ward", cwd=clinic)
    first, before = (clinic / "clinic-ward.saibot").read_bytes(), spent(clinic)
    again = run("privatize", "clinic.csv", "--key", "ward", cwd=clinic)
    assert "at no further cost" in again.stdout
    assert (clinic / "clinic-ward.saibot").read_bytes() == first
    assert spent(clinic) == before


def test_a_dry_run_charges_and_writes_nothing(clinic):
    done = run("privatize", "clinic.csv", "--key", "ward", "--dry-run", cwd=clinic)
    assert done.returncode == 0, done.stderr
    assert spent(clinic) == 0
    assert not list(clinic.glob("*.saibot"))


def test_init_writes_a_card_without_looking_at_a_value(clinic):
    (clinic / "clinic.toml").unlink()
    done = run("init", "clinic.csv", cwd=clinic)
    assert done.returncode == 0, done.stderr
    text = (clinic / "clinic.toml").read_text()
    assert "# age = { bounds = [FILL, FILL] }" in text and "# ward = { levels" in text
    assert "79" not in text  # the largest age
    assert "ward, age, stay" in done.stdout and "become public" in done.stdout
    undecided = run("privatize", "clinic.csv", cwd=clinic)
    assert undecided.returncode == 1 and "still says FILL" in undecided.stderr and spent(clinic) == 0
    text = text.replace('individual = "FILL"', 'individual = "one patient"').replace("individual = FILL", "individual = 1")
    (clinic / "clinic.toml").write_text(text)
    undecided = run("privatize", "clinic.csv", cwd=clinic)
    assert undecided.returncode == 1 and "no feature yet" in undecided.stderr and spent(clinic) == 0
    (clinic / "clinic.toml").write_text(text.replace("# age = { bounds = [FILL, FILL]", "age = { bounds = [0, 100]"))
    filled = run("privatize", "clinic.csv", cwd=clinic)
    assert filled.returncode == 0, filled.stderr


def test_init_takes_no_row_for_a_heading(clinic):
    (clinic / "plain.csv").write_text("SECRET,4711,2013-01-30\nB,21,2013-01-31\n")
    done = run("init", "plain.csv", cwd=clinic)
    assert done.returncode == 1 and "does not look like the names" in done.stderr and "--header-is-names" in done.stderr
    assert not any(cell in done.stdout + done.stderr for cell in ("SECRET", "4711", "2013"))
    assert not (clinic / "plain.toml").exists()
    vouched = run("init", "plain.csv", "--header-is-names", "--json", cwd=clinic)
    assert vouched.returncode == 0, vouched.stderr
    assert json.loads(vouched.stdout)["names_from_first_line"] == ["SECRET", "4711", "2013-01-30"]
    assert "become public" in vouched.stderr and (clinic / "plain.toml").exists()


@pytest.mark.parametrize("answer, code", [("y", 0), ("n", 1)])
def test_init_asks_on_a_terminal_whether_words_are_names(clinic, answer, code):
    (clinic / "plain.csv").write_text("anna,north\nbert,south\n")
    ours, theirs = pty.openpty()
    environment = os.environ | {"SAIBOT_HOME": str(clinic / "home"), "COLUMNS": "160"}
    process = subprocess.Popen(
        [*SAIBOT, "init", "plain.csv"], cwd=clinic, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    said = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while more := os.read(ours, 4096):
            said += more
    assert process.wait(timeout=120) == code
    assert b"anna, north" in said and said.count(b"Are these the names") == 1
    assert (clinic / "plain.toml").exists() == (code == 0)
    os.close(ours)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--feature", "weight=0:200"), "no column 'weight'"),
        (("--feature", "ward=0:5"), "no cell of column 'ward' reads as a number"),
        (("--feature", "age=100:0"), "upside down"),
        (("--epsilon", "0"), "epsilon must be greater than 0"),
        (("--delta", "1"), "delta must be at least 0 and less than 1"),
        (("--mechanism", "fpm", "--epsilon", "2"), "classical Gaussian is proved for epsilon <= 1 only"),
        (("--key", "room"), "no key 'room'"),
        (("--epsilon", "3"), "is left of its cap"),
        (("--layout", "semiring"), "needs a key"),
        (("--neighbours", "add-one"), "replace-one or add-remove"),
        (("--bound", "-1"), "--bound must be greater than 0"),
    ],
)
def test_bad_input_gets_a_clear_line_and_changes_nothing(clinic, arguments, said):
    done = run("privatize", "clinic.csv", *arguments, cwd=clinic)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert spent(clinic) == 0
    assert not list(clinic.glob("*.saibot"))


def test_the_shell_assumes_no_neighbours_either(clinic):
    (clinic / "clinic.toml").write_text(CARD.replace('neighbours = "replace-one"\n', ""))
    done = run("privatize", "clinic.csv", "--key", "ward", cwd=clinic)
    assert done.returncode == 1 and "neighbouring table" in done.stderr and "[dataset]" in done.stderr
    assert spent(clinic) == 0 and not list(clinic.glob("*.saibot"))
    said = run("privatize", "clinic.csv", "--key", "ward", "--neighbours", "replace-one", cwd=clinic)
    assert said.returncode == 0 and "under replace-one" in said.stdout


def test_an_empty_table_and_a_missing_one_are_refused(clinic):
    (clinic / "empty.csv").write_text("ward,age,stay\n")
    for table, said in (("empty.csv", ""), ("nowhere.csv", "there is no table")):
        done = run("privatize", table, "--card", "clinic.toml", "--key", "ward", cwd=clinic)
        assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr
    assert spent(clinic) == 0


def test_a_sketch_that_was_tampered_with_is_refused(clinic):
    run("privatize", "clinic.csv", "--key", "ward", cwd=clinic)
    path = clinic / "clinic-ward.saibot"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"epsilon":"1"', b'"epsilon":"9"'))
    done = run("inspect", path, cwd=clinic)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    path.write_bytes(content[: len(content) // 2])
    done = run("inspect", path, cwd=clinic)
    assert done.returncode == 1 and "clinic-ward.saibot" in done.stderr and "cut off or damaged" in done.stderr


def test_a_table_that_was_taken_for_a_sketch_is_named_and_the_way_to_a_sketch_told(clinic):
    done = run("inspect", "clinic.csv", cwd=clinic)
    assert done.returncode == 1 and "clinic.csv is not a sketch file" in done.stderr
    assert "`saibot privatize TABLE`" in done.stderr


def test_ctrl_c_in_the_middle_leaves_a_ledger_that_says_what_was_spent(clinic):
    """A big domain keeps the noise busy for a while; the charge is taken before the first draw."""
    card = (
        (clinic / "clinic.toml")
        .read_text()
        .replace('domain = { values = ["A", "B", "C", "D"], id = "wards" }', "domain = { range = [1, 3000000] }")
    )
    (clinic / "clinic.toml").write_text(card)
    environment = os.environ | {"SAIBOT_HOME": str(clinic / "home")}
    command = [*SAIBOT, "privatize", "clinic.csv", "--key", "ward", "--yes"]  # no row has a key of that domain
    process = subprocess.Popen(
        command, cwd=clinic, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 150
    ledger = Ledger(clinic / "home")
    while not ledger.accounts() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    assert ledger.accounts(), "nothing was charged within two and a half minutes"
    assert process.poll() is None, "the release finished before it could be interrupted"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stays charged" in said
    account = json.loads(run("ledger", "clinic", "--json", cwd=clinic).stdout)["accounts"][0]
    assert [entry["state"] for entry in account["releases"]] == ["spent, nothing released"]
    assert not list(clinic.glob("*.saibot"))


def test_every_command_has_help_that_says_what_it_does(tmp_path):
    listed = run("--help", cwd=tmp_path).stdout
    for command in ("demo", "init", "plan", "privatize", "inspect", "ledger", "split", "audit", "bench"):
        assert command in listed
        done = run(command, "--help", cwd=tmp_path)
        assert done.returncode == 0 and len(done.stdout) > 200


def test_help_loads_none_of_the_heavy_libraries(tmp_path):
    code = (
        "import sys\nfrom saibot.cli.app import app\nfrom typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "heavy = [m for m in ('opendp', 'sklearn', 'scipy', 'duckdb', 'ibis', 'pandas', 'numba') if m in sys.modules]\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=60)


def test_wrong_usage_exits_with_two(tmp_path):
    assert run("plan", "--features", "many", cwd=tmp_path).returncode == 2
    assert run("nonsense", cwd=tmp_path).returncode == 2
