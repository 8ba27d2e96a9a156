"""The one process for work that takes much memory: large files of strangers are read in it, and shards packed.

One task at a time, whoever waits: what it takes is what the largest of them takes, not the sum.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from saibot.platform.errors import Busy
from saibot.platform.jobs.process import Outcome, WorkerProcess

MEMORY = 4 << 30


class HeavyProcess:
    """`run` a task, in a process that is gone afterwards."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._worker = WorkerProcess(memory=MEMORY)
        self._lock = threading.Lock()

    def run(
        self,
        task: dict[str, Any],
        *,
        seconds: float,
        cancelled: Callable[[], bool] = lambda: False,
        patience: float | None = None,
    ) -> Outcome:
        """How it ended. One that dies, or takes too long, leaves nothing of the process behind.

        Raises Busy where another task would be at it for more seconds than one has `patience`: packing may take 30 minutes.
        """
        if not self._lock.acquire(timeout=-1 if patience is None else patience):
            raise Busy
        try:
            return self._worker.run(task, progress=lambda *_: None, cancelled=cancelled, seconds=seconds)
        finally:
            self._lock.release()

    def stop(self) -> None:
        with self._lock:
            self._worker.stop()


_the_one: HeavyProcess | None = None
_lock = threading.Lock()


def heavy() -> HeavyProcess:
    """That of this process. (A process that was forked has none yet.)"""
    global _the_one
    with _lock:
        if _the_one is None or _the_one.owner != os.getpid():
            _the_one = HeavyProcess()
        return _the_one
