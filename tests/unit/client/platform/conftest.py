"""A platform in a few lines, for tests of the client alone: it keeps what it is sent and can be told to misbehave."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import httpx
import pytest

from saibot.client.platform import Platform
from saibot.domains.csv_text import domain_from_csv, domain_to_csv
from saibot.sketch import KeyDomain, Sketch, read_sketch, write_sketch
from saibot.wire import Dataset


class FakePlatform:
    def __init__(self) -> None:
        self.sketches: dict[str, bytes] = {}
        self.domains: dict[tuple[str, int], KeyDomain] = {}
        self.asked: list[httpx.Request] = []
        self.cut_after: int | None = None  # bytes of a download after which the connection breaks, once
        self.ignores_ranges = False
        self.events: list[list[dict[str, Any]]] = []  # one list per connection
        self.result: dict[str, Any] = {}

    def client(self, token: str | None = "saibot_test") -> Platform:
        made = Platform("http://platform.test", token, httpx.MockTransport(self))
        made.wire._sleep = lambda seconds: None
        return made

    def add(self, sketch: Sketch) -> None:
        self.sketches[sketch.digest] = write_sketch(sketch)

    def asked_for(self, path: str) -> list[httpx.Request]:
        return [request for request in self.asked if re.fullmatch(path, request.url.path)]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        method, parts = request.method, request.url.path.strip("/").split("/")[1:]
        match method, parts:
            case "GET", ["me"]:
                return httpx.Response(200, json={"name": "someone", "roles": ["provider", "requester"]})
            case "GET", ["sketches", digest]:
                return self._download(request, digest)
            case "GET", ["corpus"]:
                items = [
                    {"id": f"d{digest[:16]}", "digest": digest, "bytes": len(content), "dataset": "x"}
                    | {"provider": "someone", "key": None, "domain": None}
                    for digest, content in self.sketches.items()
                ]
                return httpx.Response(200, json={"items": items, "next": None})
            case "POST", ["datasets"]:
                sketch = read_sketch(request.content)
                self.add(sketch)
                return httpx.Response(201, json=self._dataset(sketch))
            case "PUT", ["domains", id, version]:
                self.domains[id, int(version)] = domain_from_csv(request.content, id=id, version=int(version))
                return httpx.Response(201, json=self._domain(id, int(version)))
            case "GET", ["domains", id, version] if (id, int(version)) in self.domains:
                return httpx.Response(200, json=self._domain(id, int(version)))
            case "GET", ["domains", id, version, "file"]:
                return httpx.Response(200, content=domain_to_csv(self.domains[id, int(version)]))
            case "POST", ["searches"]:
                return httpx.Response(202, json=self.search("queued"))
            case "GET", ["searches", _, "events"]:
                return self._events()
            case "GET", ["searches", _, "result"]:
                return httpx.Response(200, json=self.result)
            case "GET", ["searches", _]:
                return httpx.Response(200, json=self.search("running"))
            case "DELETE", _:
                return httpx.Response(204)
        return httpx.Response(404, json={"error": {"code": "not-found", "message": "not there.", "hint": None}})

    @staticmethod
    def search(status: str, **more: Any) -> dict[str, Any]:
        times = {"created": "2013-01-01T00:00:00Z", "started": None, "finished": None}
        progress = {"stage": status, "part": None}
        facts = {"id": "s1", "requester": "someone", "status": status, "progress": progress, "target": "sales"}
        return facts | times | {"error": None} | more

    def _events(self) -> httpx.Response:
        events = self.events.pop(0)

        def stream() -> Any:
            yield b": hello\n\n"
            for event in events:
                if event.get("break"):
                    raise httpx.ReadError("cut")
                yield f"event: progress\ndata: {json.dumps(event)}\n\n".encode()

        return httpx.Response(200, content=stream(), headers={"content-type": "text/event-stream"})

    def _download(self, request: httpx.Request, digest: str) -> httpx.Response:
        content = self.sketches.get(digest)
        if content is None:
            return httpx.Response(404, json={"error": {"code": "not-found", "message": "no such sketch.", "hint": None}})
        start = 0
        if not self.ignores_ranges and (found := re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))):
            start = int(found[1])
            if start >= len(content):
                return httpx.Response(416, json={"error": {"code": "range", "message": "no such range.", "hint": None}})
        rest, cut = content[start:], self.cut_after
        self.cut_after = None

        def stream() -> Any:
            yield rest[:cut] if cut is not None else rest
            if cut is not None:
                raise httpx.ReadError("cut")

        return httpx.Response(206 if start else 200, content=stream(), headers={"etag": f'"{digest}"'})

    def _domain(self, id: str, version: int) -> dict[str, Any]:
        domain = self.domains[id, version]
        return {
            "id": id,
            "version": version,
            "size": len(domain),
            "digest": domain.digest,
            "keys_digest": domain.keys_digest,
            "levels": [name for name, _ in domain.parents],
            "provider": "someone",
            "registered": "2013-01-01T00:00:00Z",
        }

    @staticmethod
    def _dataset(sketch: Sketch) -> dict[str, Any]:
        publication = {"id": "d0123456789abcdef", "provider": "someone", "visibility": "public", "version": 1}
        publication |= {"bytes": 1000, "published": "2013-01-01T00:00:00Z", "expires": None}
        return Dataset.of(sketch, **publication).to_json() | {"a field of a later version": 1}


@pytest.fixture(scope="session")
def sketches(sketches: list[Sketch]) -> list[Sketch]:
    """Sketches without noise that claim to have some: otherwise they would rightly be refused."""
    return [claimed(sketch) for sketch in sketches]


def claimed(sketch: Sketch) -> Sketch:
    assumed = sketch.header.assumptions.model_copy(update={"noise": "exact-integer"})
    header = sketch.header.model_copy(update={"simulation": False, "assumptions": assumed})
    return replace(sketch, header=header).sealed()


@pytest.fixture
def fake() -> FakePlatform:
    return FakePlatform()
