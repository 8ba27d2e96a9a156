"""A web application called without a network: an httpx transport that runs an ASGI app on a thread of its own.

Uploads and answers are streamed chunk by chunk, so server-sent events arrive as they are sent and a reader that stops
reading ends the call. Several threads may call at once. The app's start and end (its lifespan) are those of the transport.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import httpx

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

ADDRESS = "http://embedded.saibot"  # of every platform that lives inside its user's process
AHEAD = 16  # chunks of an answer that may wait for their reader


@contextmanager
def running(app: App) -> Iterator[AppTransport]:
    """Start an app, and let it end as it would on a server.

    `with running(app) as transport: Platform("http://embedded", transport=transport)`
    """
    transport = AppTransport(app)
    transport.start()
    try:
        yield transport
    finally:
        transport.stop()


class AppTransport(httpx.BaseTransport):
    """Any number of clients may share it: closing one of them does not end the app, `stop` does."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="saibot-embedded", daemon=True)
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._lifespan: Future[None] | None = None

    # -------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        self._thread.start()
        started: Future[None] = Future()
        self._lifespan = asyncio.run_coroutine_threadsafe(self._live(started), self._loop)
        try:
            started.result()
        except BaseException:
            self._end_loop()
            raise

    def stop(self) -> None:
        if self._lifespan is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._events.put_nowait, {"type": "lifespan.shutdown"})
        try:
            self._lifespan.result(timeout=60)
        finally:
            self._end_loop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _end_loop(self) -> None:
        async def cancel_all() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._loop.shutdown_asyncgens()
            await self._loop.shutdown_default_executor()

        asyncio.run_coroutine_threadsafe(cancel_all(), self._loop).result(timeout=60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=60)
        self._loop.close()

    async def _live(self, started: Future[None]) -> None:
        await self._events.put({"type": "lifespan.startup"})

        async def send(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                started.set_result(None)
            elif message["type"].endswith(".failed"):
                raise RuntimeError(message.get("message") or "the application did not start")

        try:
            await self._app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self._events.get, send)
        except BaseException as problem:
            if not started.done():
                started.set_exception(problem)
                return
            raise
        if not started.done():  # an app without a lifespan
            started.set_result(None)

    # -------------------------------------------------------------------------------------------- calls

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not self._thread.is_alive():
            raise httpx.ConnectError("the embedded platform has ended", request=request)
        call = _Call(self._app, request, self._loop)
        task = asyncio.run_coroutine_threadsafe(call.run(), self._loop)
        task.add_done_callback(call.ended)
        status, headers = call.head()
        return httpx.Response(status, headers=headers, stream=_Body(call, task))


class _Call:
    """One request on its way through the app: its body goes in, the head and the chunks of the answer come out."""

    def __init__(self, app: App, request: httpx.Request, loop: asyncio.AbstractEventLoop) -> None:
        self._app, self._request, self._loop = app, request, loop
        self._chunks: queue.Queue[bytes | BaseException | None] = queue.Queue()
        self._head: Future[tuple[int, list[tuple[bytes, bytes]]]] = Future()
        self._room = asyncio.Semaphore(AHEAD)
        self._gone = asyncio.Event()
        self._complete = False

    def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        return self._head.result()

    def ended(self, task: Future[None]) -> None:
        """What the app raises after its whole answer is its own affair, as on a server; before, the answer is cut off."""
        cut_off = httpx.RemoteProtocolError("the application ended without a whole answer", request=self._request)
        if not self._head.done():
            problem = None if task.cancelled() else task.exception()
            self._head.set_exception(problem or cut_off)
        self._chunks.put(None if self._complete else cut_off)

    def chunks(self) -> Iterator[bytes]:
        while (chunk := self._chunks.get()) is not None:
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk
            self._loop.call_soon_threadsafe(self._room.release)

    def leave(self) -> None:
        """The reader has gone: the app hears of a disconnect, as from a server."""
        self._loop.call_soon_threadsafe(self._gone.set)

    async def run(self) -> None:
        url = self._request.url
        scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},  # with 2.4, apps notice a lost reader only when they send
            "http_version": "1.1",
            "method": self._request.method,
            "scheme": url.scheme,
            "path": unquote(url.raw_path.split(b"?")[0].decode("ascii")),
            "raw_path": url.raw_path.split(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in self._request.headers.raw],
            "server": (url.host, url.port or 80),
            "client": ("127.0.0.1", 0),
            "state": {},
        }
        assert isinstance(self._request.stream, httpx.SyncByteStream)
        body = iter(self._request.stream)
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if not sent:
                chunk = await asyncio.to_thread(next, body, None)  # a sync stream may block
                sent = chunk is None
                return {"type": "http.request", "body": chunk or b"", "more_body": not sent}
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._head.set_result((message["status"], list(message.get("headers", []))))
                return
            if message["type"] != "http.response.body":
                return
            if message.get("body"):
                waiting = asyncio.ensure_future(self._room.acquire())
                leaving = asyncio.ensure_future(self._gone.wait())
                await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
                leaving.cancel()
                if not waiting.done():
                    waiting.cancel()
                    raise OSError("the reader has gone")
                self._chunks.put(bytes(message["body"]))
            self._complete = not message.get("more_body", False)

        await self._app(scope, receive, send)


class _Body(httpx.SyncByteStream):
    def __init__(self, call: _Call, task: Future[None]) -> None:
        self._call, self._task = call, task

    def __iter__(self) -> Iterator[bytes]:
        return self._call.chunks()

    def close(self) -> None:
        self._call.leave()
