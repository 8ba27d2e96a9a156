"""What `pip install saibot` alone can do: talk to a platform. Packages that it leaves out are hidden from a process here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from saibot.embedded import admin_token, embedded_settings, make_app
from tests.support.serving import listening

LEFT_OUT = ("datasketch", "duckdb", "ibis", "numba", "opendp", "pandas", "scipy", "sklearn", "sqlglot", "fastapi", "jinja2")
HIDES = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LEFT_OUT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture
def light(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has nothing but what talks to a platform."""
    (tmp_path / "sitecustomize.py").write_text(HIDES)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "COLUMNS": "100"}


def run(light: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], env=light, capture_output=True, text=True, timeout=120)


def test_it_browses_a_platform(light: dict[str, str], tmp_path: Path) -> None:
    settings = embedded_settings(tmp_path / "data")
    with listening(make_app(settings)) as address:
        (tmp_path / "token").write_text(admin_token(tmp_path / "data"))
        login = run(light, "-m", "saibot", "login", address, "--token-file", str(tmp_path / "token"))
        assert login.returncode == 0, login.stderr
        for command in (["datasets"], ["domains", "list"], ["searches", "list"], ["token", "list"]):
            done = run(light, "-m", "saibot", *command)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("privatize", "t.csv", "--key", "day", "--epsilon", "1"), "provider"),
        (("demo",), "demo"),
        (("serve",), "platform"),
        (("split", "t.csv"), "local"),
        (("inspect", "t.saibot"), "local"),
    ],
)
def test_what_it_cannot_do_names_the_extra_that_can(light: dict[str, str], command: tuple[str, ...], extra: str) -> None:
    done = run(light, "-m", "saibot", *command)
    assert done.returncode == 1
    assert f"pip install 'saibot[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_client_is_imported_without_the_heavy_packages() -> None:
    asked = "import sys, saibot.client; from saibot.client import Platform, connect; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=120, check=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & set(LEFT_OUT)


def test_python_is_told_the_same(light: dict[str, str]) -> None:
    done = run(light, "-c", "from saibot.client import Requester")
    assert "pip install 'saibot[local]'" in done.stderr
