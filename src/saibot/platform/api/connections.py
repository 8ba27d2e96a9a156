"""Connections, before anybody knows who is calling: how many an address may have, and how long it may keep one waiting.

The web server under us takes heads as large as they come, and waits without end for the rest of a head, for a body, and for
somebody to read an answer. Here each of these has a limit. Whoever sends or reads steadily, however much, never meets one.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from saibot.platform.limits import network_of
from saibot.platform.metrics import Metrics
from saibot.platform.settings import Settings

if TYPE_CHECKING:
    from saibot.platform.service import Platform

LOOK_SECONDS = 0.5
HEAD_BYTES = 64 << 10
LEAST_RATE = 1000  # bytes a second of a body, or of an answer that is being read: below that, patience ends
SAVED_SECONDS = 60.0  # that a fast beginning of a body may buy for a slow rest
SLICE = 16 << 10  # bytes that are looked at together: what they ask for is counted before the next
PIPELINED = 16  # requests of one connection that wait for the answer to another
LINGER_SECONDS = 1.0  # that one who is refused has to send a head, so that it hears why
LINGERING = 32  # of an address: those beyond are cut off at once
_PROBLEMS = {
    "full": (503, "the platform has as many connections as it takes.", "Try again in a moment."),
    "crowded": (429, "this address has as many connections as the platform allows.", "Close some, and try again."),
    "slow_head": (408, "the head of the request did not come to its end in time.", "Send it at once."),
    "slow_body": (408, "the body of the request came too slowly.", "Send it again, over a faster network."),
    "large_head": (431, f"the head of the request has more than {HEAD_BYTES:,} bytes.", "Send fewer or shorter headers."),
}


class Connections:
    """All connections of one server, by the network of whoever opened them; looked at twice a second."""

    def __init__(self, settings: Settings, metrics: Metrics, *, proxies: Iterable[str] = ()) -> None:
        """Connections from `proxies` are their callers', who are told apart by request."""
        self.settings = settings
        self._proxies = [None if one == "*" else ip_network(one, strict=False) for one in proxies]
        self._open: set[GuardedConnection] = set()
        self._of: Counter[str] = Counter()
        self._lingering: Counter[str] = Counter()
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, connection: GuardedConnection) -> str | None:
        """Count a connection; why it is refused, or None. It is over with `leave`, refused or not."""
        self._open.add(connection)
        self._metrics.connections.inc()
        if self._timer is None:
            self._timer = connection.loop.call_later(LOOK_SECONDS, self._look, connection.loop)
        network = connection.network
        if len(self._open) > self.settings.connections:
            why = "full"
        elif network and not self._is_proxy(network) and self._of[network] >= self.settings.connections_per_address:
            why = "crowded"
        else:
            self._of[network] += 1
            return None
        self._lingering[network] += 1
        return why

    def leave(self, connection: GuardedConnection) -> None:
        self._open.discard(connection)
        self._metrics.connections.dec()
        counted = self._of if connection.refused is None else self._lingering
        counted[connection.network] -= 1
        if counted[connection.network] <= 0:
            del counted[connection.network]

    def may_linger(self, connection: GuardedConnection) -> bool:
        return self._lingering[connection.network] <= LINGERING

    def note(self, why: str) -> None:
        self._metrics.refused_connections.labels(why).inc()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        for connection in list(self._open):
            connection.look(loop.time())
        self._timer = loop.call_later(LOOK_SECONDS, self._look, loop) if self._open else None

    def _is_proxy(self, network: str) -> bool:
        try:
            address = ip_address(network.partition("/")[0])
        except ValueError:
            return None in self._proxies
        return any(one is None or address in one for one in self._proxies)


class GuardedConnection(HttpToolsProtocol):
    """One connection. What it waits for, since when, and how many bytes came meanwhile."""

    guard: ClassVar[Connections]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client else ""
        self._patient_until = 0.0
        self._wait_for("head")
        self._unread: tuple[float, int] | None = None  # since when an answer lies here, and how much of it
        self.refused = self.guard.enter(self)
        if self.refused is not None and not self.guard.may_linger(self):
            self._cut_off(self.refused)

    def connection_lost(self, exc: Exception | None) -> None:
        self.guard.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.refused is not None:
            self._say(self.refused)
            return
        for first in range(0, len(data), SLICE):
            if self.transport.is_closing():
                return
            self._take(data[first : first + SLICE])

    def _take(self, data: bytes) -> None:
        if self._waits_for == "nothing" and self.cycle is not None and self.cycle.response_complete:
            self._wait_for("head")  # bytes between two requests are no request yet
        self._bytes += len(data)
        self._patient_until = min(self._patient_until + len(data) / LEAST_RATE, self._patience() + SAVED_SECONDS)
        super().data_received(data)
        if self._waits_for == "head" and self._bytes > HEAD_BYTES:
            self._say("large_head")
        elif len(self.pipeline) > PIPELINED:
            self.pipeline.clear()
            self._cut_off("pipelined")

    def on_message_begin(self) -> None:
        self._wait_for("head")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._wait_for("body")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._wait_for("nothing")
        super().on_message_complete()

    def resume_writing(self) -> None:
        self._unread = None  # most of what lay here was read
        super().resume_writing()

    def look(self, now: float) -> None:
        """Is there still a reason to wait?"""
        if self.transport.is_closing():
            self._look_at_answer(now)
            return
        if self.refused is not None:
            if now > self._since + LINGER_SECONDS:
                self._say(self.refused)
        elif self._waits_for == "head" and now > self._since + self.guard.settings.head_seconds:
            self._say("slow_head")
        elif self._waits_for == "body":
            if self.flow.read_paused:  # it is we who do not take more
                self._patient_until += LOOK_SECONDS
            elif now > self._patient_until:
                self._say("slow_body")
        self._look_at_answer(now)

    def _look_at_answer(self, now: float) -> None:
        size = self.transport.get_write_buffer_size()
        if not size:
            self._unread = None
        elif self._unread is None:
            self._unread = now, size
        elif now > self._unread[0] + self.guard.settings.patience_seconds:
            since, before = self._unread
            if before - size < LEAST_RATE * (now - since):
                self._cut_off("unread")
            else:
                self._unread = now, size

    def _wait_for(self, what: str) -> None:
        self._waits_for, self._since, self._bytes = what, self.loop.time(), 0
        self._patient_until = self._patience()

    def _patience(self) -> float:
        """Until when somebody may be silent who has just said something."""
        return float(self.loop.time() + self.guard.settings.patience_seconds)

    def _say(self, why: str) -> None:
        """Answer that it ends here, where no other answer is under way, and end it."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self._cut_off(why)
            return
        self.guard.note(why)
        self.transport.write(_answer(why))
        self.transport.close()

    def _cut_off(self, why: str) -> None:
        self.guard.note(why)
        self.transport.abort()


def guarded(platform: Platform, *, proxies: Iterable[str] = ()) -> type[GuardedConnection]:
    """What the web server makes for each connection to this platform."""
    guard = Connections(platform.settings, platform.metrics, proxies=proxies)
    return type("Connection", (GuardedConnection,), {"guard": guard})


def _answer(why: str) -> bytes:
    status, message, hint = _PROBLEMS[why]
    document: dict[str, Any] = {"code": why, "message": message, "hint": hint, "details": {}}
    body = json.dumps({"error": document}).encode()
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "content-type: application/json", "connection: close"]
    lines += [f"content-length: {len(body)}", *(["retry-after: 5"] if status in (429, 503) else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
