"""Answers that are remembered for a while, so that what is asked often is not worked out each time."""

from __future__ import annotations

import random
import threading
import time
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Up to `most` answers, each for `seconds` or down to half of it: what came together is not forgotten together."""

    def __init__(self, *, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self._known: dict[K, tuple[float, V]] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            until, value = self._known.get(key, (0.0, None))
            return value if until > time.monotonic() else None

    def put(self, key: K, value: V) -> None:
        with self._lock:
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[key] = (time.monotonic() + self._seconds * random.uniform(0.5, 1.0), value)
