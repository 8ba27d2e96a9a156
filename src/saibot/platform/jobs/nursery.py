"""Where worker processes come from: one process that has loaded what tasks need, and forks a worker for whoever asks.

A process that starts from nothing loads for a second. One that is forked is there at once and shares what was loaded with
all others, so that none has to stay for the next task with what the last one left in its memory. (This process itself has
threads: what they hold at the moment of a fork would be held for ever in the other.)
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

START_SECONDS = 120.0  # to load and, on a machine that never searched before, to compile
END_SECONDS = 5.0
# Neither the database's address nor keys of a store are a worker's business: it reads and writes folders.
_SECRET = ("SAIBOT_", "AWS_", "PG", "DATABASE_")


class Child:
    """A forked worker. Its number stands for it, and for no other process, until `end` is called."""

    def __init__(self, nursery: Nursery, pid: int, stdin: int, stdout: int) -> None:
        self.pid, self.stdout = pid, stdout
        self._nursery, self._stdin = nursery, stdin
        # Where the nursery is killed, its children are others', and their numbers may be given anew: a handle never is.
        self._handle: int | None = None
        with suppress(OSError, AttributeError):  # a system that has none
            self._handle = os.pidfd_open(pid)

    def tell(self, line: bytes) -> None:
        while line:
            line = line[os.write(self._stdin, line) :]

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)
            else:
                os.kill(self.pid, number)

    def end(self, *, kill: bool) -> int | None:
        """Its exit code once it has ended, by itself or killed; None where nobody knows. It is done with afterwards."""
        if kill:
            self.signal(signal.SIGKILL)
        code = self._nursery.code_of(self.pid, END_SECONDS)
        if code is None and not kill:
            return self.end(kill=True)
        for handle in (self._stdin, self.stdout, self._handle):
            if handle is not None:
                os.close(handle)
        return code


class Nursery:
    """`child` gives a new worker; the process that they come from is started for the first one."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._users = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def child(self, *, memory: int | None) -> Child:
        """`memory` bounds the bytes that it may allocate; files that it maps do not count. OSError where none comes."""
        to_read, stdin = os.pipe()
        stdout, to_write = os.pipe()
        try:
            with self._lock:
                try:
                    found = self._ask({"memory": memory}, [to_read, to_write])
                except OSError:  # it was killed: one more try, with another
                    found = self._ask({"memory": memory}, [to_read, to_write])
            return Child(self, found["pid"], stdin, stdout)
        except BaseException:
            os.close(stdin)
            os.close(stdout)
            raise
        finally:
            os.close(to_read)
            os.close(to_write)

    def code_of(self, pid: int, seconds: float) -> int | None:
        """How a child ended, as `subprocess` says it; None where it has not, or nobody knows."""
        until = time.monotonic() + seconds
        while True:
            with self._lock:
                if self._control is None:
                    return None
                try:
                    found = self._ask({"ended": pid}, [])
                except OSError:
                    return None
            if found["over"] or time.monotonic() > until:
                code: int | None = found["code"]
                return code
            time.sleep(0.005)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """When nobody uses it any more, the process ends."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._end()

    def _ask(self, message: dict[str, Any], handles: list[int]) -> dict[str, Any]:
        """OSError where no answer comes; that process is done with then: a late answer would be taken for the next one."""
        if self._control is None:
            self._start()
        assert self._control is not None
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], handles)
            answer = self._control.recv(4096)
            if not answer:
                raise ConnectionResetError("the process that forks workers has ended")
        except OSError:
            self._end()
            raise
        found: dict[str, Any] = json.loads(answer)
        return found

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(START_SECONDS)
        with theirs:
            # No multiprocessing: it would run the caller's main module again. A group of its own, so that ctrl-C reaches the
            # platform first; not a session of its own, among which Linux shares the processor whatever their niceness.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "saibot.platform.jobs.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
                env={name: value for name, value in os.environ.items() if not name.startswith(_SECRET)},
            )
        self._control = ours

    def _end(self) -> None:
        """Its children go on: each has a line of its own to this process."""
        process, control, self._process, self._control = self._process, self._control, None, None
        if control is not None:
            control.close()
        if process is not None:
            process.kill()
            process.wait()


_the_one: Nursery | None = None
_lock = threading.Lock()


def nursery() -> Nursery:
    """That of this process. (A process that was forked has none yet.)"""
    global _the_one
    with _lock:
        if _the_one is None or _the_one.owner != os.getpid():
            _the_one = Nursery()
        return _the_one
