"""Answers that are remembered for a while, so that what is asked often is not worked out each time."""

from __future__ import annotations

import random
import threading
from typing import Generic, TypeVar

from cachetools import TLRUCache

K = TypeVar("K")
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Up to `most` answers, each for `seconds` or down to half of it: what came together is not forgotten together."""

    def __init__(self, *, seconds: float, most: int) -> None:
        self._known: TLRUCache[K, V] = TLRUCache(most, lambda key, value, now: now + seconds * random.uniform(0.5, 1.0))
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            return self._known.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._known[key] = value
