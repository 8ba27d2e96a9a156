"""Turns of processor time among searches: so many go on at a time, the others stand still until it is their turn again.

A search that has had its slice gives way as soon as somebody waits, and goes on later where it stopped. So a search of an
hour holds nobody up for longer than a slice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SLICE_SECONDS = 10.0
LOOK_SECONDS = 0.05


class Turns:
    """`take` one, `give_way` to whoever waits, and `leave` at the end. First come, first served."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._since: dict[object, float] = {}  # who has a turn -> since when
        self._line: list[object] = []
        self._changed = threading.Condition()

    def take(self, who: object, *, given_up: Callable[[], bool]) -> None:
        """Returns with a turn, or without one when `given_up` says so."""
        with self._changed:
            self._line.append(who)
            while not (self._line[0] is who and len(self._since) < self._number) and not given_up():
                self._changed.wait(LOOK_SECONDS)
            self._line.remove(who)
            self._since[who] = time.monotonic()
            self._changed.notify_all()

    def leave(self, who: object) -> None:
        with self._changed:
            self._since.pop(who, None)
            self._changed.notify_all()

    def is_over(self, who: object) -> bool:
        """Whether this one has had its slice and somebody waits."""
        with self._changed:
            return bool(self._line) and time.monotonic() - self._since.get(who, time.monotonic()) > SLICE_SECONDS

    def could_give_way(self) -> bool:
        """Whether all turns are taken, nobody waits, and one of them has had its slice: a stranger would get a turn soon."""
        with self._changed:
            if self._line or len(self._since) < self._number:
                return False
            return time.monotonic() - min(self._since.values()) > SLICE_SECONDS
