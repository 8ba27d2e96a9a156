"""Whoever waits for long work, which one does at a time, holds none of the few threads that answer, and not for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from saibot.platform import Settings, publishing, reading
from saibot.platform import domains as registered
from saibot.platform.api import asking, datasets
from saibot.platform.jobs.heavy import heavy
from saibot.search.corpus import Corpus

CSV = {"Content-Type": "text/csv"}
PATIENCE = 2.0
ANSWERS = 20.0  # seconds that an answer which waits for nothing may take here


@pytest.fixture
def one(fresh: Settings, start_in_process: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for module in (reading, registered, asking, datasets, publishing):
        monkeypatch.setattr(module, "PATIENCE", PATIENCE, raising=False)
    yield from start_in_process(fresh)


def soon(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Its answer, which waits for nothing. (A client without a network has no timeout of its own.)"""
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(ANSWERS)
    assert answers, "it waits for what others wait for"
    return answers[0]


@contextmanager
def crowd(server: Any, ask: Callable[[httpx.Client, int], httpx.Response], *, accounts: int = 3) -> Iterator[list[Any]]:
    """As many requests at once of some accounts as each may have, five; their answers, once they have come."""
    clients = [server.account("provider") for _ in range(accounts)]
    answers: list[httpx.Response] = []
    threads = [
        threading.Thread(target=lambda n=number: answers.append(ask(clients[n % accounts], n)), daemon=True)
        for number in range(5 * accounts)
    ]
    for thread in threads:
        thread.start()
    yield answers
    for thread in threads:
        thread.join(3 * ANSWERS)
    assert len(answers) == len(threads)


def test_downloads_of_a_list_that_has_to_wait_keep_nobody_else_waiting(one: Any) -> None:
    """Each held a thread, all of them waiting for one lock, as long as packing took: up to half an hour."""
    provider = one.account("provider")
    for number in range(15):
        keys = b"key\n" + b"".join(b"%d-%06d\n" % (number, n) for n in range(40_000))
        assert provider.put(f"/v1/domains/list{number}/1", content=keys, headers=CSV).status_code == 201
    assert provider.put("/v1/domains/short/1", content=b"key\na\n", headers=CSV).status_code == 201
    packing = heavy()._lock
    packing.acquire()
    try:
        with crowd(one, lambda client, n: client.get(f"/v1/domains/list{n if n < 10 else 0}/1/file")) as answers:
            other = one.client()
            assert soon(lambda: other.get("/v1/datasets")).status_code == 200
            assert soon(lambda: other.get("/v1/domains/short/1/file")).content == b"key\na\n"
        assert {answer.status_code for answer in answers} == {503}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
    finally:
        packing.release()
    assert one.client().get("/v1/domains/list3/1/file").content.startswith(b"key\n3-000000\n")


def test_a_large_upload_does_not_wait_for_packing_without_end(one: Any) -> None:
    packing = heavy()._lock
    packing.acquire()
    try:
        keys = b"key\n" + b"".join(b"%06d\n" % n for n in range(60_000))
        provider = one.account("provider")
        answer = soon(lambda: provider.put("/v1/domains/late/1", content=keys, headers=CSV))
        assert answer.status_code == 503 and answer.headers["retry-after"]
    finally:
        packing.release()


def test_a_withdrawal_that_waits_for_packing_keeps_no_upload_waiting_and_ends_in_time(
    one: Any, verbs: Any, sketches: dict[str, bytes]
) -> None:
    """On SQLite one lock stood for all names: uploads and lists of keys waited with it."""
    provider = one.account("provider")
    gone = verbs.publish(provider, sketches["good"]).json()
    platform = one.app.state.platform
    platform.shards.catch_up()
    with _packing(platform):
        said: list[httpx.Response] = []
        leaving = threading.Thread(target=lambda: said.append(provider.delete(f"/v1/datasets/{gone['id']}")), daemon=True)
        leaving.start()
        _until(lambda: provider.get(f"/v1/datasets/{gone['id']}").status_code == 404)
        other = one.account("provider")
        assert soon(lambda: verbs.publish(other, sketches["useless"])).status_code == 201
        assert soon(lambda: other.put("/v1/domains/wards/1", content=b"key\na\n", headers=CSV)).status_code == 201
        leaving.join(ANSWERS)
        assert said and said[0].status_code == 503 and "out of all lists" in said[0].json()["error"]["message"]
    platform.withdrawing.tidy()
    assert gone["digest"] not in Corpus(platform.shards.folder).digests
    assert not list(Path(platform.settings.data / "sketches").rglob(f"{gone['digest']}*"))


def test_many_withdrawals_that_wait_for_packing_keep_nobody_else_waiting(one: Any) -> None:
    """They leave all lists at once, and their data when packing is over."""
    platform = one.app.state.platform
    waits = threading.Event()

    def withdraw(caller: Any, id: str, *, patience: float = PATIENCE) -> None:
        waits.wait(3 * ANSWERS if patience else 0)

    platform.withdraw, platform.withdrawing.check_may_withdraw = withdraw, lambda caller, id: None
    with crowd(one, lambda client, n: client.delete(f"/v1/datasets/d{n}")) as answers:
        other = one.client()
        try:
            assert soon(lambda: other.get("/v1/datasets")).status_code == 200
        finally:
            waits.set()
    assert {answer.status_code for answer in answers} == {204}


def test_a_list_that_opens_levels_of_what_is_there_is_registered_while_shards_are_packed(
    one: Any, verbs: Any, sketches: dict[str, bytes]
) -> None:
    found = verbs.publish(one.account("provider"), sketches["good"]).json()
    digest, shards = found["key"]["parts"][0]["digest"], one.app.state.platform.shards
    shards.catch_up()
    with _packing(one.app.state.platform):
        opened = threading.Thread(target=shards.repack, args=(digest,), daemon=True)
        opened.start()
        opened.join(ANSWERS)
        assert not opened.is_alive()
    assert shards.catch_up() == 1 or not shards._known_now, "by this, or by whoever packs in the background"


@contextmanager
def _packing(platform: Any) -> Iterator[None]:
    """As long as somebody changes the shards."""
    begun, ended = threading.Event(), threading.Event()

    def pack() -> None:
        with platform.shards._turn():
            begun.set()
            ended.wait(6 * ANSWERS)

    thread = threading.Thread(target=pack, daemon=True)
    thread.start()
    assert begun.wait(ANSWERS)
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(1200):
        if is_so():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it never is")
