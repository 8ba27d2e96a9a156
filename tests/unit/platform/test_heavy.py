"""The one process for large work: it is gone when its task is done."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from saibot.platform import reading
from saibot.platform.freed_memory import allocated_bytes
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


def test_a_task_leaves_no_process_behind(process: HeavyProcess, task: dict[str, Any]) -> None:
    for _ in range(2):
        assert process.run(task, seconds=300).status == "done" and process._worker.pid is None


def test_what_libraries_set_aside_leaves_room_to_read(task: dict[str, Any]) -> None:
    pa.allocate_buffer(1)  # Arrow's own pool sets a gigabyte aside at its first use; the nursery has another (`_POOL`)
    aside = mmap.mmap(-1, 2 * reading.MEMORY, flags=mmap.MAP_PRIVATE)  # asked for, and never used
    with closing(aside):
        assert allocated_bytes() > reading.MEMORY
        assert reading.read_here(**task["read"]) == {}
