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

from saibot.platform import Settings, gauges, service
from saibot.platform.jobs import process
from saibot.platform.jobs.lacking import Lacking
from saibot.platform.jobs.process import WorkerProcess
from saibot.platform.jobs.process import _said as said_by_workers
from saibot.platform.reading import read_elsewhere


@pytest.fixture
def alone(fresh: Settings, start_in_process: Any) -> Iterator[Any]:
    yield from start_in_process(fresh.model_copy(update={"public_url": "https://saibot.example.org"}))


def test_readiness_looks_at_storage(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = alone.client()
    document = client.get("/readyz").json()
    document.pop("not_confined")  # as workers of this process have said, if there were any
    assert document == {
        "status": "ready",
        "parts": {"database": True, "space": True, "files": True, "lease": True, "started": True},
    }
    alone.app.state.platform.missing_files = 1
    answer = client.get("/readyz")
    assert answer.status_code == 503 and answer.json()["parts"]["files"] is False
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("part", ["files", "calls"])
def test_whoever_runs_it_hears_of_workers_that_are_not_confined(
    alone: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: str
) -> None:
    """Workers of any kind: the one that reads large files, too, as under a unit that lets no rules over files be made."""
    known = Lacking()
    monkeypatch.setattr(process, "lacking", known)
    for module in (service, gauges):
        monkeypatch.setattr(module, "lacking", known)
    platform, client = alone.app.state.platform, alone.client()
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(platform.log, "warning", lambda words, **facts: said.append(facts))
    assert client.get("/readyz").json()["not_confined"] is None
    assert "saibot_not_confined 0.0" in client.get("/metrics").text
    (tmp_path / "keys.csv").write_text("key\na\n")
    with known.told(platform._warn_of_workers), monkeypatch.context() as patches:
        read_elsewhere(tmp_path / "keys.csv", "keys", id="letters", version=1, most=10)
        assert client.get("/readyz").json()["not_confined"] == [] and not said
        patches.setattr(process, "_said", lambda line: _as_if_without(part, *said_by_workers(line)))
        for _ in range(2):
            read_elsewhere(tmp_path / "keys.csv", "keys", id="letters", version=1, most=10)
    read_elsewhere(tmp_path / "keys.csv", "keys", id="letters", version=1, most=10)  # one that says that all is well
    answer = client.get("/readyz")
    assert answer.status_code == 200 and answer.json()["not_confined"] == [part]
    assert "saibot_not_confined 1.0" in client.get("/metrics").text
    assert [facts["lacking"] for facts in said] == [[part]]


def _as_if_without(part: str, kind: str | None, message: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    return kind, {"not_confined": [part, "\x1b[2J"]} if kind == "not_confined" else message


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
