"""What a route learns from a request: who asks, whether too often, and the body up to a size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.api.shares import Shares
from saibot.platform.errors import Busy, NotSignedIn, TooLarge, Unusable
from saibot.platform.limits import Kind, network_of
from saibot.platform.reading import PATIENCE
from saibot.platform.service import Platform

DOCUMENT_BYTES = 64 << 10  # of JSON documents; sketches have a limit of their own
Document = TypeVar("Document", bound=BaseModel)
Found = TypeVar("Found")
Cursor = Annotated[str | None, Query(description="`next` of the page before.", max_length=1000)]
Limit = Annotated[int, Query(description="At most so many items.", ge=1, le=200)]


async def platform_of(request: Request) -> Platform:  # async: others are called in a thread, which takes longer than this
    platform: Platform = request.app.state.platform
    return platform


async def caller_of(request: Request) -> Caller:
    """The caller by bearer token, nobody without one; counted against the caller's rate."""
    platform = await platform_of(request)
    address = request.client.host if request.client else None
    kind: Kind = "read" if request.method in ("GET", "HEAD") else "write"
    try:
        token = _bearer(request)
        known = platform.accounts.remembered(token)
        caller = known if known is not None else await run_in_threadpool(platform.accounts.caller_of, token)
    except NotSignedIn:
        platform.limits.spend(NOBODY, address, "write")  # guessing is slow
        raise
    platform.limits.spend(caller, address, kind)
    request.state.account = caller.name
    return caller


def _bearer(request: Request) -> str | None:
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise NotSignedIn("the Authorization header holds no bearer token.", hint="Send `Authorization: Bearer TOKEN`.")
    return text.strip()


async def document_of(request: Request, shape: type[Document]) -> Document:
    """The JSON document that a caller sent who may send one. (FastAPI would read it before it knows who that is.)"""
    content = await body_of(request, DOCUMENT_BYTES)
    try:
        return shape.model_validate_json(content)
    except ValidationError as problem:
        raise RequestValidationError(problem.errors(include_url=False, include_input=False)) from None


async def body_of(request: Request, limit: int) -> bytes:
    """The body, at most `limit` bytes of it."""
    parts: list[bytes] = []

    async def take(part: bytes) -> None:
        parts.append(part)

    await receive(request, limit, take, parts.clear)
    return b"".join(parts)


async def reading(request: Request, here: Platform, caller: Caller, id: str, work: Callable[[], Found]) -> Found:
    """What comes of reading a dataset's sketch to show it; large ones are read one at a time."""
    if not await run_in_threadpool(here.shown.takes_long, caller, id):
        return await run_in_threadpool(work)
    shown: Shares = request.app.state.shown
    address = network_of(request.client.host) if request.client else ""
    async with shown.of(f"account {caller.name}" if caller.signed_in else f"address {address}"), shown.of("everybody"):
        return await run_in_threadpool(work)


@asynccontextmanager
async def turn(shares: Shares, *names: str) -> AsyncIterator[None]:
    """A turn at work that others wait for as well, where they hold no thread. Raises Busy where it does not come soon."""
    async with AsyncExitStack() as held:
        try:
            async with asyncio.timeout(PATIENCE):
                for name in names:
                    await held.enter_async_context(shares.of(name))
        except TimeoutError:
            raise Busy from None
        yield


async def receive(
    request: Request, limit: int, take: Callable[[bytes], Awaitable[object]], clear: Callable[[], object]
) -> None:
    """Take the body part by part. A larger one is read to its end for a while, so that the answer arrives."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > 2 * limit:
        raise _too_large(limit)
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size <= limit:
                await take(part)
            elif size > 2 * limit:
                break
            else:
                clear()
    except ClientDisconnect:
        raise Unusable("the upload was cut off.", hint="Send it again; nothing was stored.") from None
    if size > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body has more than {limit:,} bytes, the most allowed.", hint="Publish a smaller sketch.")


Asking = Annotated[Caller, Depends(caller_of)]
Here = Annotated[Platform, Depends(platform_of)]
