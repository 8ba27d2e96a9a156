"""The one process for large work: it ends when it holds much, and gives way when nobody needs it."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from saibot.platform import reading
from saibot.platform.freed_memory import allocated_bytes, own_bytes
from saibot.platform.jobs import heavy as module
from saibot.platform.jobs.heavy import HeavyProcess
from tests.support.forging import content_of


@pytest.fixture
def process() -> Iterator[HeavyProcess]:
    one = HeavyProcess()
    yield one
    one.stop()


@pytest.fixture
def task(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "sketch").write_bytes(content_of("v2-lookup-levels"))
    facts = {"source": str(tmp_path / "sketch"), "target": str(tmp_path / "read"), "accept_unsafe": True}
    return {"read": {"kind": "sketch"} | facts}


def test_it_serves_one_task_after_the_other_and_rests_when_nobody_asks(process: HeavyProcess, task: dict[str, Any]) -> None:
    assert process.run(task, seconds=300).status == "done"
    first = process._worker.pid
    assert first is not None and own_bytes(first) > 1 << 20
    assert process.run(task, seconds=300).status == "done" and process._worker.pid == first
    process.rest()
    assert process._worker.pid == first, "it was used a moment ago"
    process.rest(0.0)
    assert process._worker.pid is None and own_bytes(first) == 0


def test_with_much_in_memory_it_ends_and_another_comes(
    process: HeavyProcess, task: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 1 << 20)
    assert process.run(task, seconds=300).status == "done" and process._worker.pid is None
    assert process.run(task, seconds=300).status == "done"


def test_what_libraries_set_aside_leaves_room_to_read(task: dict[str, Any]) -> None:
    aside = mmap.mmap(-1, 2 * reading.MEMORY, flags=mmap.MAP_PRIVATE)  # asked for, and never used
    with closing(aside):
        assert allocated_bytes() > reading.MEMORY
        assert reading.read_here(**task["read"]) == {}


def test_a_rest_waits_for_nobody(process: HeavyProcess) -> None:
    with process._lock:  # as while a task is under way
        process.rest(0.0)
