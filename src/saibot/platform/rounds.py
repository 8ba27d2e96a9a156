"""What a platform does again and again in the background, each task in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from saibot.platform.logs import Log


class Rounds:
    """Tasks that are repeated until they are told to stop. One that fails is tried again in the next round."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def begun(self) -> bool:
        return bool(self._threads)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def begin(self, name: str, seconds: float, task: Callable[[], object]) -> None:
        """So many seconds pass before each round."""
        thread = threading.Thread(target=self._repeat, args=(seconds, task), name=f"saibot-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """No further round begins."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the rounds that have begun."""
        for thread in self._threads:
            thread.join()

    def _repeat(self, seconds: float, task: Callable[[], object]) -> None:
        while not self._stop.wait(seconds):
            try:
                task()
            except Exception as problem:  # storage that is away for a while; the next round tries again
                self._log.failure(f"{task.__name__} failed", problem)
