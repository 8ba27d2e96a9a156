"""An answer that unfolds beyond all measure is refused while it comes in, however it is packed and whatever its status."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from saibot.client import transport, unpacking
from saibot.client.errors import NotFound, PlatformError, PlatformUnreachable
from saibot.client.job import Job, read_events
from saibot.client.transport import Wire
from saibot.errors import SaibotError
from saibot.wire import Search

Answer = tuple[int, dict[str, str], bytes]


class HostilePlatform(ThreadingHTTPServer):
    """Answers whatever it is told to, by path."""

    def __init__(self) -> None:
        answers: dict[str, Answer] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                super().setup()
                server.connections += 1

            def do_GET(self) -> None:
                status, headers, content = answers[self.path.partition("?")[0]]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)
        self.connections = 0
        self.answers = answers
        self.address = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def hostile() -> Iterator[HostilePlatform]:
    server = HostilePlatform()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def wire(hostile: HostilePlatform) -> Wire:
    return Wire(hostile.address, sleep=lambda seconds: None)


def packed(content: bytes) -> dict[str, str]:
    return {"content-encoding": "gzip", "content-type": "application/json"}


@cache
def bomb(megabytes: int) -> bytes:
    return gzip.compress(b" " * (megabytes << 20), 9)


def test_what_is_packed_as_was_asked_for_is_read(hostile: HostilePlatform, wire: Wire) -> None:
    document = {"a": list(range(50_000))}
    hostile.answers["/v1/me"] = (200, {"content-encoding": "gzip"}, gzip.compress(json.dumps(document).encode()))
    assert wire.json("GET", "/v1/me") == document
    with wire.stream("/v1/me") as response:
        assert json.loads(b"".join(response.iter_bytes())) == document
    hostile.answers["/v1/me"] = (200, {}, b'{"a": 1}')
    assert wire.json("GET", "/v1/me") == {"a": 1}


TRIED = """
import resource, sys
from saibot.client.errors import PlatformError
from saibot.client.transport import Wire
wire = Wire(sys.argv[1], sleep=lambda seconds: None)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    if sys.argv[3] == "whole":
        wire.json("GET", sys.argv[2])
    else:
        with wire.stream(sys.argv[2]) as response:
            for part in response.iter_bytes():
                assert len(part) <= 64 << 10
                break
    print("read", end=" ")
except PlatformError as problem:
    print("refused", end=" ")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize(
    ("status", "packing", "how", "ends"),
    [
        (200, "gzip", "whole", "refused"),
        (200, "gzip, gzip", "whole", "refused"),
        (200, "deflate", "whole", "refused"),
        (404, "gzip", "whole", "refused"),
        (404, "gzip", "streamed", "refused"),
        (404, "gzip, gzip", "streamed", "refused"),
        (200, "gzip", "streamed", "read"),  # as far as its reader goes
    ],
)
def test_a_bomb_takes_no_memory(hostile: HostilePlatform, status: int, packing: str, how: str, ends: str) -> None:
    """1.5 MB that unfold to 1.5 GiB, or a few kB that do so in two steps; each in a process whose memory is looked at."""
    content = bomb(1536)
    if packing == "gzip, gzip":
        content = gzip.compress(content, 9)
    hostile.answers["/bomb"] = (status, {"content-encoding": packing}, content)
    command = [sys.executable, "-c", TRIED, hostile.address, "/bomb", how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ, check=True)
    said, grown = done.stdout.split()
    assert said == ends
    assert int(grown) < (2 * transport.LARGEST_ANSWER + (100 << 20)) >> 20 if how == "whole" else int(grown) < 50


def test_an_answer_has_a_largest_size(hostile: HostilePlatform, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LARGEST_ANSWER", 100_000)
    hostile.answers["/v1/me"] = (200, {"content-encoding": "gzip"}, bomb(50))
    with pytest.raises(PlatformUnreachable, match="answers with more than"):
        wire.json("GET", "/v1/me")


def test_a_refusal_of_what_is_streamed_says_why_and_has_an_end(hostile: HostilePlatform, wire: Wire) -> None:
    said = {"error": {"code": "gone", "message": "it is gone.", "hint": "Look elsewhere.", "details": {}}}
    hostile.answers["/gone"] = (404, {"content-encoding": "gzip"}, gzip.compress(json.dumps(said).encode()))
    with pytest.raises(NotFound, match="it is gone"), wire.stream("/gone"):
        pass
    hostile.answers["/gone"] = (404, {}, b" " * (transport.LARGEST_REFUSAL + 1))
    with pytest.raises(PlatformUnreachable, match="answers with more than 1 MiB"), wire.stream("/gone"):
        pass


def test_what_is_not_packed_as_it_says_ends_in_a_sentence(hostile: HostilePlatform, wire: Wire) -> None:
    hostile.answers["/v1/me"] = (200, {"content-encoding": "gzip"}, b"this is not packed at all")
    with pytest.raises(PlatformUnreachable):
        wire.json("GET", "/v1/me")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "soon", "Mon, 99 Foo 99999 00:00:00 GMT"])
def test_no_wait_that_a_platform_asks_for_stops_a_client(hostile: HostilePlatform, wire: Wire, text: str) -> None:
    hostile.answers["/v1/me"] = (503, {"retry-after": text}, b"{}")
    with pytest.raises(PlatformError):
        wire.json("GET", "/v1/me")


def test_documents_without_bottom_are_no_answer(hostile: HostilePlatform, wire: Wire) -> None:
    for status in (200, 400):
        hostile.answers["/v1/me"] = (status, {}, b"[" * 200_000)
        with pytest.raises(PlatformError):
            wire.json("GET", "/v1/me")


def test_a_list_has_an_end(hostile: HostilePlatform, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def page(*_: Any, **__: Any) -> Any:
        asked.append(1)
        return {"items": [{}] * 100, "next": f"page-{len(asked)}"}

    monkeypatch.setattr(wire, "json", page)
    monkeypatch.setattr(transport, "LONGEST_LIST", 1000)
    with pytest.raises(PlatformUnreachable, match="without end"):
        list(wire.pages("/v1/datasets"))
    monkeypatch.setattr(wire, "json", lambda *_, **__: {"items": [], "next": f"{asked.append(1)}{len(asked)}"})
    assert list(wire.pages("/v1/datasets")) == []


def test_events_have_an_end(hostile: HostilePlatform, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile.answers["/events"] = (
        200,
        {},
        b'data: {"a": 1}\n\ndata: {"b":\r\ndata: 2}\r\n\r\ndata: ' + b"[" * 200_000 + b"\n\n",
    )
    with wire.stream("/events") as response:
        found = [one for one in read_events(lambda: unpacking.lines(response)) if one is not None]
        assert found == [{"a": 1}, {"b": 2}]
    hostile.answers["/events"] = (200, {}, b"data: " + b"x" * 100_000)
    monkeypatch.setattr(unpacking, "LONGEST_EVENT", 10_000)
    with pytest.raises(PlatformUnreachable, match="no end"), wire.stream("/events") as response:
        list(unpacking.lines(response))
    for line in (b"data: " + b"x" * 900 + b"\n", b"data:\n"):  # each has an end, and the event has none
        hostile.answers["/events"] = (200, {}, line * 20_000)
        with pytest.raises(PlatformUnreachable, match="no end"), wire.stream("/events") as response:
            list(read_events(lambda: unpacking.lines(response)))


@pytest.mark.parametrize("packed", [False, True])
def test_one_connection_serves_for_many_answers(hostile: HostilePlatform, packed: bool) -> None:
    text = json.dumps({"a": "x" * 2000}).encode()
    headers = {"content-encoding": "gzip"} if packed else {}
    hostile.answers["/v1/a"] = (200, headers, gzip.compress(text) if packed else text)
    hostile.RequestHandlerClass.protocol_version = "HTTP/1.1"  # type: ignore[attr-defined]
    wire = Wire(hostile.address)
    for _ in range(5):
        assert len(wire.json("GET", "/v1/a")["a"]) == 2000
    assert hostile.connections == 1
    wire.close()


def test_what_comes_after_the_end_of_what_is_packed_is_not_waited_for(hostile: HostilePlatform, wire: Wire) -> None:
    hostile.answers["/v1/a"] = (200, {"content-encoding": "gzip"}, gzip.compress(b'{"a": 1}') + os.urandom(4 << 20))
    assert wire.json("GET", "/v1/a") == {"a": 1}


def test_whoever_waits_for_a_search_stops_in_time_though_nothing_is_said_of_it() -> None:
    said = {"id": "s1", "requester": "a", "status": "queued", "progress": {"stage": "waiting", "part": None}}
    said |= {"created": "2026-01-01T00:00:00Z", "started": None, "finished": None, "target": "y", "error": None}

    class Comments(httpx.SyncByteStream):
        sent = 0

        def __iter__(self) -> Iterator[bytes]:
            yield b"event: progress\ndata: " + json.dumps(said).encode() + b"\n\n"
            while self.sent < 1000:
                self.sent += 1
                time.sleep(0.01)
                yield b": still here\n\n"

    comments = Comments()
    kind = {"content-type": "text/event-stream"}
    wire = Wire("http://x", transport=httpx.MockTransport(lambda _: httpx.Response(200, headers=kind, stream=comments)))
    with pytest.raises(SaibotError, match="still under way"):
        Job(wire, Search.model_validate(said)).wait(timeout=0.2)
    assert comments.sent < 500
