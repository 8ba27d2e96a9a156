"""What the package promises to others: its names, its errors, and what it never imports."""

from __future__ import annotations

import subprocess
import sys

import saibot.discover
from saibot.discover import errors
from saibot.errors import InvalidDomain


def test_every_exported_name_exists_and_the_list_is_sorted() -> None:
    names = saibot.discover.__all__
    assert names == sorted(name for name in names if name[0].isupper()) + sorted(n for n in names if n[0].islower())
    assert all(hasattr(saibot.discover, name) for name in names)


def test_every_error_is_exported_and_in_the_tree() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and c.__module__ == errors.__name__]
    assert len(classes) == 2
    for cls in classes:
        assert (
            issubclass(cls, InvalidDomain)
            and cls.__name__ in saibot.discover.__all__
            and cls.__name__ in str(errors.__doc__)
        )


def test_discovery_loads_nothing_that_can_read_a_table() -> None:
    code = "import sys, saibot.discover; print([m for m in sys.modules if m in %r])"
    banned = ["saibot.privatize", "duckdb", "ibis", "pyarrow.csv", "pyarrow.parquet", "pyarrow.dataset", "opendp", "pandas"]
    found = subprocess.run([sys.executable, "-c", code % (banned,)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
