"""Whoever holds connections open, or reads and writes too slowly, is cut off; whoever is merely slow is not."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest

from saibot.platform import Settings
from saibot.platform.api import connections
from saibot.platform.api.connections import Connections
from saibot.platform.limits import network_of
from saibot.platform.metrics import Metrics

HEAD = b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\n"
BODY = b"POST /v1/datasets HTTP/1.1\r\nHost: x\r\n%sContent-Length: 1000000\r\n\r\n"


@pytest.fixture
def impatient(fresh: Settings, start_over_http: Any) -> Iterator[Any]:
    """A server that waits for nobody; longer than a busy machine may stand still between two lines of a test."""
    yield from start_over_http(
        fresh.model_copy(update={"head_seconds": 3.0, "patience_seconds": 3.0, "keys_per_domain": 1_000_000})
    )


@pytest.fixture
def narrow(fresh: Settings, start_over_http: Any) -> Iterator[Any]:
    """A server that waits, for few."""
    few = {"head_seconds": 300.0, "connections_per_address": 20, "streams_per_account": 3}
    yield from start_over_http(fresh.model_copy(update=few))


def place(server: Any) -> tuple[str, int]:
    url = server.client().base_url
    return url.host, url.port


@contextmanager
def callers(server: Any, count: int, *, of: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    with ExitStack() as held:
        opened = [socket.create_connection(place(server), timeout=30, source_address=(of, 0)) for _ in range(count)]
        yield [held.enter_context(one) for one in opened]


def heard(caller: socket.socket) -> bytes:
    """All that the server says until it hangs up."""
    parts = []
    try:
        while part := caller.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def refusal(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert set(error) == {"code", "message", "hint", "details"} and b"connection: close" in head.lower()
    return int(head.split()[1]), error["code"]


def counted(server: Any, reason: str) -> float:
    text = server.client().get("/metrics").text
    found = re.search(rf'saibot_refused_connections_total{{reason="{reason}"}} (\S+)', text)
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize("sent", [b"", b"GET", HEAD, b"\r\n"])
def test_a_head_that_does_not_end_is_closed(impatient: Any, sent: bytes) -> None:
    with callers(impatient, 5) as opened:
        for one in opened:
            one.sendall(sent)
        assert {refusal(heard(one)) for one in opened} == {(408, "slow_head")}
    assert counted(impatient, "slow_head") == 5


def test_a_head_that_trickles_is_closed_and_so_is_one_behind_an_answer(impatient: Any) -> None:
    with callers(impatient, 2) as (trickling, second):
        second.sendall(HEAD + b"\r\n")
        assert second.recv(1 << 16).startswith(b"HTTP/1.1 200")
        second.sendall(b"\r\n")  # between two requests
        started = time.monotonic()
        answer = b""
        trickling.sendall(HEAD)
        trickling.settimeout(0.1)
        while not answer and time.monotonic() < started + 30:
            with suppress(ConnectionError):  # it has hung up; what it said before that is still there
                trickling.sendall(b"X-More: 1\r\n")
            with suppress(TimeoutError):
                answer = trickling.recv(1 << 16)
        assert refusal(answer) == (408, "slow_head")
        assert refusal(heard(second)) == (408, "slow_head")


def test_a_head_without_end_is_cut_off_before_it_is_kept(impatient: Any) -> None:
    with callers(impatient, 1) as (caller,):
        caller.sendall(HEAD)
        sent = 0
        with suppress(OSError):  # it hangs up
            while sent < 100 << 20:
                sent += caller.send(b"X-More: " + b"y" * 4000 + b"\r\n")
        assert sent < 20 << 20
    assert counted(impatient, "large_head") == 1


def test_a_body_that_trickles_is_closed_of_an_account_and_of_nobody(impatient: Any) -> None:
    own = b"Authorization: %s\r\n" % impatient.account("provider").headers["Authorization"].encode()
    with callers(impatient, 2) as (nobody, account):
        nobody.sendall(BODY % b"")
        account.sendall(BODY % own + b"x")
        assert heard(nobody).startswith(b"HTTP/1.1 401")  # answered at once; what is left of its body is not waited for
        assert refusal(heard(account)) == (408, "slow_body")


def test_a_body_that_comes_steadily_takes_its_time(fresh: Settings, start_over_http: Any) -> None:
    for server in start_over_http(fresh.model_copy(update={"patience_seconds": 4.0})):
        own = b"Authorization: %s\r\n" % server.account("provider").headers["Authorization"].encode()
        with callers(server, 1) as (caller,):
            caller.sendall(BODY.replace(b"1000000", b"80000") % own)
            for _ in range(80):  # twice as long as anybody waits for one that does not come
                caller.sendall(b"x" * 1000)
                time.sleep(0.1)
            assert caller.recv(1 << 16).startswith(b"HTTP/1.1 422")


def test_an_answer_that_nobody_reads_is_not_kept(impatient: Any, sketches: dict[str, bytes], verbs: Any) -> None:
    provider = impatient.account("provider")
    keys = b"key\n" + b"".join(b"%06d\n" % number for number in range(1_000_000))
    assert provider.put("/v1/domains/numbers/1", content=keys, headers={"Content-Type": "text/csv"}).status_code == 201
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect(place(impatient))
        caller.sendall(b"GET /v1/domains/numbers/1/file HTTP/1.1\r\nHost: x\r\n\r\n")
        end = time.monotonic() + 60
        while not counted(impatient, "unread") and time.monotonic() < end:
            time.sleep(0.1)
    assert counted(impatient, "unread") == 1
    assert impatient.client().get("/v1/domains/numbers/1/file").content == keys  # to one who reads it comes whole


def test_an_address_has_so_many_connections_and_another_has_its_own(narrow: Any) -> None:
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
    with callers(narrow, 20), httpx.Client(transport=elsewhere, base_url=narrow.client().base_url) as other:
        with callers(narrow, 1) as (more,):
            more.sendall(HEAD + b"\r\n")
            assert refusal(answer := heard(more)) == (429, "crowded") and b"retry-after: 5" in answer.lower()
        with callers(narrow, 1) as (silent,):
            assert refusal(heard(silent)) == (429, "crowded")
        assert other.get("/v1/datasets").status_code == 200
    end = time.monotonic() + 30
    while (answer := narrow.client().get("/v1/datasets").status_code) == 429 and time.monotonic() < end:
        time.sleep(0.1)
    assert answer == 200  # those that are closed are counted no longer


def test_whoever_is_refused_very_often_is_not_even_answered(narrow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LINGERING", 3)
    with callers(narrow, 60) as opened:
        answers = [heard(one) for one in opened[20:]]
    assert answers.count(b"") >= 30 and any(answer.startswith(b"HTTP/1.1 429") for answer in answers)


def test_a_server_has_so_many_connections(fresh: Settings, start_over_http: Any) -> None:
    for server in start_over_http(fresh.model_copy(update={"connections": 10, "head_seconds": 60.0})):
        with callers(server, 10), callers(server, 1, of="127.0.0.9") as (more,):
            more.sendall(HEAD + b"\r\n")
            assert refusal(heard(more)) == (503, "full")


def test_an_account_watches_so_many_searches_at_a_time(
    narrow: Any, sketches: dict[str, bytes], verbs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = narrow.app.state.platform
    monkeypatch.setattr(here.runner, "_run_one", lambda number, worker: False)  # nothing runs: it stays in the queue
    requester = narrow.account("requester")
    id = verbs.ask(requester, sketches["train"]).json()["id"]
    path = f"/v1/searches/{id}/events"
    with ExitStack() as held:
        streams = [held.enter_context(requester.stream("GET", path)) for _ in range(3)]
        assert [one.status_code for one in streams] == [200] * 3
        refused = requester.get(path)
        assert refused.status_code == 429 and refused.json()["error"]["code"] == "too_many_at_once"
        assert int(refused.headers["retry-after"]) > 0
        assert requester.get(f"/v1/searches/{id}").status_code == 200
    end = time.monotonic() + 30
    while time.monotonic() < end:  # those that are closed are counted no longer
        with requester.stream("GET", path) as again:
            if again.status_code == 200:
                break
        time.sleep(0.1)
    assert again.status_code == 200


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("testclient", "testclient", True),
    ],
)
def test_addresses_of_one_network_are_one_caller(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


@pytest.mark.parametrize(
    ("proxies", "peer", "counted_alone"),
    [
        ((), "10.0.0.5", True),
        (("127.0.0.1",), "10.0.0.5", True),
        (("10.0.0.5",), "10.0.0.5", False),
        (("10.0.0.0/8", "127.0.0.1"), "10.9.9.9", False),
        (("fd00::/16",), "fd00::1", False),
        (("*",), "10.0.0.5", False),
    ],
)
def test_a_proxy_that_is_trusted_has_everybodys_connections(
    fresh: Settings, proxies: tuple[str, ...], peer: str, counted_alone: bool
) -> None:
    class Peer:
        network, refused, loop = network_of(peer), None, None

    guard = Connections(fresh.model_copy(update={"connections_per_address": 1}), Metrics(), proxies=proxies)
    guard._timer = object()  # type: ignore[assignment]  # nothing is looked at
    first, second = Peer(), Peer()
    assert guard.enter(first) is None  # type: ignore[arg-type]
    assert guard.enter(second) == ("crowded" if counted_alone else None)  # type: ignore[arg-type]
