"""When a platform learns: once uploads pause, and in any case after a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from saibot.platform.accounts import Caller
from saibot.platform.service import Platform


@pytest.mark.parametrize(
    "pause, delay, busy", [(0.2, 600.0, False), (600.0, 0.0, True)], ids=["uploads pause", "uploads go on and on"]
)
def test_what_was_published_is_learned_from(
    platform: Platform,
    provider: Caller,
    named: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
    pause: float,
    delay: float,
    busy: bool,
) -> None:
    lessons: list[float] = []
    monkeypatch.setattr("saibot.platform.lessons.LESSON_SECONDS", pause)
    monkeypatch.setattr("saibot.platform.lessons.LESSON_DELAY", delay)
    monkeypatch.setattr(platform.shards.lessons, "learn", lambda: lessons.append(time.monotonic()) or [])
    platform.accept(provider, named("first"))
    end = time.monotonic() + 30
    while not lessons and time.monotonic() < end:
        if busy:
            platform.shards.wake()
        time.sleep(0.05)
    assert lessons


def test_two_lessons_at_once_are_one_after_the_other(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    most: list[int] = []

    def slow() -> list[str]:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.2)
        inside.pop()
        return []

    monkeypatch.setattr(platform.shards.lessons, "_learn", slow)
    threads = [threading.Thread(target=platform.shards.lessons.learn) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]
