"""Searches as jobs: they run beside the API, tell how they go, and belong to whoever asked."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from saibot.wire import Result

Bytes = dict[str, bytes]


@pytest.fixture(scope="module")
def stocked(server: Any, module_sketches: Bytes, verbs: Any) -> Any:
    """The server with something to find on it."""
    provider = server.account("provider")
    for name in ("good", "useless", "whole"):
        assert verbs.publish(provider, module_sketches[name]).status_code == 201
    return server


def test_a_search_finds_what_was_published_just_before_it(stocked: Any, sketches: Bytes, verbs: Any) -> None:
    requester = stocked.account("requester")
    answer = verbs.ask(requester, sketches["train"], sketches["test"])
    assert answer.status_code == 202, answer.text
    search = verbs.wait(requester, answer.json()["id"])
    assert search["status"] == "done", search
    assert search["progress"]["part"] == 1.0 and search["error"] is None
    document = requester.get(f"/v1/searches/{search['id']}/result").json()
    assert document["at_home"] is False  # so that whoever takes it along may ask here for what was chosen
    assert Result.read(document, "the answer").target == "sales"
    assert document["steps"][0]["dataset"] != "noise"
    assert document["steps"][-1]["test_r2"] > document["base"]["test_r2"] + 0.2


def test_the_confidence_of_intervals_is_the_one_that_was_asked_for(stocked: Any, sketches: Bytes, verbs: Any) -> None:
    requester = stocked.account("requester")
    widths = []
    for confidence in (0.5, 0.99):
        id = verbs.ask(requester, sketches["train"], interval=confidence).json()["id"]
        assert verbs.wait(requester, id)["status"] == "done"
        found = Result.read(requester.get(f"/v1/searches/{id}/result").json(), "the answer")
        assert found.interval_confidence == confidence
        low, high = found.ranked[0].interval
        widths.append(high - low)
    assert widths[0] < 0.5 * widths[1]


def test_progress_comes_as_events_and_ends_with_how_it_ended(stocked: Any, sketches: Bytes, verbs: Any) -> None:
    requester = stocked.account("requester")
    id = verbs.ask(requester, sketches["train"]).json()["id"]
    events = list(read_events(requester, id))
    assert [name for name, _ in events[:-1]] == ["progress"] * (len(events) - 1)
    assert events[-1][0] == "done" and events[-1][1]["status"] == "done"
    assert all(search["id"] == id and search["progress"]["stage"] for _, search in events)
    assert [name for name, _ in read_events(requester, id)] == ["done"]  # watching what is over says so at once


def test_a_search_that_cannot_be_answered_fails_with_the_reason(stocked: Any, sketches: Bytes, verbs: Any) -> None:
    requester = stocked.account("requester")
    id = verbs.ask(requester, sketches["train"], sketches["train"]).json()["id"]
    search = verbs.wait(requester, id)
    assert search["status"] == "failed"
    assert search["error"]["code"] == "invalid_input" and "same" in search["error"]["message"]
    assert search["error"]["hint"]
    refused = requester.get(f"/v1/searches/{id}/result")
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "not_done"


def test_a_result_is_removed_when_its_requester_says_so(stocked: Any, sketches: Bytes, verbs: Any) -> None:
    requester = stocked.account("requester")
    id = verbs.ask(requester, sketches["train"]).json()["id"]
    verbs.wait(requester, id)
    assert id in [search["id"] for search in requester.get("/v1/searches").json()["items"]]
    assert requester.delete(f"/v1/searches/{id}").status_code == 204
    assert requester.get(f"/v1/searches/{id}").status_code == 404
    assert not (stocked.settings.data / "searches" / id).exists()


def test_the_sketches_of_a_request_are_gone_when_it_is_over(stocked: Any, sketches: Bytes, verbs: Any) -> None:
    requester = stocked.account("requester")
    id = verbs.ask(requester, sketches["train"]).json()["id"]
    verbs.wait(requester, id)
    folder, until = stocked.settings.data / "searches" / id, time.monotonic() + 60
    while (left := [path.name for path in folder.iterdir()]) != ["result.json"] and time.monotonic() < until:
        time.sleep(0.02)  # "done" is said first
    assert left == ["result.json"]


@pytest.mark.parametrize(
    "options, told",
    [
        ({"target": "nothing"}, "target"),
        ({"steps": 0}, "steps"),
        ({"confidence": 1.5}, "confidence"),
        ({"unknown": 1}, "unknown"),
        ({"features": "price"}, "features"),
        ({"rank": "best"}, "usable, potential or expected"),
        ({"strategy": "exhaustive", "joins": False}, "combinations of joins"),
        ({"engine": "threads"}, "engine"),
        ({"always_first": True}, "always_first"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_once(
    stocked: Any, sketches: Bytes, verbs: Any, options: dict[str, Any], told: str
) -> None:
    requester = stocked.account("requester")
    answer = verbs.ask(requester, sketches["train"], **options)
    assert answer.status_code == 422
    assert told in answer.json()["error"]["message"]


def test_a_request_must_be_sketches(stocked: Any, sketches: Bytes, verbs: Any) -> None:
    requester = stocked.account("requester")
    answer = verbs.ask(requester, b"shop,sales\n01,3\n")
    assert answer.status_code == 422 and "saibot privatize" in answer.json()["error"]["hint"]
    assert requester.post("/v1/searches", json={"target": "sales"}).status_code == 415
    assert requester.post("/v1/searches", files={"test": b"x"}).status_code == 422


def read_events(client: httpx.Client, id: str) -> Any:
    with client.stream("GET", f"/v1/searches/{id}/events") as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))
