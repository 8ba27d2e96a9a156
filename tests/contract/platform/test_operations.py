"""What whoever runs a platform expects of it: readiness, numbers, and workers with as little as they need."""

from __future__ import annotations

import json
import os
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


def test_a_server_that_is_about_to_stop_says_so_first_and_still_answers(fresh: Settings, start_in_process: Any) -> None:
    for server in start_in_process(fresh):
        client = server.client()
        assert client.get("/readyz").status_code == 200
        server.app.state.platform.drain()
        not_ready = client.get("/readyz")
        assert not_ready.status_code == 503 and not_ready.json()["parts"]["started"] is False
        answer = client.get("/v1/datasets")
        assert answer.status_code == 200 and answer.headers["connection"] == "close"
