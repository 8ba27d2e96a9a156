"""The code of a page, run as a reader would run it: block after block, in one folder, with one ledger and one platform.

A page's addresses are those of nobody; here they lead to a platform of this test. Shell blocks are run by bash as they
stand. A console block also says what a command prints: the same words have to come out, numbers apart, since noise is new
every time. Python blocks share their names. What a page needs beside its own blocks, its *world*, is made first.
"""

from __future__ import annotations

import ast
import configparser
import itertools
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from saibot.privatize import Card
from sitebuild.blocks import Block

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 280
ADDRESSES = ("http://127.0.0.1:8642", "http://platform.example:8642", "https://saibot.example.org")
TOKEN = "saibot_..."
# What a shell keeps from block to block is written down and read again. A platform is served in the background; `make` says
# what it would do.
PRELUDE = """
set -euo pipefail
[ -f "$STORY_STATE" ] && source "$STORY_STATE"
saibot() {
  if [ "$1" = serve ]; then
    command saibot "$@" --port "$STORY_PORT" > "$STORY_STATE.log" 2>&1 &
    for _ in $(seq 900); do curl -sf "http://127.0.0.1:$STORY_PORT/healthz" > /dev/null && return 0; sleep 0.1; done
    cat "$STORY_STATE.log" >&2; return 1
  fi
  command saibot "$@"
}
make() { command make -n -C "$STORY_ROOT" "$@" > /dev/null; }
"""
AFTERWARDS = """
{ export -p; echo "cd $(printf %q "$PWD")"; } > "$STORY_STATE"
"""


@dataclass
class PageStory:
    """Where a page's blocks are run, and what they have said and named so far."""

    folder: Path
    commands: Path  # a folder with the `saibot` to call
    address: str = ""  # of the platform, where the page needs one that is there before its first block
    token: str = ""
    port: int = field(default_factory=lambda: _free_port())
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    replace: dict[str, Callable[[], str]] = field(default_factory=dict)  # ids that a page makes up -> those of this story
    who: str = ""  # on whose machine the present block is typed
    _groups: list[int] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        plain = {name: text for name, text in os.environ.items() if not name.startswith("SAIBOT_")}
        own = {
            "SAIBOT_HOME": str(self.folder / "home" / self.who),
            "PATH": path,
            "COLUMNS": "98",
            "TERM": "xterm",
            "NO_COLOR": "1",
        }
        story = {
            "STORY_STATE": str(self.folder / f".state-{self.who}"),
            "STORY_PORT": str(self.port),
            "STORY_ROOT": str(ROOT),
        }
        return plain | own | story | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}

    def run(self, block: Block) -> None:
        self.who = block.who
        text = self._here(block.text)
        try:
            getattr(self, f"_run_{block.kind.lower()}")(text, block)
        except AssertionError as problem:
            raise AssertionError(f"{block.place}: {problem}") from None

    def close(self) -> None:
        for group in self._groups:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(group, number)
                except ProcessLookupError:
                    break
                time.sleep(0.3)

    def _here(self, text: str) -> str:
        """The block with the addresses and tokens of this story."""
        for address in ADDRESSES:
            text = text.replace(address, self.address or f"http://127.0.0.1:{self.port}")
        text = text.replace(TOKEN, self.token or TOKEN)
        for before, after in self.replace.items():
            text = text.replace(before, after()) if before in text else text
        return text

    # -------------------------------------------------------------------------------------------- shells

    def type(self, text: str, *, who: str = "") -> None:
        """Something that a world needs done in the shell before a page begins."""
        self.who = who
        done = self._bash(text)
        assert done.returncode == 0, done.stderr

    def spelled(self, text: str) -> str:
        """What bash has to say about a block that is not run; nothing where it could be."""
        return subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=PATIENCE).stderr

    def _run_shell(self, text: str, block: Block) -> None:
        done = self._bash(text)
        assert done.returncode == 0, f"exit status {done.returncode}\n{text}\n{done.stdout}\n{done.stderr}"

    def _bash(self, text: str) -> subprocess.CompletedProcess[str]:
        script = self.folder / ".block.sh"
        script.write_text(PRELUDE + text + AFTERWARDS)
        with (self.folder / ".out").open("w+") as out, (self.folder / ".err").open("w+") as err:
            # Files and not pipes: a platform in the background keeps them open.
            process = subprocess.Popen(
                ["bash", str(script)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            self._groups.append(process.pid)
            process.wait(PATIENCE)
            said = [(stream.seek(0), stream.read())[1] for stream in (out, err)]
        return subprocess.CompletedProcess(text, process.returncode, *said)

    def _run_console(self, text: str, block: Block) -> None:
        for command, shown in typed_commands(text):
            answers = [found[2] or "" for line in shown if (found := _PROMPT.match(line))]
            status, said = self._typed(command, answers)
            if not shown:
                assert status == 0, f"{command}\n{said}"
            missing = lines_missing(shown, said)
            assert not missing, f"{command}\ndoes not say: {missing}\nbut: {said}"

    def _typed(self, command: str, answers: list[str]) -> tuple[int, str]:
        """A command in a terminal, with what a person types."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, 98))
        script = self.folder / ".block.sh"
        script.write_text(PRELUDE + command + AFTERWARDS)
        process = subprocess.Popen(
            ["bash", str(script)],
            cwd=self.folder,
            env=self.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self._groups.append(process.pid)
        os.close(theirs)
        if answers:
            os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        said, until = b"", time.monotonic() + PATIENCE
        while time.monotonic() < until:
            over = process.poll() is not None  # asked first: what it says as it ends is still to be read
            ready, _, _ = select.select([ours], [], [], 0.2)
            try:
                more = os.read(ours, 1 << 16) if ready else b""
            except OSError:  # the other end is closed
                break
            said += more
            if not more and over:
                break
        status = process.wait(PATIENCE)
        os.close(ours)
        return status, said.decode(errors="replace").replace("\r\n", "\n")

    # -------------------------------------------------------------------------------------------- the others

    def _run_python(self, text: str, block: Block) -> None:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            with mock.patch.dict(os.environ, self.environment | self._exported()):
                exec(compile(text, block.place, "exec"), self.names)
        finally:
            os.chdir(here)

    def _exported(self) -> dict[str, str]:
        state = self.folder / f".state-{self.who}"
        lines = state.read_text().splitlines() if state.exists() else []
        found = (re.match(r'declare -x (SAIBOT_\w+)="(.*)"$', line) for line in lines)
        return {match[1]: match[2] for match in found if match}

    def _run_toml(self, text: str, block: Block) -> None:
        """A card, or parts of one; called like a file, it becomes that file."""
        document = tomllib.loads(text)
        if block.file:
            (self.folder / block.file).write_text(text)
        needed: dict[str, Any] = {"dataset": {"name": "parts", "individual": "one person", "neighbours": "replace-one"}}
        if "component" in document:
            needed["features"] = {name: {"bounds": [0, 1]} for name in document["component"]["of"]}
        elif "features" not in document:
            needed["features"] = {"size": {"bounds": [0, 1]}}
        Card.parse(needed | document)

    def _run_json(self, text: str, block: Block) -> None:
        json.loads(text)
        if block.file:
            (self.folder / block.file).write_text(text)

    def _run_ini(self, text: str, block: Block) -> None:
        configparser.ConfigParser(strict=False, interpolation=None).read_string(text)

    def _run_nginx(self, text: str, block: Block) -> None:
        plain = re.sub(r"#.*", "", text)
        assert plain.count("{") == plain.count("}")
        assert all(line.rstrip()[-1] in "{};" for line in plain.splitlines() if line.strip())

    def _run_signature(self, text: str, block: Block) -> None:
        ast.parse("def " + re.sub(r"^[\w.]*?(\w+)\(", r"\1(", text.strip()) + ": ...")

    def _run_words(self, text: str, block: Block) -> None:
        commands = [line for line in text.splitlines() if COMMAND.match(line) and "[OPTIONS]" not in line]
        assert not commands, f"this is code and should say so: {commands}"


# ------------------------------------------------------------------------------------------------ what is shown

COMMAND = re.compile(r"\s*(?:\$ )?(?:saibot|python3?|curl|pip|pipx|uvx|make|export|import|from \S+ import)\b(?![:.])")
_PROMPT = re.compile(r"^(\S[^?]*\?)(?: \[[^\]]*\]:?)?(?: (.*))?$")
_NUMBER = re.compile(r"(?:\b[a-z]?[0-9a-f]{10,}\b)|[-−+±]?\d[\d,.:]*(?:×10[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+|e-?\d+)?(?:\s*%)?")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def typed_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the lines that are shown below it."""
    command, shown = "", []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:] + "\n", []
        elif command.endswith("\\\n") and line.startswith("> "):
            command += line[2:] + "\n"
        else:
            shown.append(line)
    yield command, shown


def lines_missing(shown: list[str], said: str) -> list[str]:
    """Lines that a page shows and a command did not print, in this order; numbers may differ, and … stands for lines."""
    printed = "\n".join(_plain(line) for line in _COLOUR.sub("", said).splitlines())
    place = 0
    for line in shown:
        prompt = _PROMPT.match(line)
        wanted = _plain(prompt[1] if prompt else line)
        if wanted in ("", "…"):
            continue
        found = printed.find(wanted, place)
        if found < 0:
            return [line]
        place = found + len(wanted)
    return []


def _plain(line: str) -> str:
    words = re.sub(r"[─━]+", "", line)
    return re.sub(r"\s+", " ", _NUMBER.sub("#", words)).strip()


_ports = itertools.count(20_000 + os.getpid() * 37 % 11_000)


def _free_port() -> int:
    """Below those that a system gives to connections: until a block of the page listens there, nobody else is given it."""
    for port in _ports:
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
