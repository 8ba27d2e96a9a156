"""One place where HTTP is spoken: addresses, tokens, the error shape, and when to try again.

A call is repeated only where that cannot do anything twice: reads, puts and deletes, uploads that are known by their digest,
and any call that never reached the platform or was turned away for being one too many. Between attempts it waits as long
as the platform asks for, or else longer each time, with jitter, so that many clients do not come back all at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, NoReturn

import httpx

from saibot import __version__
from saibot.client import unpacking
from saibot.client.documents import DOCUMENT, PAGE, REFUSAL, Most, read_json
from saibot.client.errors import NotAllowed, NotFound, PlatformBusy, PlatformError, PlatformUnreachable
from saibot.client.unpacking import NOT_PACKED, unpack_slowly
from saibot.errors import InvalidInput
from saibot.report.format import plain_text

ATTEMPTS = 6
KNOCKS = 4  # attempts to reach a platform that does not open at all: people mostly mistyped its address
FIRST_WAIT, LONGEST_WAIT = 0.25, 8.0  # seconds, of our own choosing
PATIENCE = 60.0  # the longest Retry-After that is waited for
REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
PASSING = frozenset({429, 502, 503, 504})
LONGEST_LIST = 1_000_000  # items of a list, all its pages together
LARGEST_LIST = 256 << 20  # bytes of the same
_OF_THE_PACKED = (b"content-encoding", b"content-length", b"transfer-encoding")
TIMEOUT = httpx.Timeout(10.0, read=120.0, write=120.0)


class Wire:
    """An address, a token and an httpx transport. Safe to share between threads."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = checked_url(url)
        self.token = token
        self._transport = transport
        self._sleep = sleep
        headers = {"User-Agent": f"saibot/{__version__}", "Accept": "application/json", "Accept-Encoding": "gzip"}
        if token is not None:
            headers["Authorization"] = f"Bearer {checked_token(token)}"
        # Redirects are not followed: a token goes to the address it was given for and nowhere else.
        hooks = {"response": [unpack_slowly]}
        self._http = httpx.Client(
            base_url=self.url, headers=headers, transport=transport, timeout=TIMEOUT, event_hooks=hooks
        )

    def with_token(self, token: str | None) -> Wire:
        return Wire(self.url, token, self._transport, sleep=self._sleep)

    def close(self) -> None:
        if self._transport is None:  # a transport that was passed in belongs to whoever made it
            self._http.close()

    def send(
        self, method: str, path: str, *, repeatable: bool | None = None, most: int = DOCUMENT.bytes, **content: Any
    ) -> httpx.Response:
        """One call, repeated where it may be; no success raises PlatformError, and so does an answer of more bytes."""
        again = method in REPEATABLE if repeatable is None else repeatable
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS
            try:
                response = self._answer(method, path, most, **content)
            except (httpx.ConnectError, httpx.ConnectTimeout) as problem:
                if attempt == KNOCKS:
                    raise self._unreachable(problem) from None
                wait = _backoff(attempt)
            except httpx.RequestError as problem:  # broken off, or packed in a way that it is not
                if last or not again:
                    raise self._unreachable(problem) from None
                wait = _backoff(attempt)
            else:
                if response.is_success:
                    return response
                asked = retry_after(response)
                turned_away = response.status_code == 429 or (again and response.status_code in PASSING)
                if last or not turned_away or (asked or 0.0) > PATIENCE:
                    refuse(response)
                wait = asked if asked is not None else _backoff(attempt)
            self._sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _answer(self, method: str, path: str, most: int, **content: Any) -> httpx.Response:
        """The whole answer, as far as such answers go: one that is larger is refused while it comes in."""
        with self._http.stream(method, path, **content) as response:
            found = unpacking.content(response, most=most if response.is_success else REFUSAL.bytes, whose=self.url)
            unpacked = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_PACKED]
            return httpx.Response(response.status_code, headers=unpacked, content=found, request=response.request)

    def json(self, method: str, path: str, *, most: Most = DOCUMENT, **content: Any) -> Any:
        """The JSON document that a call answers with; None for an empty answer."""
        response = self.send(method, path, most=most.bytes, **content)
        return None if response.status_code == 204 or not response.content else self._read(response.content, most)

    def _read(self, content: bytes, most: Most) -> Any:
        try:
            return read_json(content, most, whose=self.url)
        except (ValueError, RecursionError):
            raise PlatformUnreachable(
                f"{self.url} answers, but not as a Saibot platform.", hint="Check the address, and any proxy before it."
            ) from None

    @contextmanager
    def stream(self, path: str, *, headers: Mapping[str, str] | None = None) -> Iterator[httpx.Response]:
        """An answer as it arrives, not packed: whoever sends gigabytes sends gigabytes. Not repeated: whoever reads it knows
        how far they got."""
        try:
            with self._http.stream("GET", path, headers={**NOT_PACKED, **(headers or {})}) as response:
                if not response.is_success:
                    said = unpacking.content(response, most=REFUSAL.bytes, whose=self.url)
                    refuse(httpx.Response(response.status_code, headers=_waiting(response), content=said))
                yield response
        except httpx.RequestError as problem:
            raise self._unreachable(problem) from None

    def pause(self, attempt: int) -> None:
        """Wait as between attempts, for calls that are repeated elsewhere."""
        self._sleep(_backoff(attempt))

    def pages(self, path: str, parameters: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """The items of a list, page after page."""
        asked = {name: value for name, value in (parameters or {}).items() if value is not None}
        seen: set[str] = set()
        count = size = 0
        while True:
            content = self.send("GET", path, params=asked, most=PAGE.bytes).content
            size += len(content)
            page = self._read(content, PAGE)
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise PlatformUnreachable(f"{self.url} answers, but not as a Saibot platform.")
            yield from page["items"]
            count += len(page["items"])
            cursor = page.get("next")
            if not cursor or not page["items"] or str(cursor) in seen:  # a platform that leads in circles is not followed
                return
            if count > LONGEST_LIST or size > LARGEST_LIST:
                raise PlatformUnreachable(f"{self.url} lists things without end.", hint="It may be no Saibot platform.")
            seen.add(str(cursor))
            asked["cursor"] = cursor

    def _unreachable(self, problem: httpx.RequestError) -> PlatformUnreachable:
        if isinstance(problem, httpx.TimeoutException):
            return PlatformUnreachable(f"the platform at {self.url} did not answer in time.", hint="Try again later.")
        return PlatformUnreachable(
            f"no platform answers at {self.url}.", hint="Check the address; `saibot serve` starts a platform."
        )


def checked_url(url: str) -> str:
    """A platform's address without a slash at its end."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.query or parsed.fragment:
        bare = isinstance(url, str) and url.strip() != "" and "://" not in url
        hint = f"Write http:// or https:// before it: https://{url}" if bare else "It reads like https://saibot.example.org"
        raise InvalidInput(f"{url!r} is no platform address.", hint=hint)
    return str(parsed).rstrip("/")


def checked_token(token: str) -> str:
    if not token or not token.isascii() or any(letter.isspace() or not letter.isprintable() for letter in token):
        raise InvalidInput("the token is not one: it has spaces, or letters that tokens do not have.")
    return token


def retry_after(response: httpx.Response) -> float | None:
    """How long the platform asks to wait: seconds, or until a date."""
    text = response.headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(float(text), 0.0) if isfinite(float(text)) else None
    except ValueError:
        pass
    try:
        return max(float(parsedate_to_datetime(text).timestamp()) - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _waiting(response: httpx.Response) -> dict[str, str]:
    """Of a refusal's headers: how long to wait."""
    return {name: value for name, value in response.headers.items() if name == "retry-after"}


def refuse(response: httpx.Response) -> NoReturn:
    """Raise what a refusal says."""
    status = response.status_code
    try:
        said = read_json(response.content, REFUSAL, whose="the platform")["error"]
        message, code = plain_text(said["message"]), plain_text(said["code"], most=100)
        hint, details = said.get("hint"), said.get("details")
        hint = None if hint is None else plain_text(hint)  # a stranger's words, which a terminal will show
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PlatformUnreachable):
        message, code, hint, details = f"the platform answered with status {status}.", "", None, None
    kinds: dict[int, type[PlatformError]] = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 429: PlatformBusy}
    if status == 401 and (hint is None or "Authorization" in hint):  # which is for programs that have no client
        hint = "`saibot login ADDRESS` stores a token; the platform's admin gives them out."
    error = kinds.get(status, PlatformError)(message, hint=hint, status=status, code=code, details=details)
    if isinstance(error, PlatformBusy):
        error.retry_after = retry_after(response)
    raise error


def _backoff(attempt: int) -> float:
    """Twice as long each time, and anything from half of that to all of it."""
    return min(FIRST_WAIT * 2.0 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0)
