"""Several servers as processes: one that is killed or restarted costs nobody a request or a search."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.server_processes import Balancer, ServerProcess


@pytest.fixture
def processes(
    postgres: Callable[[], str], store: tuple[str, dict[str, bytes]], tmp_path: Path
) -> Iterator[list[ServerProcess]]:
    database = postgres()
    each = [ServerProcess(tmp_path / n, database, store[0], {"SAIBOT_DRAIN_SECONDS": "60"}) for n in "ab"]
    for one in each:
        one.start()
    yield each
    for one in each:
        one.kill()


def clients(processes: list[ServerProcess], account: str, *roles: str) -> list[httpx.Client]:
    """The same new account at each server."""
    admin = {"Authorization": f"Bearer {processes[0].admin_token()}"}
    asked = {"json": {"name": account, "roles": roles}, "headers": admin, "timeout": 60}
    made = httpx.post(f"{processes[0].address}/v1/tokens", **asked).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    return [httpx.Client(base_url=one.address, headers=headers, timeout=60) for one in processes]


@pytest.mark.fault
def test_a_server_that_is_killed_loses_nothing_and_the_other_ends_its_search(
    processes: list[ServerProcess], sketches: dict[str, bytes], verbs: Any
) -> None:
    one = processes[0]
    published = verbs.publish(clients(processes, "clinic", "provider")[0], sketches["good"])
    assert published.status_code == 201
    first, second = clients(processes, "asker", "requester")
    id = verbs.ask(second, sketches["train"], sketches["test"]).json()["id"]  # published through one, searched by the other
    assert verbs.wait(second, id)["status"] == "done"
    assert (
        first.get(f"/v1/searches/{id}/result").json()["steps"][0]["digest"] in second.get(f"/v1/searches/{id}/result").text
    )
    for _ in range(20):  # until the search of a worker that stands still is under way at the first server
        one.hold_workers()
        id = verbs.ask(first, sketches["train"], sketches["test"]).json()["id"]
        time.sleep(2)
        if first.get(f"/v1/searches/{id}").json()["status"] == "running":
            break
    one.kill()
    found = verbs.wait(second, id)
    assert found["status"] == "done", found
    assert second.get(f"/v1/searches/{id}/result").status_code == 200
    asked = [one["id"] for one in second.get("/v1/searches").json()["items"]]
    assert {verbs.wait(second, one)["status"] for one in asked} == {"done"}
    took = [one for one in asked if second.get(f"/v1/searches/{one}/result").json()["steps"]]
    uses = second.get(f"/v1/datasets/{published.json()['id']}").json()["uses"]
    assert uses["total"] == uses["lately"] == len(took) >= 2, "a search counts once, however often it was begun"


@pytest.mark.fault
def test_servers_are_restarted_one_after_the_other_without_a_failed_request(
    processes: list[ServerProcess], sketches: dict[str, bytes], verbs: Any
) -> None:
    token = clients(processes, "clinic", "provider", "requester")[0].headers["Authorization"]
    headers = {"Authorization": token}
    failed: list[str] = []
    sent, over = 0, threading.Event()
    with Balancer([one.address for one in processes]) as balancer:

        def load(number: int) -> None:
            nonlocal sent
            turn = 0
            while not over.wait(0.02):
                turn += 1
                try:
                    if turn % 5:
                        answer = balancer.send("GET", "/v1/datasets", headers=headers)
                    else:
                        answer = balancer.send("POST", "/v1/datasets", headers=headers, content=sketches["good"])
                    if answer.status_code >= 500:
                        failed.append(f"{answer.status_code} {answer.text}")
                except httpx.HTTPError as problem:
                    failed.append(repr(problem))
                sent += 1

        threads = [threading.Thread(target=load, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for one in processes:
            one.leave()
            while not balancer.has_left(one.address):
                time.sleep(0.02)
            assert one.stop() == 0
            one.start()
            while not balancer.is_ready(one.address):
                time.sleep(0.05)
        over.set()
        for thread in threads:
            thread.join()
    assert failed == [] and sent > 100
