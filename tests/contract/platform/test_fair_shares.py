"""One account cannot keep the others waiting, and an account that is ended keeps nothing running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.jobs.process import Outcome
from saibot.platform.jobs.runner import Runner
from saibot.platform.service import Platform, open_platform
from saibot.wire import Question
from tests.support.serving import ADMIN


@pytest.fixture
def platform(fresh: Settings) -> Iterator[Platform]:
    """Opened and not started: what is asked for stays in the queue."""
    found = open_platform(fresh)
    yield found
    found.close()


def ask(platform: Platform, name: str, sketches: dict[str, bytes]) -> str:
    caller = Caller(name, frozenset({"requester"}), f"t-{name}")
    platform.searches.submit(caller, sketches["train"], sketches["test"], Question(target="sales"))
    return name


def test_whoever_was_served_least_of_late_comes_first_and_not_whoever_asked_first(
    platform: Platform, sketches: dict[str, bytes]
) -> None:
    for name in ("greedy", "greedy", "greedy", "modest", "modest"):
        ask(platform, name, sketches)
    order = []
    for seconds in (900.0, 1.0, 1.0, 1.0, 1.0):
        row = platform.searches.next()
        assert row is not None
        order.append(row["account"])
        platform.searches.end(row["id"], row["account"], Outcome("failed"), seconds=seconds)
    assert order == ["greedy", "modest", "modest", "greedy", "greedy"]


def test_a_thousand_in_the_queue_of_one_do_not_hide_another(platform: Platform, sketches: dict[str, bytes]) -> None:
    for name in (*["many"] * 15, "late"):
        ask(platform, name, sketches)
    assert [platform.searches.next()["account"] for _ in range(2)] == ["many", "late"]  # type: ignore[index]


def test_a_search_that_has_had_its_slice_gives_way_to_another_account_and_goes_on(
    fresh: Settings, start_in_process: Any, sketches: dict[str, bytes], verbs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from saibot.platform.jobs import runner, turns

    monkeypatch.setattr(turns, "SLICE_SECONDS", 0.3)
    monkeypatch.setattr(runner, "LOOK_SECONDS", 0.1)
    for server in start_in_process(fresh):
        here: Platform = server.app.state.platform
        verbs.publish(server.account("provider"), sketches["good"])
        long, short = server.account("requester"), server.account("requester")
        assert verbs.wait(long, verbs.ask(long, sketches["train"]).json()["id"])["status"] == "done"
        os.kill(here.runner.workers[0]._start().pid, signal.SIGSTOP)  # the only worker: its next search would never end
        first = verbs.ask(long, sketches["train"]).json()["id"]
        while long.get(f"/v1/searches/{first}").json()["status"] != "running":
            time.sleep(0.02)
        more = verbs.ask(long, sketches["train"]).json()["id"]
        assert verbs.wait(short, verbs.ask(short, sketches["train"]).json()["id"])["status"] == "done"
        assert {verbs.wait(long, id)["status"] for id in (first, more)} == {"done"}  # it was told to go on


def test_the_limit_of_searches_holds_when_sixty_are_asked_for_at_once(
    tmp_path: Path, fresh: Settings, sketches: dict[str, bytes]
) -> None:
    platform = open_platform(fresh.model_copy(update={"searches_per_requester": 5}))

    def one(_: int) -> bool:
        try:
            ask(platform, "eager", sketches)
        except Exception:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        taken = sum(pool.map(one, range(60)))
    assert taken == 5 and platform.searches.by_status(ADMIN)["queued"] == 5
    assert len(list((fresh.data / "searches").iterdir())) == 5  # what was refused leaves no request behind
    platform.close()


def test_an_admin_stops_anybodys_search_and_the_trail_says_so(platform: Platform, sketches: dict[str, bytes]) -> None:
    ask(platform, "somebody", sketches)
    (search,) = platform.searches.list(ADMIN, None, 10).items
    stopped = platform.searches.cancel(ADMIN, search.id)
    assert stopped is not None and stopped.status == "cancelled"
    assert platform.trail.list(ADMIN, None, 1).items[0]["action"] == "cancel search"
    with pytest.raises(Exception, match="requester's alone"):
        platform.searches.cancel(ADMIN, search.id)  # over: it is its requester's to remove


def test_searches_end_with_the_last_token_of_their_account(platform: Platform, sketches: dict[str, bytes]) -> None:
    tokens = [platform.accounts.create(ADMIN, "guest", ["requester"]).id for _ in range(2)]
    ask(platform, "guest", sketches)
    platform.accounts.revoke(ADMIN, tokens[0])
    assert platform.searches.by_status(ADMIN)["queued"] == 1
    platform.accounts.revoke(ADMIN, tokens[1])
    assert platform.searches.by_status(ADMIN) | {"queued": 0, "cancelled": 1} == platform.searches.by_status(ADMIN)


def test_an_event_stream_ends_when_its_token_does(
    server: Any, sketches: dict[str, bytes], verbs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from saibot.platform.api import searches

    monkeypatch.setattr(searches, "TOKEN_SECONDS", 0.2)
    here: Platform = server.app.state.platform
    requester: httpx.Client = server.account("requester")
    monkeypatch.setattr(here.runner, "_run_one", lambda number, worker: False)  # nothing runs: it stays in the queue
    id = verbs.ask(requester, sketches["train"]).json()["id"]
    lines = []
    with requester.stream("GET", f"/v1/searches/{id}/events") as response:
        for line in response.iter_lines():
            lines.append(line)
            if len(lines) == 1:
                token = here.accounts.caller_of(requester.headers["Authorization"].removeprefix("Bearer ")).token
                other = server.admin.post("/v1/tokens", json={"name": requester.account, "roles": ["requester"]})  # type: ignore[attr-defined]
                assert other.status_code == 201
                server.admin.delete(f"/v1/tokens/{token}")
    assert not any(line.startswith("event: cancelled") for line in lines)


@pytest.mark.parametrize(("engine", "processes"), [("auto", 4), ("spark", 2)])
def test_searches_on_spark_which_cannot_stand_still_have_no_second_set_of_processes(
    platform: Platform, engine: Any, processes: int
) -> None:
    parts = (platform.searches, platform.shards, platform.catalog, platform.providers, platform.log)
    runner = Runner(*parts, workers=2, seconds=1, engine=engine)
    assert len(runner.workers) == processes
