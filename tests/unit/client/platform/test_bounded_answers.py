"""An answer that unfolds beyond all measure is refused while it comes in, however it is packed and whatever its status."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from saibot.client import cache as sketch_cache
from saibot.client import platform as platforms
from saibot.client import transport, unpacking
from saibot.client.documents import DOCUMENT, PAGE, REFUSAL, RESULT, Most
from saibot.client.errors import NotFound, PlatformError, PlatformUnreachable
from saibot.client.job import Job, read_events
from saibot.client.platform import Platform
from saibot.client.transport import Wire
from saibot.errors import InvalidDomain, InvalidSketch, SaibotError
from saibot.sketch import KeyDomain
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
                server.asked.append({name.lower(): value for name, value in self.headers.items()})
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
        self.asked: list[dict[str, str]] = []  # the heads of requests
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
    hostile.answers["/v1/me"] = (200, {}, b'{"a": 1}')
    assert wire.json("GET", "/v1/me") == {"a": 1}
    with wire.stream("/v1/me") as response:
        assert b"".join(response.iter_bytes()) == b'{"a": 1}'
    assert [asked["accept-encoding"] for asked in hostile.asked] == ["gzip", "gzip", "identity"]


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
        (200, "gzip", "streamed", "refused"),  # what is streamed is asked for as it is
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
    assert int(grown) < (2 * DOCUMENT.bytes >> 20) + 60 if how == "whole" else int(grown) < 50


@pytest.mark.parametrize("most", [DOCUMENT, PAGE, RESULT])
def test_an_answer_has_a_largest_size(hostile: HostilePlatform, wire: Wire, most: Most) -> None:
    hostile.answers["/v1/me"] = (200, {"content-encoding": "gzip"}, bomb((most.bytes >> 20) + 1))
    with pytest.raises(PlatformUnreachable, match="answers with more than"):
        wire.json("GET", "/v1/me", most=most)


SMALL = ("{},", "[],", '{"a":1},', "1.5,", '"é",')  # each becomes ten to thirty times as much


@pytest.mark.parametrize("thing", SMALL)
@pytest.mark.parametrize(("path", "most"), [("/v1/me", DOCUMENT), ("/v1/datasets", PAGE), ("/v1/searches/s/result", RESULT)])
def test_many_small_things_take_no_memory(hostile: HostilePlatform, wire: Wire, path: str, most: Most, thing: str) -> None:
    """Within the limit of bytes, and far beyond it in memory: 64 MiB of `{},` were 1.6 GB."""
    times = (most.bytes - 100) // len(thing.encode())
    content = gzip.compress(f'{{"items": [{thing * times}0]}}'.encode(), 1)
    hostile.answers[path] = (200, packed(b""), content)
    tracemalloc.start()
    try:
        with pytest.raises(PlatformUnreachable, match="more things than"):
            list(wire.pages(path)) if most is PAGE else wire.json("GET", path, most=most)
        assert tracemalloc.get_traced_memory()[1] < 4 * most.bytes
    finally:
        tracemalloc.stop()
    refused = f'{{"error": {{"code": "x", "message": "m", "details": [{thing * 300_000}0]}}}}'.encode()
    hostile.answers[path] = (400, packed(b""), gzip.compress(refused, 1))
    with pytest.raises(PlatformError) as caught:
        wire.json("GET", path)
    assert not getattr(caught.value, "details", None)


def test_answers_as_large_as_honest_ones_are_read(hostile: HostilePlatform, wire: Wire) -> None:
    features = [{"name": f"feature {n}", "kind": "numeric", "unit": "m", "lower": 0, "upper": 1} for n in range(1000)]
    cells = [[{"value": 0.123456789, "error": 0.012345678} for _ in range(100)] for _ in range(100)]
    answers: dict[str, tuple[Any, Most]] = {
        "/v1/datasets/d": ({"features": features, "profile": {"correlations": cells}}, DOCUMENT),
        "/v1/datasets": ({"items": [{"features": features[:50]}] * 200, "next": None}, PAGE),
        "/v1/searches/s/result": ({"values": [f"key {n}" for n in range(1_000_000)]}, RESULT),
    }
    for path, (document, most) in answers.items():
        hostile.answers[path] = (200, packed(b""), gzip.compress(json.dumps(document).encode(), 1))
        assert wire.json("GET", path, most=most) == document


def test_pages_have_a_largest_size_together(hostile: HostilePlatform, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LARGEST_LIST", 10_000)
    asked = []

    def page(*_: Any, **__: Any) -> httpx.Response:
        asked.append(1)
        return httpx.Response(200, json={"items": ["x" * 1000], "next": f"page-{len(asked)}"})

    monkeypatch.setattr(wire, "send", page)
    with pytest.raises(PlatformUnreachable, match="without end"):
        list(wire.pages("/v1/datasets"))
    assert len(asked) == 10


def test_a_refusal_of_what_is_streamed_says_why_and_has_an_end(hostile: HostilePlatform, wire: Wire) -> None:
    said = {"error": {"code": "gone", "message": "it is gone.", "hint": "Look elsewhere.", "details": {}}}
    hostile.answers["/gone"] = (404, {"content-encoding": "gzip"}, gzip.compress(json.dumps(said).encode()))
    with pytest.raises(NotFound, match="it is gone"), wire.stream("/gone"):
        pass
    hostile.answers["/gone"] = (404, {}, b" " * (REFUSAL.bytes + 1))
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

    def page(*_: Any, **__: Any) -> httpx.Response:
        asked.append(1)
        return httpx.Response(200, json={"items": [{}] * 100, "next": f"page-{len(asked)}"})

    monkeypatch.setattr(wire, "send", page)
    monkeypatch.setattr(transport, "LONGEST_LIST", 1000)
    with pytest.raises(PlatformUnreachable, match="without end"):
        list(wire.pages("/v1/datasets"))
    empty = {"items": [], "next": f"page-{len(asked)}"}
    monkeypatch.setattr(wire, "send", lambda *_, **__: httpx.Response(200, json=empty))
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


# ------------------------------------------------------------------------------------------------ key domains


def told(size: int, levels: tuple[str, ...] = ()) -> bytes:
    facts = {"id": "wards", "version": 1, "size": size, "digest": "0" * 64, "keys_digest": "0" * 64, "levels": levels}
    return json.dumps(facts | {"provider": "a", "registered": "2026-01-01T00:00:00Z"}).encode()


MANY = 1_000_000
FILES = {
    "more keys than was said": ((2, ()), b"key\n" + b"a\nb\n" * MANY, "more keys"),
    "more keys on lines that end otherwise": ((2, ()), b"key\r" + b"a\rb\r" * MANY, "more keys"),
    "more columns than was said": ((2, ("region",)), b"key" + b",ab" * 100_000 + b"\na,b\n", "more columns"),
    "a first line without end": ((100_000, ()), b"ab," * MANY, "too long"),
    "a later line without end": ((100_000, ("region",)), b"key,region\n" + b"ab," * MANY, "too long"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_key_domain_is_as_large_as_was_said(hostile: HostilePlatform, case: str) -> None:
    said, content, why = FILES[case]
    hostile.answers["/v1/domains/wards/1"] = (200, {}, told(*said))
    hostile.answers["/v1/domains/wards/1/file"] = (200, packed(b""), gzip.compress(content, 1))
    tracemalloc.start()
    try:
        with Platform(hostile.address) as platform, pytest.raises((InvalidDomain, PlatformUnreachable), match=f"{why}|MiB"):
            platform.domain("wards")
        assert tracemalloc.get_traced_memory()[1] < 7 * len(content) + (10 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, -1, 10**9])
def test_a_key_domain_that_is_said_to_be_larger_than_any_is_not_asked_for(hostile: HostilePlatform, size: int) -> None:
    hostile.answers["/v1/domains/wards/1"] = (200, {}, told(size))
    with Platform(hostile.address) as platform, pytest.raises(InvalidDomain, match="larger than key domains are"):
        platform.domain("wards")
    assert len(hostile.asked) == 1


def test_the_bytes_of_a_key_domain_go_by_its_keys(hostile: HostilePlatform) -> None:
    hostile.answers["/v1/domains/wards/1"] = (200, {}, told(10))
    hostile.answers["/v1/domains/wards/1/file"] = (200, packed(b""), bomb(50))
    with Platform(hostile.address) as platform, pytest.raises(PlatformUnreachable, match="answers with more than 1"):
        platform.domain("wards")


def test_large_key_domains_are_read_one_after_the_other(hostile: HostilePlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = KeyDomain.of("wards", [str(n) for n in range(20)])
    monkeypatch.setattr(platforms, "LARGE", 10)
    held = []

    def read(*_: Any, **__: Any) -> KeyDomain:
        held.append(platforms._ONE_LARGE.locked())
        return domain

    monkeypatch.setattr(platforms, "domain_from_csv", read)
    hostile.answers["/v1/domains/wards/1/file"] = (200, {}, b"")
    for size in (20, 10):
        facts = json.loads(told(size)) | {"digest": domain.digest}
        hostile.answers["/v1/domains/wards/1"] = (200, {}, json.dumps(facts).encode())
        with Platform(hostile.address) as platform:
            assert platform.domain("wards") == domain
    assert held == [True, False]


# ------------------------------------------------------------------------------------------------ sketches


LOOKED_AT = """
import resource, sys
from pathlib import Path
from saibot.errors import InvalidSketch
from saibot.sketch.file import read_header, read_sketch
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for read in (read_header, read_sketch):
    try:
        read(Path(sys.argv[1]))
    except InvalidSketch:
        print("refused", end=" ")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_a_large_file_that_is_no_sketch_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "large.saibot"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    command = [sys.executable, "-c", LOOKED_AT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ, check=True)
    *said, grown = done.stdout.split()
    assert said == ["refused", "refused"] and int(grown) < 100


def test_large_sketches_are_looked_at_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []

    def read(path: Path) -> Any:
        held.append(sketch_cache._ONE_LARGE.locked())
        raise InvalidSketch("it is none.")

    monkeypatch.setattr(sketch_cache, "LARGE_FILE", 10)
    monkeypatch.setattr(sketch_cache, "read_sketch", read)
    for size in (20, 10):
        (tmp_path / "file").write_bytes(b"x" * size)
        assert not sketch_cache._is_sketch(tmp_path / "file", "0" * 64)
    assert held == [True, False]
