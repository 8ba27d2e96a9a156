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
    "platform/shared_shards.py": "needs Postgres and a bucket: tests/contract/platform/test_several_servers.py has them",
    "privatize/engines/postgres.py": "needs a Postgres server: tests/contract/test_postgres_tables.py has one",
    "privatize/engines/spark.py": "needs Java and the extra `spark`: tests/contract/test_spark_tables.py",
    "report/extra.py": "speaks where the extra `report` is not installed: tests/unit/report/test_extra.py",
    "search/spark_sweep.py": "needs Java and the extra `spark`: tests/contract/test_spark_search.py",
    "search/gpu.py": "needs a GPU: `saibot bench search --engine gpu` compares it with the processor where there is one",
    "spark_session.py": "needs Java and the extra `spark`: tests/contract/test_spark_search.py",
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


def called_in(folder: Path, parts: tuple[str, ...]) -> dict[str, set[str]]:
    """Per module, the functions that were called while these parts of the story were told, in whatever process."""
    notes = folder / "notes"
    paths = [str(HERE), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    # Called PYTHON_...: workers get what is called so, and little else.
    noted = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHON_REACHED_NOTES": str(notes),
        "PYTHON_REACHED_PACKAGE": str(PACKAGE),
    }
    told = [
        subprocess.Popen(
            [sys.executable, str(HERE / "story.py"), part, str(folder / part)],
            env=os.environ | noted,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for part in parts
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


def test_a_story_calls_something_of_every_module(tmp_path, full):
    called = called_in(tmp_path, (*PARTS, *(LONGER if full else ())))
    functions = {str(module.relative_to(PACKAGE)): functions_of(module) for module in sorted(PACKAGE.rglob("*.py"))}
    later = () if full else sum(LONGER.values(), ())
    missed = [name for name in functions if functions[name] and not functions[name] & called.get(name, set())]
    assert [name for name in missed if name not in UNREACHED and not name.startswith(later)] == []
    assert set(UNREACHED) <= set(missed), "what is reached needs no exception, nor does what is gone"
    assert "main" in called["platform/jobs/worker.py"], "processes that the story starts count"


def test_functions_are_found_wherever_a_module_defines_them(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("class A:\n    def method(self):\n        def inner(): ...\n\ndef add_to(app): ...\n")
    assert functions_of(module) == {"A.method", "A.method.<locals>.inner"}
