"""Locks by name, in one process: whoever holds one thing keeps nobody waiting who asks for another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from saibot.platform.errors import Busy


class NamedLocks:
    """Names that nobody holds or waits for take no memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}  # and how many hold it or wait for it

    @contextmanager
    def holding(self, names: Iterable[str], *, patience: float | None = None) -> Iterator[None]:
        """All of them, in an order that is everybody's. Raises Busy where it would take longer than so many seconds."""
        until = None if patience is None else time.monotonic() + patience
        with ExitStack() as held:
            for name in sorted(set(names)):
                lock = self._enter(name)
                held.callback(self._leave, name)
                if not lock.acquire(timeout=-1 if until is None else max(until - time.monotonic(), 0)):
                    raise Busy
                held.callback(lock.release)
            yield

    def _enter(self, name: str) -> threading.Lock:
        with self._lock:
            lock, users = self._locks.get(name) or (threading.Lock(), 0)
            self._locks[name] = lock, users + 1
            return lock

    def _leave(self, name: str) -> None:
        with self._lock:
            lock, users = self._locks.pop(name)
            if users > 1:
                self._locks[name] = lock, users - 1
