"""What the page of administration calls things."""

from __future__ import annotations

from typing import Any

import pytest

from saibot.platform.pages.admin_words import facts_told, how_far, kept_on_disk
from saibot.wire import Search

DIGEST = "0123456789abcdef" * 4


def search(**facts: Any) -> Search:
    plain = {"id": "s1", "requester": "ana", "created": "2026-03-05T10:00:00+00:00", "started": None, "finished": None}
    return Search.model_validate(plain | {"target": "y", "error": None, "progress": {"stage": "", "part": None}} | facts)


@pytest.mark.parametrize(
    "value, text",
    [
        (["requester", "provider"], "requester, provider"),
        ({"epsilon": "1", "delta": "1e-6"}, "ε\u00a01, δ\u00a010⁻⁶"),
        (DIGEST, "0123456789ab…"),
        (100000, "100,000"),
        ("2026-03-05T10:00:00+00:00", "5 March 2026"),
        ("2026-99-05", "2026-99-05"),
        ("open", "open"),
        (False, "no"),
    ],
)
def test_a_fact_of_the_trail_is_told_by_its_kind(value: object, text: str) -> None:
    (told,) = facts_told({"the_fact": value, "nothing": None})
    assert (told.name, told.text) == ("the fact", text)


def test_all_of_a_digest_stays_at_hand() -> None:
    assert facts_told({"digest": DIGEST})[0].whole == DIGEST


def test_files_are_told_by_what_they_are_and_those_of_one_thing_together() -> None:
    sizes = {"saibot.db": 5, "saibot.db-shm": 1, "saibot.db-wal": 30, "reserve": 7, "lock": 0, "holiday.jpg": 2}
    told = kept_on_disk(sizes)
    assert told[0] == ("Database", "saibot.db, saibot.db-shm, saibot.db-wal", 36)
    assert ("Not of this platform", "holiday.jpg", 2) in told
    assert sum(bytes for _, _, bytes in told) == sum(sizes.values())


def test_a_search_says_how_far_it_is_and_why_it_failed() -> None:
    error = {"code": "died", "message": "it needed more memory than there is.", "hint": "", "details": {}}
    assert how_far(search(status="running", progress={"stage": "scoring", "part": 0.45})) == "scoring, 45 %"
    assert how_far(search(status="queued", progress={"stage": "waiting", "part": None})) == "waiting"
    ended = {"started": "2026-03-05T10:00:00+00:00", "finished": "2026-03-05T10:00:03+00:00"}
    assert how_far(search(status="done", **ended)) == "took 3 s"
    assert how_far(search(status="failed", error=error, **ended)) == error["message"]
