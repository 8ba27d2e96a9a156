"""Where worker processes come from: one process that has loaded what tasks need, and forks a worker for whoever asks.

A process that starts from nothing loads for a second. One that is forked is there at once and shares what was loaded with
all others, so that none has to stay for the next task with what the last one left in its memory. (This process itself has
threads: what they hold at the moment of a fork would be held for ever in the other.)
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

START_SECONDS = 120.0  # to load and, on a machine that never searched before, to compile
ANSWER_SECONDS = 20.0  # once it has loaded
END_SECONDS = 5.0
LOOK_SECONDS = 0.05
# A worker reads and writes folders: it is told where programs and libraries are, and nothing else that this process knows.
_PASSED_ON = tuple(
    [
        "PATH",
        "HOME",
        "LANG",
        "LC_",
        "TZ",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "LD_LIBRARY_PATH",
        "MALLOC_",
        "VIRTUAL_ENV",
        "PYTHON",
        "NUMBA_",
        "OMP_",
        "OPENBLAS_",
        "MKL_",
        "CUDA_",
        "NVIDIA_",
        "TORCH_",
        "TRITON_",
        "JAVA_",
        "SPARK_",
        "PYSPARK_",
        "HADOOP_",
    ]
)


# Arrow's own pools ask for a gigabyte at a time, which is all that a worker gets to read a file.
_POOL = {"ARROW_DEFAULT_MEMORY_POOL": "system"}


class GivenUp(Exception):
    """Whoever asked does not wait any longer."""


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
        self._has_answered = False
        self._asked = 0
        self._users = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def child(self, *, memory: int | None, given_up: Callable[[], bool] = lambda: False) -> Child:
        """`memory` bounds the bytes that it may allocate; files that it maps do not count. OSError where none comes."""
        try:
            return self._child(memory, given_up)
        except ConnectionError:  # the process that forks was killed, or hangs: one more try, with another
            return self._child(memory, given_up)

    def _child(self, memory: int | None, given_up: Callable[[], bool]) -> Child:
        # Lines of its own for each try: should a worker come of one that failed, it finds its input at an end.
        ours: list[int] = []
        theirs: list[int] = []
        try:
            for end, other in ((theirs, ours), (ours, theirs)):
                reading, writing = os.pipe()
                end.append(reading)
                other.append(writing)
            found = self._ask({"memory": memory}, theirs, given_up)
            if "error" in found:
                raise OSError(found["error"], os.strerror(found["error"]))
            stdin, stdout = ours
            child = Child(self, found["pid"], stdin, stdout)
            ours = []
            return child
        finally:
            for handle in (*ours, *theirs):
                os.close(handle)

    def code_of(self, pid: int, seconds: float) -> int | None:
        """How a child ended, as `subprocess` says it; None where it has not, or nobody knows."""
        until = time.monotonic() + seconds
        while self._control is not None:
            try:
                found = self._ask({"ended": pid}, [], lambda: time.monotonic() > until)
            except (OSError, GivenUp):
                return None
            if found["over"] or time.monotonic() > until:
                code: int | None = found["code"]
                return code
            time.sleep(0.005)
        return None

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

    def _ask(self, message: dict[str, Any], handles: list[int], given_up: Callable[[], bool]) -> dict[str, Any]:
        """OSError, or GivenUp, where no answer comes. One that comes later is known by its number, and is nobody's."""
        while not self._lock.acquire(timeout=LOOK_SECONDS):
            if given_up():
                raise GivenUp
        try:
            if self._control is None:
                self._start()
            assert self._control is not None
            self._asked += 1
            socket.send_fds(self._control, [json.dumps(message | {"number": self._asked}).encode()], handles)
            until = time.monotonic() + (ANSWER_SECONDS if self._has_answered else START_SECONDS)
            ready = select.poll()
            ready.register(self._control, select.POLLIN)
            while True:
                if ready.poll(1000 * LOOK_SECONDS):
                    answer = self._control.recv(4096)
                    if not answer:
                        raise ConnectionResetError("the process that forks workers has ended")
                    self._has_answered = True
                    found: dict[str, Any] = json.loads(answer)
                    if found["number"] == self._asked:
                        return found
                elif given_up():
                    raise GivenUp
                elif time.monotonic() > until:
                    raise ConnectionAbortedError("the process that forks workers does not answer")
        except OSError as problem:
            self._end()
            raise ConnectionResetError(str(problem)) from problem
        finally:
            self._lock.release()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                # No multiprocessing: it would run the caller's main module again. Nor what lies in the working folder (-P).
                # A group of its own, so that ctrl-C reaches the platform first; not a session of its own, among which Linux
                # shares the processor whatever their niceness.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "saibot.platform.jobs.worker", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                    env={name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)} | _POOL,
                )
            except BaseException:
                ours.close()
                raise
        self._control, self._has_answered = ours, False

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
