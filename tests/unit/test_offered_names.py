"""`import saibot` offers the names that people need, at no cost until they are used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import saibot


def test_nothing_is_loaded_before_it_is_used():
    loaded = "import sys, saibot; print(sorted(m for m in sys.modules if m.split('.')[0] in ('saibot', 'numpy', 'sklearn')))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['saibot']"


@pytest.mark.parametrize("name", sorted(set(saibot.__all__) - {"__version__"}))
def test_every_name_is_there_and_its_type_is_known(name):
    assert getattr(saibot, name).__name__ == name
    assert name in dir(saibot)
    stub = (Path(saibot.__file__).parent / "__init__.pyi").read_text(encoding="utf-8")
    assert set(re.findall(r"import \w+ as (\w+)", stub)) == set(saibot.__all__) - {"__version__"}


def test_a_name_that_is_not_there_is_said_so():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        saibot.Nothing  # noqa: B018


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "saibot", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("saibot ")
