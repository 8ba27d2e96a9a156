"""What of their confinement the workers of this process go without, as they say themselves before their first task.

It is the same for all of them: whether the system has such rules, and lets this user make them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

PARTS = ("powers", "files", "calls")  # as `confinement.confine` calls them

Listener = Callable[[list[str]], object]


class Lacking:
    """What a worker has once said stays: the next one may have been taken over, and say that all is well."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: frozenset[str] | None = None
        self._listeners: list[Listener] = []

    @property
    def parts(self) -> list[str] | None:
        """None while no worker has confined itself."""
        return None if self._parts is None else [part for part in PARTS if part in self._parts]

    def heard(self, said: Iterable[object]) -> None:
        with self._lock:
            before = self._parts or frozenset[str]()
            self._parts = before | {part for part in PARTS if part in said}
            listeners = list(self._listeners) if self._parts > before else []
        for listener in listeners:
            listener(self.parts or [])

    @contextmanager
    def told(self, listener: Listener) -> Iterator[None]:
        """The listener hears of whatever is lacking, once for each part."""
        with self._lock:
            self._listeners.append(listener)
            known = self.parts
        if known:
            listener(known)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


lacking = Lacking()
