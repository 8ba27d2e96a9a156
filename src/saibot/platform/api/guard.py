"""Around every request: its id, its time, its log line, and the last net for errors nobody foresaw.

A log line has the route's template, not the address that was asked for: queries and unknown paths may hold anything.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saibot.platform.api.headers import plain_headers
from saibot.platform.api.shares import Shares
from saibot.platform.audit_log import REFUSED, REFUSED_SIGN_IN, REFUSED_TOKEN
from saibot.platform.errors import TooLarge, TooManyAtOnce, error_document
from saibot.platform.limits import network_of
from saibot.platform.reading import LARGE
from saibot.platform.service import Platform
from saibot.platform.storage import unavailable

SLACK = 1 << 20
AT_A_TIME = 5  # requests of one caller, of twelve threads
BODIES = 4  # large ones of one caller that come in at a time; the others wait on the sender's side
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin")]

_LEAVING = [(b"connection", b"close")]  # about to stop: whoever asks next should ask another server
_STRICT = [(b"strict-transport-security", b"max-age=31536000")]  # reached by https: never again without


class Guard:
    def __init__(self, app: ASGIApp, platform: Platform) -> None:
        self._app, self._platform = app, platform
        self._shares, self._bodies = Shares(AT_A_TIME), Shares(BODIES)
        self._public_is_https = str(platform.settings.public_url or "").startswith("https:")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["headers"] = plain_headers(scope["headers"])
        request_id = secrets.token_hex(8)
        started = time.perf_counter()
        status = received = 0
        is_large = is_over = False  # what is sent
        who, working = self._who(scope), False

        async def take() -> None:
            nonlocal working
            await self._shares.take(who)
            working = True

        def give_back() -> None:
            nonlocal working
            if working:
                working = False
                self._shares.give_back(who)

        def end_body() -> None:
            nonlocal is_large
            if is_large:
                is_large = False
                self._bodies.give_back(who)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                give_back()  # the work is done; whoever reads slowly keeps nobody waiting
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    (b"x-request-id", request_id.encode()),
                    *_HEADERS,
                    *(_LEAVING if self._platform.stopping else []),
                    *(_STRICT if scope.get("scheme") == "https" or self._public_is_https else []),
                ]
            await send(message)

        most = 2 * self._platform.settings.max_upload_bytes + SLACK

        async def receiving() -> Message:
            nonlocal received, is_large, is_over
            give_back()  # a body that comes slowly keeps nobody waiting, either
            if received > LARGE and not is_large and not is_over:
                await self._bodies.take(who)  # while it holds no share: nobody who has one waits for this
                is_large = True
            message = await receive()
            if not message.get("more_body", False):
                is_over = True
                end_body()
            if status == 0:
                await take()
            received += len(message.get("body", b""))
            if received > most:
                raise TooLarge("the request is larger than anything that is accepted here.", hint="Send a smaller one.")
            return message

        try:
            begun = self._platform.limits.begin(scope["client"][0] if scope.get("client") else None)
        except TooManyAtOnce as problem:
            await _send(sending, 429, error_document(problem), [(b"retry-after", str(problem.retry_after).encode())])
            self._note(scope, status, time.perf_counter() - started, request_id)
            return
        try:
            await take()
            await self._app(scope, receiving, sending)
        except Exception as problem:
            self._platform.log.failure("request failed", problem, request=request_id, route=_route(scope))
            if status == 0:
                await _send_error(sending, 503 if unavailable.is_away(problem) else 500, request_id)
        finally:
            begun()
            give_back()
            end_body()
            self._note(scope, status, time.perf_counter() - started, request_id)

    def _who(self, scope: Scope) -> str:
        """The account of a token that was seen lately, or an address: anybody can make up a token, or a session."""
        header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        known = self._platform.accounts.remembered(header.partition(" ")[2].strip() or None)
        if known is not None and known.signed_in:
            return f"account {known.name}"
        return f"address {network_of(scope['client'][0])}" if scope.get("client") else ""

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route, method = _route(scope), scope["method"] if scope["method"] in _METHODS else "OTHER"
        account = scope.get("state", {}).get("account", "")
        metrics = self._platform.metrics
        if (refused := _refusal(scope, status)) is not None:
            self._platform.trail.count(account, refused, _kind(route))
        metrics.requests.labels(method, route, str(status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        self._platform.log.info(
            "request",
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            account=account,
            request=request_id,
        )


_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}


def _refusal(scope: Scope, status: int) -> str | None:
    """What the trail calls this answer, if somebody was refused. Whoever comes without a token has not been."""
    if status == 403:
        return REFUSED
    if status != 401:
        return None
    if _route(scope) == "/sign-in":
        return REFUSED_SIGN_IN
    return REFUSED_TOKEN if b"authorization" in dict(scope["headers"]) else None


def _kind(route: str) -> str:
    """What an address is about, in a word: `datasets` of `/v1/datasets/{id}`."""
    return route.removeprefix("/v1").strip("/").partition("/")[0] or "catalogue"


def _route(scope: Scope) -> str:
    route = scope.get("route")
    return str(getattr(route, "path", "unknown"))


async def _send_error(send: Send, status: int, request_id: str) -> None:
    lost = status == 503
    document: dict[str, Any] = {
        "error": {
            "code": "unavailable" if lost else "internal",
            "message": unavailable.MESSAGE if lost else "the platform made a mistake.",
            "hint": unavailable.HINT if lost else "Try again; if it stays, tell the admin the request id.",
            "details": {"request": request_id},
        }
    }
    await _send(send, status, document, [(b"retry-after", b"5")] if lost else [])


async def _send(send: Send, status: int, document: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
