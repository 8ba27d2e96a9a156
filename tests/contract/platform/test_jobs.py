"""Searches that do not end well: each says how it ended, and the next one runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from saibot.platform import Settings

pytestmark = pytest.mark.fault
Bytes = dict[str, bytes]


@pytest.fixture
def stage(fresh: Settings, start_in_process: Any, sketches: Bytes, verbs: Any) -> Iterator[tuple[Any, Any]]:
    """A platform whose one worker has run a search, and a requester."""
    for server in start_in_process(fresh):
        verbs.publish(server.account("provider"), sketches["good"])
        requester = server.account("requester")
        id = verbs.ask(requester, sketches["train"]).json()["id"]
        assert verbs.wait(requester, id)["status"] == "done"
        yield server, requester


@contextmanager
def held(server: Any) -> Iterator[int]:
    """The worker stands still, so that the next search runs for as long as the test wants."""
    pid = server.app.state.platform.runner.workers[0]._start().pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def running(client: Any, id: str) -> None:
    until(lambda: client.get(f"/v1/searches/{id}").json()["status"] == "running")


def until(true: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_search_whose_process_is_killed_says_so_and_the_next_one_runs(stage: Any, sketches: Bytes, verbs: Any) -> None:
    server, requester = stage
    with held(server) as pid:
        id = verbs.ask(requester, sketches["train"]).json()["id"]
        running(requester, id)
        os.kill(pid, signal.SIGKILL)
        search = verbs.wait(requester, id)
    assert search["status"] == "failed"
    assert search["error"]["code"] == "worker_died" and "SIGKILL" in search["error"]["message"]
    assert search["error"]["hint"]
    after = verbs.ask(requester, sketches["train"]).json()["id"]
    assert verbs.wait(requester, after)["status"] == "done"


def test_a_cancelled_search_stops_whether_it_waits_or_runs(stage: Any, sketches: Bytes, verbs: Any) -> None:
    server, requester = stage
    with held(server) as pid:
        first, second = (verbs.ask(requester, sketches["train"]).json()["id"] for _ in range(2))
        running(requester, first)
        for id in (second, first):
            answer = requester.delete(f"/v1/searches/{id}")
            assert answer.status_code == 202 and answer.json()["id"] == id
            assert verbs.wait(requester, id)["status"] == "cancelled"
        until(lambda: not alive(pid))
    folder = server.settings.data / "searches"
    until(lambda: not any(list((folder / id).iterdir()) for id in (first, second)))
    assert requester.delete(f"/v1/searches/{first}").status_code == 204


def test_after_a_restart_what_ran_is_begun_again_and_what_waited_runs(
    fresh: Settings, start_in_process: Any, sketches: Bytes, verbs: Any
) -> None:
    for server in start_in_process(fresh):
        verbs.publish(server.account("provider"), sketches["good"])
        requester = server.account("requester")
        verbs.wait(requester, verbs.ask(requester, sketches["train"]).json()["id"])
        token = requester.headers["Authorization"].removeprefix("Bearer ")
        os.kill(server.app.state.platform.runner.workers[0]._start().pid, signal.SIGSTOP)
        ran, waited = (verbs.ask(requester, sketches["train"]).json()["id"] for _ in range(2))
        running(requester, ran)
    for server in start_in_process(fresh):
        requester = server.client(token)
        assert [verbs.wait(requester, id)["status"] for id in (ran, waited)] == ["done", "done"]


def test_a_search_that_ended_its_platform_three_times_is_given_up(
    fresh: Settings, start_in_process: Any, sketches: Bytes, verbs: Any
) -> None:
    from saibot.platform.accounts import Caller
    from saibot.platform.service import open_platform
    from saibot.wire import Question

    asker = Caller("asker", frozenset({"requester"}), "t")
    for time_ in range(4):
        platform = open_platform(fresh)
        if time_ == 0:
            id = platform.searches.submit(asker, sketches["train"], None, Question(target="sales")).id
        taken = platform.searches.next()
        assert (taken is None) == (time_ == 3)
        found = platform.searches.show(asker, id)
        platform.close()  # it was never started: this is the same as a kill to the queue
    assert found.status == "failed" and found.error is not None and found.error.code == "given_up"
    assert not list((fresh.data / "searches" / id).iterdir())


def test_a_search_that_takes_too_long_is_stopped(
    fresh: Settings, start_in_process: Any, sketches: Bytes, verbs: Any
) -> None:
    for server in start_in_process(fresh.model_copy(update={"search_seconds": 1.0})):
        verbs.publish(server.account("provider"), sketches["good"])
        requester = server.account("requester")
        with held(server):
            search = verbs.wait(requester, verbs.ask(requester, sketches["train"]).json()["id"])
        assert search["status"] == "failed" and search["error"]["code"] == "too_long"


def test_results_expire(stage: Any, sketches: Bytes, verbs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server, requester = stage
    id = requester.get("/v1/searches").json()["items"][0]["id"]
    server.app.state.platform.tidy()
    assert requester.get(f"/v1/searches/{id}/result").status_code == 200
    monkeypatch.setattr("saibot.platform.searches.days_ago", lambda days: "9999")
    server.app.state.platform.tidy()
    assert requester.get(f"/v1/searches/{id}/result").status_code == 404
    assert not (server.settings.data / "searches" / id).exists()


def test_one_requester_cannot_fill_the_queue(stage: Any, sketches: Bytes, verbs: Any) -> None:
    server, requester = stage
    other = server.account("requester")
    most = server.settings.searches_per_requester
    with held(server):
        mine = [verbs.ask(requester, sketches["train"]) for _ in range(most + 1)]
        assert [answer.status_code for answer in mine] == [202] * most + [422]
        assert mine[-1].json()["error"]["code"] == "over_quota"
        theirs = verbs.ask(other, sketches["train"]).json()["id"]
        for answer in mine[2:-1]:
            requester.delete(f"/v1/searches/{answer.json()['id']}")
    assert verbs.wait(other, theirs)["status"] == "done"


def test_a_worker_does_not_outlive_its_platform() -> None:
    program = (
        "import os, signal; from saibot.platform.jobs.process import WorkerProcess\n"
        "worker = WorkerProcess(); print(worker._start().pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    pid = int(told.stdout)
    until(lambda: not alive(pid))


def test_a_worker_that_stands_still_does_not_outlive_its_platform_either() -> None:
    program = (
        "import os, signal, time; from saibot.platform.jobs.process import WorkerProcess\n"
        "worker = WorkerProcess(); print(worker._start().pid, flush=True); worker.pause(); time.sleep(0.5)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    until(lambda: not alive(int(told.stdout)))


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in open(f"/proc/{pid}/status").read()
    except (FileNotFoundError, ProcessLookupError):  # the latter where it goes between opening and reading
        return False
