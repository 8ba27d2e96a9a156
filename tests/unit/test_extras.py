"""Hints name a command that works: the extra exists and brings the package, and is installed as Saibot was."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from saibot import extras
from saibot.extras import MissingExtra, how_to_install, how_to_install_package

AS_BEFORE = " (with the same --find-links as before, if there was one)"
ROOT = Path(__file__).resolve().parents[2]
SOURCES = {path: path.read_text(encoding="utf-8") for path in (*ROOT.glob("src/**/*.py"), *ROOT.glob("research/**/*.py"))}
TOLD_TO_VISITORS = {"src/saibot/platform/pages/static_files.py"}  # who are not told where a server has its packages


def brought(extra: str) -> set[str]:
    """The distributions that `pip install 'saibot[extra]'` asks for, those of its own parts included."""
    found: set[str] = set()
    for line in requires("saibot") or ():
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            found |= set().union(*map(brought, one.extras)) if one.name == "saibot" else {canonicalize_name(one.name)}
    return found


def within(names: set[str]) -> set[str]:
    """With what those ask for in turn, as far as it is installed."""
    found, left = set(names), list(names)
    while left:
        try:
            lines = requires(left.pop()) or ()
        except PackageNotFoundError:
            continue
        new = {canonicalize_name(Requirement(line).name) for line in lines if "extra ==" not in line} - found
        found, left = found | new, [*left, *new]
    return found


@pytest.mark.parametrize("extra", sorted(extras._BRINGS))
def test_the_extra_that_is_named_brings_the_package(extra: str) -> None:
    there = within(brought(extra))
    known = packages_distributions()
    for package in extras._BRINGS[extra]:
        if package in known:
            assert {canonicalize_name(name) for name in known[package]} & there, package


def test_every_extra_that_a_hint_names_exists() -> None:
    named = {
        name
        for text in SOURCES.values()
        for said in re.findall(r"saibot\[([\w,]+)\]|how_to_install\(['\"](\w+)", text)
        for name in said
        if name
    }
    offered = {Requirement(line).marker for line in requires("saibot") or ()}
    there = {name for marker in offered if marker is not None for name in re.findall(r'extra == "(\w+)"', str(marker))}
    assert named and not named - there


def test_hints_ask_how_saibot_was_installed() -> None:
    """A command that is written down is wrong wherever pipx or uv installed it, or nobody activated the environment."""
    literal = {str(path.relative_to(ROOT)) for path, text in SOURCES.items() if re.search(r"=f?\"[^\"]*pip install", text)}
    assert literal == TOLD_TO_VISITORS


def test_extras_include_each_other_as_they_say() -> None:
    for whole, parts in extras._INCLUDES.items():
        assert all(brought(part) <= brought(whole) for part in parts)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in ("pip", "opendp", "fastapi") else "there")
    monkeypatch.setattr(extras, "_came_from", lambda: "")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return tmp_path


def test_pip_of_an_environment_that_is_not_active_is_named_by_its_place(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert how_to_install("fast") == f"{place}/bin/python -m pip install 'saibot[fast]'"
    monkeypatch.setenv("VIRTUAL_ENV", str(place))
    assert how_to_install("fast") == "pip install 'saibot[fast]'"


def test_pipx_and_uv_keep_the_extras_that_are_there(place: Path) -> None:
    has = "demo,fast,figures,maps,polars,postgres,vocabularies"
    (place / "pipx_metadata.json").touch()
    assert how_to_install("platform") == f"pipx install --force 'saibot[{has}]'{AS_BEFORE}"
    (place / "pipx_metadata.json").rename(place / "uv-receipt.toml")
    assert how_to_install("local") == f"uv tool install --reinstall 'saibot[{has}]'{AS_BEFORE}"


def test_a_package_of_others_goes_to_the_same_place(place: Path) -> None:
    assert how_to_install_package("pycountry==26.2.16") == f"{place}/bin/python -m pip install 'pycountry==26.2.16'"
    (place / "pyvenv.cfg").write_text("uv = 0.13\n")
    assert how_to_install_package("pycountry==26.2.16") == f"uv pip install --python {place} 'pycountry==26.2.16'"
    (place / "pipx_metadata.json").touch()
    assert how_to_install_package("pycountry==26.2.16") == "pipx inject --force saibot 'pycountry==26.2.16'"


def test_what_came_from_a_file_is_installed_from_it_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_came_from", lambda: " @ file:///tmp/saibot.whl")
    (place / "uv-receipt.toml").touch()
    assert how_to_install("provider").endswith("] @ file:///tmp/saibot.whl'")


def test_an_environment_of_uv_has_no_pip(place: Path) -> None:
    (place / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.13\n")
    assert how_to_install("fast") == f"uv pip install --python {place} 'saibot[fast]'"


def test_uvx_is_asked_again_for_the_same_command(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = place / "archive-v0" / "x"
    inside.mkdir(parents=True)
    (inside / "pyvenv.cfg").write_text("uv = 0.13\n")
    monkeypatch.setattr(sys, "prefix", str(inside))
    monkeypatch.setattr(sys, "argv", ["/somewhere/saibot", "demo", "--folder", "my demo"])
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert how_to_install("demo") == f"uvx --from 'saibot[demo]' saibot demo --folder 'my demo'{AS_BEFORE}"
    assert extras.how_to_call() == f"{inside}/bin/saibot", "which is there: by name it may be found nowhere"
    monkeypatch.setattr(extras, "_came_from", lambda: " @ file:///tmp/saibot.whl")
    assert how_to_install("demo") == "uvx --from 'saibot[demo] @ file:///tmp/saibot.whl' saibot demo --folder 'my demo'"
    assert extras.how_to_call() == "uvx --from 'saibot @ file:///tmp/saibot.whl' saibot"


def test_only_what_was_run_in_passing_is_called_by_its_runner(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert extras.how_to_call() is None
    (place / "pipx_metadata.json").touch()
    assert extras.how_to_call() is None
    kept = place / ".cache" / "x"
    kept.mkdir(parents=True)
    (kept / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(kept))
    assert extras.how_to_call() == f"{kept}/bin/saibot"


def test_where_it_came_from_is_what_its_installer_noted_if_that_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "my wheels" / "saibot.whl"
    wheel.parent.mkdir()
    wheel.touch()

    def noted(text: str | None) -> str:
        monkeypatch.setattr(extras, "distribution", lambda name: SimpleNamespace(read_text=lambda name: text))
        return extras._came_from()

    assert noted(f'{{"url": "{wheel.as_uri()}"}}') == f" @ {wheel.as_uri()}" and "%20" in wheel.as_uri()
    assert noted('{"url": "https://example.org/saibot.whl"}') == " @ https://example.org/saibot.whl"
    assert noted(None) == noted("{") == noted("{}") == ""
    wheel.unlink()
    assert noted(f'{{"url": "{wheel.as_uri()}"}}') == "", "a command that names it would fail"


def test_a_command_is_told_the_extra_that_brings_all_it_needs() -> None:
    assert "saibot[demo]" in MissingExtra("ibis", command="demo").hint
    assert "saibot[provider]" in MissingExtra("scipy", command="privatize").hint
    assert "saibot[polars]" in MissingExtra("polars", command="privatize").hint
