"""A worker process as the platform sees it: give it a task, hear how it goes, stop it, and notice when it dies."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from saibot.platform.freed_memory import own_bytes

LOOK_SECONDS = 0.05
START_SECONDS = 120.0
# Neither the database's address nor keys of a store are a worker's business: it reads and writes folders.
_SECRET = ("SAIBOT_", "AWS_", "PG", "DATABASE_")


@dataclass(frozen=True)
class Outcome:
    """How a task ended; `error` in the one error shape's inner form where it did not succeed."""

    status: Literal["done", "failed", "cancelled"]
    error: dict[str, Any] | None = None
    died: bool = False
    answer: dict[str, Any] = field(default_factory=dict)


class WorkerProcess:
    """Started when the first task comes; the same process serves further tasks until it is stopped or dies."""

    def __init__(self, *, memory: int | None = None) -> None:
        """`memory` bounds the bytes that the process may allocate; files that it maps do not count."""
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
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
            process = self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
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
            elif "done" in message:
                return Outcome("done", answer=message)
            elif "refused" in message:
                return Outcome("failed", message["refused"])
            elif "broken" in message:
                hint = "Ask again; if it stays, tell the platform's admin the id of the search."
                error = _error("internal", "the search failed by a mistake of the platform.", hint)
                return Outcome("failed", error | {"details": {"problem": message["broken"], "at": message["at"]}})

    def pause(self) -> None:
        """Stand still until `go_on`; the system gives the process no time."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def stop_if_large(self, kept: int) -> None:
        """End a process that holds more than this after a task: others may need it, and starting takes a second."""
        if self.pid is not None and own_bytes(self.pid) > kept:
            self.stop()

    def stop(self) -> None:
        """End the process now; the next task starts another."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self.tasks = 0
            # No multiprocessing: it would run the caller's main module again. A group of its own, so that ctrl-C reaches the
            # platform first; not a session of its own, among which Linux shares the processor whatever their niceness.
            command = [sys.executable, "-m", "saibot.platform.jobs.worker"]
            command += [str(self._memory)] if self._memory is not None else []
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
                env={name: value for name, value in os.environ.items() if not name.startswith(_SECRET)},
            )
        return self._process

    def _line(self) -> bytes | None:
        """The next line; None if there is none yet, empty if the process has ended."""
        assert self._process is not None and self._process.stdout is not None
        if b"\n" not in self._buffer:
            handle = self._process.stdout.fileno()
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
        code = None
        if self._process is not None:
            try:
                code = self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                code = None
        self.stop()
        how = "ended"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        hint = "Ask again. If it happens again the search may need more memory than the platform has."
        return Outcome("failed", _error("worker_died", f"the process of this search {how}.", hint), died=True)


def _error(code: str, message: str, hint: str) -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint, "details": {}}
