"""Work done in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import NoReturn

FORK = multiprocessing.get_context("fork")


def in_a_process(work: Callable[[], None]) -> int:
    """Run in a forked process; its exit code, or minus the signal that ended it."""

    def run() -> NoReturn:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)

    child = FORK.Process(target=run)
    child.start()
    child.join(60)
    assert child.exitcode is not None
    return child.exitcode
