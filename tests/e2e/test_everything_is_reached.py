"""No module is there for its own tests alone: a story by command, by Python and by page calls something of every one.

Demo and audit take a minute more; they are told in the long form (make test-full, or make reached for this alone).
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(900)
HERE = Path(__file__).parent / "reached"
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "saibot"
PARTS = ("at_home", "on_a_platform", "by_python")
LONGER = {"demo": ("demo/", "cli/demo.py"), "audit": ("audit/", "cli/audit.py")}  # of the long form: what they reach
REGISTERS = {"add_to"}  # what every command calls to be listed, whether anybody types it or not
UNREACHED = {  # modules that the story does not reach, and why they stay
    "audit/minimise.py": "makes a counterexample small, and there is none: tests/audit/test_pairs.py breaks the noise",
    "semiring/errors.py": "tells programmers of names and orders that cards refuse before: tests/unit/semiring",
}


def functions_of(module: Path) -> set[str]:
    """The qualified names of all functions that a module defines, methods and inner ones included."""

    def walk(node: ast.AST, inside: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if child.name not in REGISTERS:
                    yield inside + child.name
                yield from walk(child, f"{inside}{child.name}.<locals>.")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{inside}{child.name}.")
            else:
                yield from walk(child, inside)

    return set(walk(ast.parse(module.read_text(encoding="utf-8")), ""))


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory, full: bool) -> dict[str, set[str]]:
    """Per module, the functions that were called while the story was told, in whatever process."""
    folder = tmp_path_factory.mktemp("reached")
    notes = folder / "notes"
    paths = [str(HERE), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    noted = {"PYTHONPATH": os.pathsep.join(paths), "SAIBOT_REACHED": str(notes), "SAIBOT_REACHED_PACKAGE": str(PACKAGE)}
    told = [
        subprocess.Popen(
            [sys.executable, str(HERE / "story.py"), part, str(folder / part)],
            env=os.environ | noted,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for part in (*PARTS, *(LONGER if full else ()))
    ]
    try:
        said = [part.communicate()[0] for part in told]
    finally:
        for part in told:
            part.kill()
    assert [part.returncode for part in told] == [0] * len(told), "\n".join(said)
    found: dict[str, set[str]] = {}
    for line in notes.read_text(encoding="utf-8").splitlines():
        path, name = line.split("\t")
        found.setdefault(str(Path(path).relative_to(PACKAGE)), set()).add(name)
    return found


def test_the_story_calls_something_of_every_module(called, full):
    later = () if full else sum(LONGER.values(), ())
    missed = []
    for module in sorted(PACKAGE.rglob("*.py")):
        name, functions = str(module.relative_to(PACKAGE)), functions_of(module)
        if functions and not functions & called.get(name, set()) and name not in UNREACHED and not name.startswith(later):
            missed.append(name)
    assert missed == []


def test_every_exception_is_a_module_that_is_there_and_is_not_reached(called):
    for name in UNREACHED:
        assert (PACKAGE / name).is_file()
        assert not functions_of(PACKAGE / name) & called.get(name, set()), f"{name} is reached: it needs no exception"


def test_processes_that_the_story_starts_count(called):
    assert "main" in called["platform/jobs/worker.py"]
    assert "Moments.gram" in called["semiring/moments.py"]


def test_a_module_that_nobody_calls_would_be_found(called, tmp_path):
    dead = tmp_path / "dead.py"
    dead.write_text("class A:\n    def method(self):\n        def inner(): ...\n\ndef add_to(app): ...\n")
    assert functions_of(dead) == {"A.method", "A.method.<locals>.inner"}
