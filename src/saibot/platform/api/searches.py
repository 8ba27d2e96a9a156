"""Searches: ask, watch, read the result, cancel."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Path as Named
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from saibot.platform.accounts import Caller
from saibot.platform.api import schemas
from saibot.platform.api.answers import documented, json_answer, page_answer
from saibot.platform.api.asking import Asking, Cursor, Here, Limit
from saibot.platform.api.forms import MULTIPART, file_of, sketches_of
from saibot.platform.api.tokens import SECURED
from saibot.platform.api.uploads import large_turn
from saibot.platform.errors import Unusable, WrongMediaType
from saibot.platform.pagination import read_cursor
from saibot.platform.service import Platform
from saibot.wire import InvalidOption, Question, Result, Search

router = APIRouter(prefix="/v1", tags=["searches"])
SearchId = Annotated[str, Named(max_length=40)]
LOOK_SECONDS = 0.1
REMOTE_SECONDS = 0.5  # between looks into the database, for a search that does not run here
SILENCE_SECONDS = 15.0
TOKEN_SECONDS = 5.0  # after which a token that watches is looked up again
_FORM = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "required": ["train", "options"],
            "properties": {
                "train": {"type": "string", "format": "binary", "description": "The training sketch."},
                "test": {"type": "string", "format": "binary", "description": "The held-out sketch."},
                "options": {"$ref": "#/components/schemas/Question"},
            },
        },
        "encoding": {"options": {"contentType": "application/json"}},
    }
}
_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}


@router.post(
    "/searches",
    summary="Search",
    status_code=202,
    responses=documented({202: Search}, 403, 413, 415),
    openapi_extra=SECURED | {"requestBody": {"required": True, "content": _FORM}},
)
async def submit(request: Request, caller: Asking, here: Here) -> Response:
    """A form with the request's sketches and options. The search runs in the background; the answer says how to watch it."""
    caller.need("requester")
    if not request.headers.get("content-type", "").lower().startswith(MULTIPART):
        raise WrongMediaType(f"a search is sent as {MULTIPART}.", hint="Fields: train, options, optionally test.")
    with ExitStack() as held:
        train, test, question = await _form(request, here, held)
        async with AsyncExitStack() as turn:
            if isinstance(train, Path) or isinstance(test, Path):
                await turn.enter_async_context(large_turn(request, caller))
            found = await run_in_threadpool(here.submit, caller, train, test, question)
    return json_answer(found, 202, {"Location": f"/v1/searches/{found.id}"})


@router.get("/searches", summary="Searches", responses=documented({200: schemas.SearchList}, 403), openapi_extra=SECURED)
def list_searches(caller: Asking, here: Here, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """One's own, latest first; an admin sees everybody's, without results."""
    return page_answer(here.searches.list(caller, read_cursor(cursor, int), limit))


@router.get(
    "/searches/{id}",
    summary="How a search stands",
    responses=documented({200: Search}, 403, 404),
    openapi_extra=SECURED,
)
def show(caller: Asking, here: Here, id: SearchId) -> Response:
    return json_answer(here.searches.show(caller, id))


@router.get(
    "/searches/{id}/events",
    summary="How a search goes, as it goes",
    response_class=Response,
    responses=documented({}, 403, 404, extra={200: {"content": _EVENTS, "description": "Server-sent events."}}),
    openapi_extra=SECURED,
)
async def events(request: Request, caller: Asking, here: Here, id: SearchId) -> Response:
    """`progress` events, then one of `done`, `failed` or `cancelled`; the data is the search each time."""
    first = await run_in_threadpool(here.searches.show, caller, id)
    release = here.limits.watch(caller, request.client.host if request.client else None)
    return EventStream(_events_of(here, caller, id, first), release)


@router.get(
    "/searches/{id}/result",
    summary="What a search found",
    responses=documented({200: Result}, 403, 404, 409),
    openapi_extra=SECURED,
)
def result(caller: Asking, here: Here, id: SearchId) -> Response:
    """To its requester alone, until it expires."""
    content = here.result(caller, id).text()
    return Response(content, headers={"Cache-Control": "no-store"}, media_type="application/json")


@router.delete(
    "/searches/{id}",
    summary="Cancel a search, or remove its result",
    status_code=204,
    responses=documented({204: None, 202: Search}, 403, 404),
    openapi_extra=SECURED,
)
def cancel(caller: Asking, here: Here, id: SearchId) -> Response:
    """202 while it is under way: it will stop. 204 when it was over: it is removed."""
    found = here.searches.cancel(caller, id)
    return Response(status_code=204) if found is None else json_answer(found, 202)


class EventStream(StreamingResponse):
    """Events, as long as somebody is there to whom they are sent; then `release` is called."""

    def __init__(self, events: AsyncIterator[str], release: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


# ------------------------------------------------------------------------------------------------ inside


async def _form(request: Request, here: Platform, held: ExitStack) -> tuple[bytes | Path, bytes | Path | None, Question]:
    async with sketches_of(request, here) as form:
        train, test = await file_of(form, "train", here, held), await file_of(form, "test", here, held)
        text = form.get("options")
    if train is None or not isinstance(text, str):
        raise Unusable("a search needs the file `train` and the field `options`.", hint="/docs shows the form.")
    try:
        return train, test, Question.read(text)
    except InvalidOption as problem:
        raise Unusable(f"options: {problem.message}", hint="/docs shows them: see Question.") from None


async def _events_of(here: Platform, caller: Caller, id: str, search: Search) -> AsyncIterator[str]:
    """Events until the search is over or the platform stops."""
    seen: object = None  # how it stood here; None where it waits, or another server runs it
    sent: Search | None = None
    said = looked = checked = time.monotonic()
    while not search.over:
        state = here.searches.peek(id)
        if sent is None or state != seen or (state is None and time.monotonic() > looked + REMOTE_SECONDS):
            search = await run_in_threadpool(here.searches.show, caller, id)
            seen, looked = state, time.monotonic()
            if search.over:
                break
            if search != sent:
                yield _event("progress", search)
                sent, said = search, time.monotonic()
        if time.monotonic() > said + SILENCE_SECONDS:
            yield ": still here\n\n"  # so that nobody in between takes the connection for dead
            said = time.monotonic()
        if here.stopping:
            return  # whoever watches asks again, and another server answers
        if time.monotonic() > checked + TOKEN_SECONDS:
            checked = time.monotonic()
            if not await run_in_threadpool(here.accounts.is_still, caller):
                return  # the token was revoked: what it watched is not its business any more
        await asyncio.sleep(LOOK_SECONDS)
    yield _event(search.status, search)


def _event(name: str, search: Search) -> str:
    return f"event: {name}\ndata: {json.dumps(search.to_json(), ensure_ascii=False)}\n\n"
