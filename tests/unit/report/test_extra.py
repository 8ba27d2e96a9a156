"""Reports need the extra `report` and nothing of a platform; without it an error names it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., dict[str, Any]]
PLATFORM = (
    "fastapi",
    "starlette",
    "sqlalchemy",
    "alembic",
    "uvicorn",
    "pydantic_settings",
    "structlog",
    "matplotlib",
    "altair",
)


def run_without(packages: tuple[str, ...], *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`saibot COMMAND` in a process where these packages cannot be imported."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({packages!r})); sys.argv = {['saibot', *command]!r}; "
        "from saibot.cli import main; main()"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder(result_document: Make, tmp_path: Path) -> Path:
    (tmp_path / "result.json").write_text(json.dumps(result_document()))
    return tmp_path


BEGINNINGS = {
    "found.html": b"<!doctype html>",
    "found.png": b"\x89PNG",
    "found.svg": b"<svg",
    "found.csv": b"\xef\xbb\xbfrank,",
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_reports_pictures_and_tables_are_made_without_a_platforms_packages(folder: Path, name: str) -> None:
    done = run_without(PLATFORM, "report", "result.json", "--out", name, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / name).read_bytes().startswith(BEGINNINGS[name])


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
def test_without_the_extra_an_error_names_it_and_nothing_is_written(folder: Path, package: str) -> None:
    done = run_without((package,), "report", "result.json", "--out", "found.html", cwd=folder)
    assert done.returncode == 1 and not (folder / "found.html").exists()
    assert f"need the package '{package}'" in done.stderr and "pip install 'saibot[report]'" in done.stderr


def test_a_search_says_that_it_cannot_draw_before_it_reads_anything(tmp_path: Path) -> None:
    asked = ("search", "--train", "missing.csv", "--target", "y", "--corpus", "missing")
    for wanted in (("--report", "found.html"), ("--plot", "found.png")):
        done = run_without(("vl_convert",), *asked, *wanted, cwd=tmp_path)
        assert done.returncode == 1 and "saibot[report]" in done.stderr


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
def test_an_audit_says_that_it_cannot_draw_before_it_compares_anything(tmp_path: Path, package: str) -> None:
    done = run_without((package,), "audit", "--full", "--out", "found", cwd=tmp_path)
    assert done.returncode == 1 and "saibot[report]" in done.stderr and not (tmp_path / "found").exists()


def test_the_terminal_needs_no_extra(folder: Path) -> None:
    done = run_without((*PLATFORM, "jinja2", "markupsafe", "vl_convert"), "report", "result.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and "R² step by step" in done.stdout
