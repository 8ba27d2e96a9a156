"""What whoever runs a platform expects of it: readiness, numbers, and workers with as little as they need."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saibot.platform import Settings
from saibot.platform.jobs.process import WorkerProcess


@pytest.fixture
def alone(fresh: Settings, start_in_process: Any) -> Iterator[Any]:
    yield from start_in_process(fresh.model_copy(update={"public_url": "https://saibot.example.org"}))


def test_readiness_looks_at_storage(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = alone.client()
    assert client.get("/readyz").json() == {
        "status": "ready",
        "parts": {"database": True, "space": True, "files": True, "lease": True, "started": True},
    }
    alone.app.state.platform.missing_files = 1
    answer = client.get("/readyz")
    assert answer.status_code == 503 and answer.json()["parts"]["files"] is False
    assert client.get("/healthz").status_code == 200


def test_numbers_tell_of_queue_processes_and_disk(alone: Any) -> None:
    text = alone.client().get("/metrics").text
    for name in ("saibot_searches_under_way 0.0", "saibot_workers_alive", "saibot_disk_free_bytes", "saibot_files_missing"):
        assert name in text


def test_a_platform_that_is_reached_by_https_says_so_for_good(alone: Any) -> None:
    assert alone.client().get("/v1/datasets").headers["strict-transport-security"].startswith("max-age=31536000")


def test_a_worker_knows_no_secrets_and_allocates_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAIBOT_DATABASE", "postgresql://somebody:secret@host/name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    worker = WorkerProcess(memory=1 << 30)
    try:
        process = worker._start()
        assert json.loads(os.read(process.stdout, 1000)) == {"ready": True}
        environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        worker.stop()
    assert b"SAIBOT_DATABASE" not in environment and b"AWS_SECRET" not in environment and b"PATH=" in environment
    assert any(line.startswith("Max data size") and str(1 << 30) in line for line in limits.splitlines())
    assert "NoNewPrivs:\t1" in status


def test_a_worker_gets_processor_time_for_its_task_and_is_confined_before_it_begins(tmp_path: Path) -> None:
    """Confined: its filter of system calls is there when the first word of a task is looked at."""
    worker = WorkerProcess(memory=1 << 30)
    try:
        process = worker._start()
        folder = tmp_path / "no corpus"
        os.kill(process.pid, signal.SIGSTOP)
        task = {"learn": {"folder": str(folder), "providers": {}, "teachers": []}, "seconds": 40}
        process.tell(json.dumps(task).encode() + b"\n")
        os.kill(process.pid, signal.SIGCONT)
        said = b""
        while b"over" not in said:
            said += os.read(process.stdout, 10_000)
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        worker.stop()
    cpu = next(line.split() for line in limits.splitlines() if line.startswith("Max cpu time"))
    assert 40 <= int(cpu[3]) <= 40 * (os.cpu_count() or 1) + 20 and cpu[3] == cpu[4], "for good"
    if sys.platform == "linux":
        assert "Seccomp:\t2" in status
        assert json.loads(said.splitlines()[-1]).get("broken"), "there is nothing to learn from"


def test_a_server_that_is_about_to_stop_says_so_first_and_still_answers(fresh: Settings, start_in_process: Any) -> None:
    for server in start_in_process(fresh):
        client = server.client()
        assert client.get("/readyz").status_code == 200
        server.app.state.platform.drain()
        not_ready = client.get("/readyz")
        assert not_ready.status_code == 503 and not_ready.json()["parts"]["started"] is False
        answer = client.get("/v1/datasets")
        assert answer.status_code == 200 and answer.headers["connection"] == "close"
