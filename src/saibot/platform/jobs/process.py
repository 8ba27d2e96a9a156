"""A worker process as the platform sees it: give it a task, hear how it goes, stop it, and notice when it dies."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from saibot.platform.jobs.nursery import Child, nursery

LOOK_SECONDS = 0.05
TASKS_PER_WORKER = 200  # of one that stays


@dataclass(frozen=True)
class Outcome:
    """How a task ended; `error` in the one error shape's inner form where it did not succeed."""

    status: Literal["done", "failed", "cancelled"]
    error: dict[str, Any] | None = None
    died: bool = False
    answer: dict[str, Any] = field(default_factory=dict)


class WorkerProcess:
    """Forked when a task comes, and gone when it is done, with all that it had in memory.

    Only one that has a GPU, or a cluster, at its disposal stays for the next task: to get hold of those takes long.
    """

    def __init__(self, *, memory: int | None = None) -> None:
        """`memory` bounds the bytes that the process may allocate; files that it maps do not count."""
        self._memory = memory
        self._process: Child | None = None
        self._buffer = b""
        self.tasks = 0
        self.last_used = time.monotonic()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def run(
        self,
        task: dict[str, Any],
        *,
        progress: Callable[[str, float | None], None],
        cancelled: Callable[[], bool],
        seconds: float,
        give_way: Callable[[], float] = lambda: 0.0,
    ) -> Outcome:
        """Run one task to its end, whatever end that is.

        `give_way` is called again and again, and says for how many seconds the process stood still since; they do not count.
        """
        started = time.monotonic()
        try:
            self._begin(json.dumps(task | {"seconds": seconds}).encode() + b"\n")
        except OSError:
            return self._death()
        self.tasks += 1
        while True:
            if cancelled():
                self.stop()
                return Outcome("cancelled")
            started += give_way()
            if time.monotonic() - started > seconds:
                self.stop()
                hint = "Search with fewer steps or without hops, or ask the platform's admin for more time."
                return Outcome("failed", _error("too_long", f"the search took longer than {seconds:g} s.", hint))
            line = self._line()
            if line is None:
                continue
            if line == b"":
                return self._death()
            self.last_used = time.monotonic()
            message = json.loads(line)
            if "stage" in message:
                progress(message["stage"], message["part"])
            if "stays" not in message:
                continue
            if not message["stays"] or self.tasks >= TASKS_PER_WORKER:
                self.stop()
            if "done" in message:
                return Outcome("done", answer=message)
            if "refused" in message:
                return Outcome("failed", message["refused"])
            hint = "Ask again; if it stays, tell the platform's admin the id of the search."
            error = _error("internal", "the search failed by a mistake of the platform.", hint)
            return Outcome("failed", error | {"details": {"problem": message["broken"], "at": message["at"]}})

    def pause(self) -> None:
        """Stand still until `go_on`; the system gives the process no time."""
        if self._process is not None:
            self._process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the process now; the next task has another."""
        self._end(kill=True)

    def _begin(self, task: bytes) -> None:
        try:
            self._start().tell(task)
        except OSError:
            if not self.tasks:
                raise
            self.stop()  # it stayed, and died meanwhile
            self._start().tell(task)

    def _start(self) -> Child:
        if self._process is None:
            self.tasks = 0
            self._process = nursery().child(memory=self._memory)
        return self._process

    def _end(self, *, kill: bool) -> int | None:
        process, self._process, self._buffer = self._process, None, b""
        return None if process is None else process.end(kill=kill)

    def _line(self) -> bytes | None:
        """The next line; None if there is none yet, empty if the process has ended."""
        assert self._process is not None
        if b"\n" not in self._buffer:
            handle = self._process.stdout
            with selectors.DefaultSelector() as ready:
                ready.register(handle, selectors.EVENT_READ)
                if not ready.select(LOOK_SECONDS):
                    return None
            part = os.read(handle, 1 << 16)
            if not part:
                return b""
            self._buffer += part
            if b"\n" not in self._buffer:
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _death(self) -> Outcome:
        code = self._end(kill=False)
        how = "ended"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        hint = "Ask again. If it happens again the search may need more memory than the platform has."
        return Outcome("failed", _error("worker_died", f"the process of this search {how}.", hint), died=True)


def _error(code: str, message: str, hint: str) -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint, "details": {}}
