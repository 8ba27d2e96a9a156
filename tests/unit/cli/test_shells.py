"""Shells complete commands, options, names and files; those that are installed here are asked themselves."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from saibot.cli.completion import Shell

WAIT = 120


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell's: `saibot` is the one that is tested, and a table lies in the folder."""
    (tmp_path / "stays.csv").write_text("ward\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb"}


def said(shell: str, script: str, environment: dict[str, str]) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = [shell, *(["--norc"] if shell == "bash" else ["-N"]), "-c", script]
    return [line.partition("\t")[0] for line in run(words, environment).splitlines()]


def run(words: list[str], environment: dict[str, str]) -> str:
    folder = environment["HOME"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=WAIT)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", list(Shell))
def test_what_is_printed_asks_saibot_in_the_way_it_answers(shell: Shell, environment: dict[str, str]) -> None:
    script = run(["saibot", "completion", shell], environment)
    assert f"_SAIBOT_COMPLETE=complete_{shell}" in script
    line = (
        {"COMP_WORDS": "saibot\npri", "COMP_CWORD": "1"} if shell is Shell.BASH else {"_TYPER_COMPLETE_ARGS": "saibot pri"}
    )
    asked = environment | line | {"_SAIBOT_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    answered = run(["saibot"], asked)
    assert "privatize" in answered and "publish" not in answered


@pytest.mark.parametrize(
    ("typed", "there"),
    [
        (("pri",), ["privatize"]),
        (("privatize", "--mech"), ["--mechanism"]),
        (("privatize", "--mechanism", ""), ["fpm", "fpm-opt", "joint"]),
    ],
)
def test_bash_and_fish_complete(environment: dict[str, str], typed: tuple[str, ...], there: list[str]) -> None:
    words = " ".join(f"'{word}'" for word in typed)
    asks = (
        f"COMP_WORDS=(saibot {words}); COMP_CWORD={len(typed)}; _saibot_completion saibot; printf '%s\\n' ${{COMPREPLY[@]}}"
    )
    assert said("bash", f"source <(saibot completion bash); {asks}", environment) == there
    asks = f"complete -C 'saibot {' '.join(typed)}'"
    assert said("fish", f"saibot completion fish | source; {asks}", environment) == there


def test_fish_completes_files_where_a_table_goes(environment: dict[str, str]) -> None:
    asks = "saibot completion fish | source; complete -C 'saibot publish sta'"
    assert said("fish", asks, environment) == ["stays.csv"]


@pytest.mark.parametrize(
    ("typed", "line"), [("privatize --mech", "privatize --mechanism"), ("publish sta", "publish stays.csv")]
)
def test_zsh_completes_on_the_key(environment: dict[str, str], typed: str, line: str) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(environment["HOME"])
        os.execve(zsh, ["zsh", "-f", "-i"], environment)
    try:
        start = "PS1=; autoload -Uz compinit; compinit -u -D; source <(saibot completion zsh); echo RE''ADY\n"
        os.write(terminal, start.encode())
        read_until(terminal, "READY")
        os.write(terminal, f"saibot {typed}\t".encode())
        read_until(terminal, line)
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def read_until(terminal: int, wanted: str) -> None:
    """What the terminal shows by then; escapes that only move or colour are of no interest."""
    shown, end = "", time.monotonic() + WAIT
    while wanted not in shown.replace("\x08", "").replace("\r", ""):
        assert time.monotonic() < end, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
