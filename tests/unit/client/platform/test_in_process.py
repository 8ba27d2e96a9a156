"""The in-process transport behaves as a server does: streams both ways, ends, fails, and serves many at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI, Request, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse

from saibot.client.in_process import running

seen: dict[str, object] = {}
left = threading.Event()  # set when the stream of events was ended


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    seen["started"] = threading.current_thread().name
    yield
    seen["ended"] = True


def make_app() -> FastAPI:
    app = FastAPI(lifespan=lifespan)

    @app.post("/echo/{name:path}")
    async def echo(name: str, request: Request) -> JSONResponse:
        body = await request.body()
        return JSONResponse({"name": name, "query": dict(request.query_params), "bytes": len(body)}, status_code=201)

    @app.post("/file")
    async def file(train: UploadFile) -> dict[str, object]:
        return {"name": train.filename, "bytes": len(await train.read())}

    @app.get("/events")
    async def events() -> StreamingResponse:
        async def ticks() -> AsyncIterator[str]:
            try:
                for number in range(10_000):
                    yield f"data: {number}\n\n"
                    await asyncio.sleep(0.01 if number else 0)
            finally:
                left.set()

        return StreamingResponse(ticks(), media_type="text/event-stream")

    @app.get("/fails")
    async def fails() -> None:
        raise RuntimeError("secret reason")

    @app.get("/cut")
    async def cut() -> StreamingResponse:
        async def half() -> AsyncIterator[bytes]:
            yield b"half"
            raise RuntimeError("cut")

        return StreamingResponse(half())

    @app.get("/blocking")
    def blocking() -> dict[str, str]:
        return {"thread": threading.current_thread().name}

    return app


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    seen.clear()
    left.clear()
    with running(make_app()) as transport, httpx.Client(transport=transport, base_url="http://app") as made:
        yield made


def test_a_request_arrives_whole_and_its_answer_comes_back(client):
    answer = client.post("/echo/a%2Fb%20c", params={"x": "1"}, content=b"z" * 3_000_000)
    assert answer.status_code == 201
    assert answer.json() == {"name": "a/b c", "query": {"x": "1"}, "bytes": 3_000_000}


def test_a_body_may_be_a_stream_and_a_file_an_upload(client):
    assert client.post("/echo/x", content=(b"ab" for _ in range(50))).json()["bytes"] == 100
    assert client.post("/file", files={"train": ("t.saibot", b"12345")}).json() == {"name": "t.saibot", "bytes": 5}


def test_events_arrive_while_they_are_sent_and_leaving_ends_them(client):
    with client.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(3)] == ["data: 0", "", "data: 1"]
    assert left.wait(60)


def test_an_app_that_fails_answers_500_as_on_a_server(client):
    answer = client.get("/fails")
    assert answer.status_code == 500 and "secret" not in answer.text


def test_an_answer_that_breaks_off_is_no_whole_answer(client):
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/cut")


def test_many_threads_are_served_at_once(client):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: client.post(f"/echo/{n}", content=b"x" * n).json(), range(60)))
    assert [(answer["name"], answer["bytes"]) for answer in answers] == [(str(n), n) for n in range(60)]


def test_the_app_starts_and_ends_with_the_transport():
    seen.clear()
    with running(make_app()) as transport:
        assert seen["started"] == "saibot-embedded" and "ended" not in seen
        client = httpx.Client(transport=transport, base_url="http://app")
        assert client.get("/blocking").status_code == 200
    assert seen["ended"]
    with pytest.raises(httpx.ConnectError):
        client.get("/blocking")


def test_an_app_that_cannot_start_says_why():
    @asynccontextmanager
    async def broken(app: FastAPI) -> AsyncIterator[None]:
        raise OSError("the data folder is read-only")
        yield

    with pytest.raises(Exception, match="read-only"), running(FastAPI(lifespan=broken)):
        pass
