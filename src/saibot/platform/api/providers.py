"""Providers: how each stands, the key that signs for one's own account, and verification by admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from saibot.platform.api import schemas
from saibot.platform.api.answers import described_body, documented, json_answer, page_answer
from saibot.platform.api.asking import Asking, Cursor, Here, Limit, document_of
from saibot.platform.api.tokens import SECURED
from saibot.platform.pagination import read_cursor
from saibot.wire import AccountKey, KeyChallenge, NewKey, ProviderStanding

router = APIRouter(prefix="/v1", tags=["providers"])
Name = Annotated[str, Path(max_length=100)]


@router.get("/providers", summary="Who has published what", responses=documented({200: schemas.ProviderList}))
def list_providers(caller: Asking, here: Here, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """By name: whether an admin has verified each, since when, how many datasets, and with which keys they are signed."""
    return page_answer(here.providers.list(caller, read_cursor(cursor, str), limit))


@router.get("/providers/{name}", summary="A provider's standing", responses=documented({200: ProviderStanding}, 404))
def show(caller: Asking, here: Here, name: Name) -> Response:
    return json_answer(here.providers.standing(caller, name))


@router.put(
    "/providers/{name}/verified",
    summary="Verify who a provider is",
    responses=documented({200: ProviderStanding}, 403, 404),
    openapi_extra=SECURED,
)
def verify(caller: Asking, here: Here, name: Name) -> Response:
    """By an admin, who has made sure by other means; nobody verifies their own account."""
    return json_answer(here.verify(caller, name))


@router.delete(
    "/providers/{name}/verified",
    summary="Take a verification back",
    responses=documented({200: ProviderStanding}, 403),
    openapi_extra=SECURED,
)
def take_back(caller: Asking, here: Here, name: Name) -> Response:
    return json_answer(here.take_verification(caller, name))


@router.delete(
    "/providers/{name}/key",
    summary="Take a provider's key back",
    responses=documented({200: ProviderStanding}, 403, 404),
    openapi_extra=SECURED,
)
def take_key(caller: Asking, here: Here, name: Name) -> Response:
    """By an admin, where it is lost or somebody else has it. The account may bind another one then."""
    return json_answer(here.providers.take_key(caller, name))


@router.get(
    "/me/key",
    summary="The key that signs for one's account",
    responses=documented({200: AccountKey}, 403),
    openapi_extra=SECURED,
)
def my_key(caller: Asking, here: Here) -> Response:
    """Once there is one, sketches of the account are accepted with its signature alone."""
    return json_answer(here.providers.key_of(caller))


@router.post(
    "/me/key/challenge",
    summary="What a new key has to sign",
    responses=documented({200: KeyChallenge}, 403),
    openapi_extra=SECURED,
)
def challenge(caller: Asking, here: Here) -> Response:
    """Good for ten minutes, and for one binding. docs/reference/sketch-file.md says which bytes are signed."""
    return json_answer(here.providers.challenge(caller))


@router.put(
    "/me/key",
    summary="Bind a key to one's account",
    responses=documented({200: AccountKey}, 403, 409),
    openapi_extra=SECURED | described_body("NewKey"),
)
async def bind(request: Request, caller: Asking, here: Here) -> Response:
    """The first one by its own signature of the challenge; another one also by that of the key whose place it takes."""
    caller.need("provider")
    new = await document_of(request, NewKey)
    return json_answer(await run_in_threadpool(here.providers.bind, caller, new))
