"""Requests that are short, and meant to cost whoever reads them the square of their length, or to be kept for hours."""

from __future__ import annotations

import http.cookies
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from saibot.platform import Settings
from saibot.platform.api import connections
from saibot.platform.api.headers import plain_headers

BOUNDARY = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n--x--\r\n'


@pytest.fixture
def patient(fresh: Settings, start_over_http: Any) -> Iterator[Any]:
    yield from start_over_http(fresh.model_copy(update={"patience_seconds": 30.0}))


@pytest.fixture
def impatient(fresh: Settings, start_over_http: Any) -> Iterator[Any]:
    yield from start_over_http(fresh.model_copy(update={"patience_seconds": 1.5}))


def connected(server: Any) -> socket.socket:
    url = server.client().base_url
    return socket.create_connection((url.host, url.port), timeout=30)


def own_header(client: Any) -> bytes:
    return b"Authorization: " + client.headers["Authorization"].encode() + b"\r\n"


@pytest.mark.parametrize("path", ["/", "/v1/datasets", "/healthz", "/nowhere"])
def test_no_cookie_of_somebody_else_is_unquoted(server: Any, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    seen: list[str] = []
    monkeypatch.setattr(http.cookies, "_unquote", lambda text: seen.append(text) or text)
    server.client().get(path, headers={"Cookie": 'x="' + "\\\\" * 15_000 + '"; saibot_session="' + "\\\\" * 15_000 + '"'})
    assert seen == []
    server.client().get("/", headers={"Cookie": "other=1; saibot_session=" + "a" * 43})
    assert set(seen) <= {"a" * 43}


def test_our_own_cookies_are_kept_and_a_content_type_that_is_none_is_not() -> None:
    own = b"__Host-saibot_form=aB-_9; theirs=1;saibot_session=x"
    headers = [(b"cookie", own), (b"content-type", b'a; x="' + b";" * 1000), (b"accept", b"*/*")]
    assert plain_headers(headers) == [(b"accept", b"*/*"), (b"cookie", b"__Host-saibot_form=aB-_9; saibot_session=x")]
    many = plain_headers([(b"cookie", b"; ".join(b"saibot_a=%d" % number for number in range(1000)))])
    assert many[0][1].count(b"=") == 4


@pytest.mark.parametrize("charset", ["punycode", "undefined", "idna", "utf-7"])
def test_a_form_chooses_no_codec(server: Any, charset: str) -> None:
    body = PART % (b"token", b"2n7c" + b"a" * 30_000)
    requester = server.account("requester")
    answer = requester.post("/v1/searches", content=body, headers={"Content-Type": f"{BOUNDARY}; charset={charset}"})
    assert answer.status_code == 415 and answer.json()["error"]["hint"]


def test_a_form_has_short_fields_and_few(server: Any, sketches: dict[str, bytes]) -> None:
    requester = server.account("requester")
    long = PART % (b"options", "é".encode() * 40_000)
    many = b"".join((PART % (b"f%d" % number, b"x")).removesuffix(b"--x--\r\n") for number in range(200)) + b"--x--\r\n"
    for body in (long, many):
        answer = requester.post("/v1/searches", content=body, headers={"Content-Type": BOUNDARY})
        assert answer.status_code == 422, answer.text


def test_requests_that_do_not_wait_for_answers_are_few(patient: Any) -> None:
    request = b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(patient) as caller:
        caller.sendall(10 * request)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 10:
            answers += caller.recv(1 << 16)
    with connected(patient) as caller:
        try:
            caller.sendall(7000 * b"GET / HTTP/1.1\r\n\r\n")
            while caller.recv(1 << 16):
                pass
        except ConnectionError:
            pass
    assert 'reason="pipelined"} 1.0' in patient.client().get("/metrics").text


def test_a_fast_beginning_buys_no_hours(impatient: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SAVED_SECONDS", 0.5)
    own = own_header(impatient.account("provider"))
    with connected(impatient) as caller:
        caller.sendall(b"POST /v1/datasets HTTP/1.1\r\nHost: x\r\n%sContent-Length: 10000000\r\n\r\n" % own)
        caller.sendall(b"ARROW1" + b"x" * 200_000)  # which would have bought 200 seconds
        answer = b""
        with suppress(ConnectionError):  # what is left of the body is not read
            while part := caller.recv(1 << 16):
                answer += part
    assert answer.startswith(b"HTTP/1.1 408")


def test_few_bodies_of_an_account_are_taken_at_a_time(patient: Any) -> None:
    account = patient.account("provider")
    assert account.get("/v1/me").status_code == 200  # whose token it is, is known from here on; else an address counts
    own = own_header(account)
    other = patient.account("provider")
    incoming = Path(patient.app.state.platform.incoming)
    callers: dict[socket.socket, bytes] = {}
    with ExitStack() as held:
        for _ in range(8):
            caller = held.enter_context(connected(patient))
            caller.sendall(b"POST /v1/datasets HTTP/1.1\r\nHost: x\r\n%sContent-Length: 10000000\r\n\r\n" % own)
            caller.setblocking(False)
            callers[caller] = b"ARROW1" + b"x" * 3_000_000
        end = time.monotonic() + 60
        while len(whole(incoming)) < 4 and time.monotonic() < end:
            for caller, rest in callers.items():
                with suppress(BlockingIOError):  # what is not taken stays here
                    callers[caller] = rest[caller.send(rest) :] if rest else rest
            time.sleep(0.01)
        answer = other.post("/v1/datasets", content=b"no sketch")
        assert answer.status_code in (415, 422), answer.text  # others do not wait for them
        assert len(whole(incoming)) == 4


def whole(folder: Path) -> list[Path]:
    """Files with all that was sent of them, but for what is written next."""
    return [path for path in folder.iterdir() if path.stat().st_size > 2_500_000]


def test_large_bodies_that_wait_for_each_other_hold_nothing_that_others_need(
    patient: Any, sketches: dict[str, bytes]
) -> None:
    """Twelve searches of one account at once: each needs a turn for its body, and one to be worked on."""
    requester = patient.account("requester")
    content = sketches["train"] + b"x" * 400_000  # no sketch, but it begins like one
    asked = {"data": {"options": '{"target": "delay"}'}, "files": {"train": ("a", content), "test": ("b", content)}}
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: requester.post("/v1/searches", **asked, timeout=60), range(12)))
    assert {answer.status_code for answer in answers} <= {422, 429}, answers


def test_of_a_table_that_is_sent_by_mistake_nothing_reaches_the_disk(
    server: Any, monkeypatch: pytest.MonkeyPatch, sketches: dict[str, bytes], verbs: Any
) -> None:
    import tempfile

    rolled: list[int] = []
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", lambda self: rolled.append(1))
    requester = server.account("requester")
    table = b"name,diagnosis\n" + b"somebody,something\n" * 50_000
    files = {"train": ("patients.csv", table), "test": ("patients.csv", table)}
    answer = requester.post("/v1/searches", files=files, data={"options": '{"target": "delay"}'})
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "invalid_sketch", answer.text
    assert rolled == []
