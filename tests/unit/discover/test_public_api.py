"""What the package promises to others: its names, and what it never imports."""

from __future__ import annotations

import subprocess
import sys

import saibot.discover


def test_every_exported_name_exists_and_the_list_is_sorted() -> None:
    names = saibot.discover.__all__
    assert names == sorted(name for name in names if name[0].isupper()) + sorted(n for n in names if n[0].islower())
    assert all(hasattr(saibot.discover, name) for name in names)


def test_discovery_loads_nothing_that_can_read_a_table() -> None:
    code = "import sys, saibot.discover; print([m for m in sys.modules if m in %r])"
    banned = ["saibot.privatize", "duckdb", "ibis", "pyarrow.csv", "pyarrow.parquet", "pyarrow.dataset", "opendp", "pandas"]
    found = subprocess.run([sys.executable, "-c", code % (banned,)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
