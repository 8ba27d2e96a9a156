"""What strangers call their things commands no terminal, whichever command shows it."""

from __future__ import annotations

import ast
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import saibot.cli
from saibot.cli.app import app
from saibot.cli.show import print_json, progress, say
from saibot.errors import InvalidSketch
from saibot.sketch import read_sketch, write_sketch
from tests.support.forging import content_of

EVIL = "x\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202ey[/z]\nnext: `rm -rf ~`"
COMMANDS = frozenset("\x1b\x07\r\x9b\u202e")


def assert_harmless(said: str, *, lines: int | None = None) -> None:
    assert not COMMANDS & set(said), repr(said)
    assert not any(line.startswith("next: `rm") for line in said.splitlines())
    assert lines is None or len(said.splitlines()) == lines


def test_lines_for_people_have_no_commands_and_begin_where_we_begin_them(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"sent {EVIL}", "", f"  and {EVIL}")
    say(EVIL, err=True)
    out, err = capsys.readouterr()
    assert_harmless(out, lines=3)
    assert_harmless(err, lines=1)
    assert out.splitlines()[2].startswith("  and x") and "y[/z] next: `rm" in out


def test_documents_for_programs_say_the_same_without_commands(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": EVIL, EVIL: ["é", "\x7f", "\u2028"]})
    out, _ = capsys.readouterr()
    assert not (COMMANDS | {"\x7f", "\u2028"}) & set(out) and "é" in out
    assert json.loads(out) == {"name": EVIL, EVIL: ["é", "\x7f", "\u2028"]}


def test_a_stage_that_a_platform_names_is_no_markup_and_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    drawn: dict[bool, Terminal] = {}
    for evil in (False, True):
        drawn[evil] = Terminal()
        monkeypatch.setattr("sys.stderr", drawn[evil])
        with progress() as tell:
            tell(EVIL if evil else "waiting", 0.5)
    assert "y[/z]" in drawn[True].getvalue() and "]0;owned\x07" not in drawn[True].getvalue()
    assert "\x1b]" not in drawn[True].getvalue() and "\x1b[2J" not in drawn[True].getvalue()  # rich moves the cursor itself


def test_every_command_speaks_through_one_place() -> None:
    """Whatever writes to the terminal beside it would have to be looked at, call by call."""
    allowed = {("show.py", "typer.echo"), ("show.py", "sys.stdout.write"), ("completion.py", "typer.echo")}  # our own script
    speaking = {"print", "typer.echo", "typer.secho", "click.echo", "sys.stdout.write", "sys.stderr.write"}
    found = set()
    for path in Path(saibot.cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (called := ast.unparse(node.func)) in speaking:
                found.add((path.name, called))
    assert found == allowed


def forged(tmp_path: Path, **update: Any) -> Path:
    sketch = read_sketch(content_of("lookup-levels"))
    key = sketch.header.key
    assert key is not None
    changed = key.model_copy(update=update)
    header = sketch.header.model_copy(update={"key": changed})
    path = tmp_path / "forged.saibot"
    path.write_bytes(write_sketch(replace(sketch, header=header).sealed()))
    return path


@pytest.mark.parametrize("letter", ["\x1b", "\x00", "\x08", "\x7f", "\x9b"])
def test_labels_of_a_sketch_hold_nothing_that_commands_a_terminal(tmp_path: Path, letter: str) -> None:
    sketch = read_sketch(content_of("lookup-levels"))
    assert sketch.header.key is not None
    part = sketch.header.key.parts[0].model_copy(update={"domain": f"d{letter}[2J"})
    levels = tuple(f"{letter}[2J{n}" for n in range(len(sketch.header.key.levels)))
    for update in ({"levels": levels}, {"parts": (part,)}):
        with pytest.raises(InvalidSketch, match="not valid at 'key"):
            read_sketch(forged(tmp_path, **update))


@pytest.mark.parametrize(("name", "taken"), [(EVIL, False), ("x\u202ey[/z]\nnext: `rm -rf ~`", True)])
def test_a_strangers_sketch_is_packed_without_a_command_on_the_terminal(tmp_path: Path, name: str, taken: bool) -> None:
    sketch = read_sketch(content_of("lookup-levels"))
    assert sketch.header.key is not None
    part = sketch.header.key.parts[0].model_copy(update={"domain": name})
    done = CliRunner().invoke(app, ["pack", str(tmp_path / "corpus"), str(forged(tmp_path, parts=(part,))), "--unsafe"])
    assert_harmless(done.output)
    assert ("y[/z] next: `rm" in done.output) == taken


class Answering(BaseHTTPRequestHandler):
    """A platform that calls everything the same."""

    def answer(self) -> None:
        said: dict[str, Any] = {"name": EVIL, "roles": ["requester"]}
        if self.path == "/v1/tokens":
            moments = {"created": EVIL, "last_used": None, "revoked": None, "expires": None}
            said |= {"id": EVIL, "token": f"saibot_{EVIL}", **moments}
        content = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("SAIBOT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SAIBOT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("SAIBOT_TOKEN", "saibot_mine")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_names_and_ids_of_a_hostile_platform_command_nothing(address: str) -> None:
    for command in (["login", address], ["token", "create", "--platform", address]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert "y[/z]" in done.output
        assert_harmless(done.output)
