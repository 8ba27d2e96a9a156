"""Work done in processes of its own: one that may be killed, or several that start at once.

They are never forked from the process that runs the tests. That one has threads (of Polars, of Arrow, a platform's keeper),
and a thread that is inside SQLite at the moment of the fork leaves SQLite's mutex locked in the child for good: the child
waits for it at its first connection. A server without threads is started once and forks them instead. A process that does
not end in time is killed, so that nobody is waited for when the tests are over.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.support.ledger_workers"])  # loaded once, not in every process
SECONDS = 60.0


def in_a_process(work: Callable[..., None], *arguments: Any) -> int:
    """The exit code of the work, or minus the signal that ended it. `work` is a function of a module."""
    (code,) = at_once(work, [arguments])
    return code


def at_once(work: Callable[..., None], arguments: Sequence[tuple[Any, ...]], *, seconds: float = SECONDS) -> list[int]:
    """The exit codes of one process for each tuple of arguments, all running at the same time."""
    children = [CONTEXT.Process(target=work, args=each, daemon=True) for each in arguments]
    for child in children:
        child.start()
    end = time.monotonic() + seconds
    for child in children:
        child.join(max(end - time.monotonic(), 0))
    late = [child for child in children if child.exitcode is None]
    for child in late:
        child.kill()
        child.join()
    assert not late, f"{len(late)} of {len(children)} processes did not end within {seconds:g} s"
    return [child.exitcode for child in children if child.exitcode is not None]
