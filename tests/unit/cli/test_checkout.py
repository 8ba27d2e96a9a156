"""Research code is found in a checkout, and its absence is told in one line; the package itself never needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from saibot.cli import checkout
from saibot.cli.app import app
from saibot.errors import SaibotError


def test_research_is_found_beside_the_sources_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(checkout.PACKAGE.parents[1])
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in (root, "", ".")])
    checkout.find_research("saibot reproduce")
    checkout.find_research("saibot reproduce")
    assert sys.path[0] == root and sys.path.count(root) == 1


@pytest.mark.parametrize("place", ["lib/python3/site-packages/saibot", "src/saibot"])
def test_outside_a_checkout_the_command_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setattr(checkout, "PACKAGE", tmp_path / place)
    with pytest.raises(SaibotError, match="not part of the installed package") as caught:
        checkout.find_research("saibot bench")
    assert "from a checkout of the repository" in str(caught.value.hint)


@pytest.mark.parametrize("words", [["reproduce", "fig12a"], ["bench", "privatize"], ["bench", "search"], ["bench", "pages"]])
def test_a_wheel_refuses_figures_and_benchmarks_before_it_does_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.setattr(checkout, "PACKAGE", tmp_path / "site-packages" / "saibot")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code != 0 and isinstance(done.exception, SaibotError) and "checkout" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_no_command_loads_research_before_it_is_asked_to() -> None:
    """Otherwise nothing at all would start where only the package is installed."""
    code = "import sys, saibot.cli.app; assert not [name for name in sys.modules if name.split('.')[0] == 'research']"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_wheel_holds_the_package_alone_and_a_source_archive_research_too() -> None:
    import tomllib

    with (checkout.PACKAGE.parents[1] / "pyproject.toml").open("rb") as file:
        build = tomllib.load(file)["tool"]["hatch"]["build"]
    beside = {"docs/reference/saibot.1": "share/man/man1/saibot.1", "deploy/saibot.service": "share/saibot/saibot.service"}
    assert build["targets"]["wheel"] == {"packages": ["src/saibot"], "shared-data": beside}
    assert {"/src", "/research", "/sitebuild", "/tests"} <= set(build["targets"]["sdist"]["include"])
    assert build["artifacts"] == ["src/saibot/platform/pages/help.zip"], "in both: the wheel is built from the archive"
