"""Who am I, and tokens for others."""

from __future__ import annotations

from datetime import date
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from saibot.platform.api import schemas
from saibot.platform.api.answers import described_body, documented, json_answer, page_answer
from saibot.platform.api.asking import Asking, Cursor, Here, Limit, document_of
from saibot.platform.clock import today
from saibot.platform.errors import NotSignedIn, Unusable
from saibot.platform.pagination import read_cursor
from saibot.wire import Account, NewToken

router = APIRouter(prefix="/v1", tags=["tokens"])
SECURED: dict[str, Any] = {"security": [{"bearer": []}]}


@router.get("/me", summary="Who this token is", responses=documented({200: Account}), openapi_extra=SECURED)
def me(caller: Asking) -> Response:
    if not caller.signed_in:
        raise NotSignedIn("this needs a token.", hint="Send `Authorization: Bearer TOKEN`; an admin gives out tokens.")
    return json_answer(caller.account)


@router.post(
    "/tokens",
    summary="Create a token",
    status_code=201,
    responses=documented({201: NewToken}, 400, 403),
    openapi_extra=SECURED | described_body("TokenRequest"),
)
async def create(request: Request, caller: Asking, here: Here) -> Response:
    caller.need("admin")
    wanted = await document_of(request, schemas.TokenRequest)
    if wanted.expires is not None:
        try:
            later = date.fromisoformat(wanted.expires).isoformat() > today()
        except ValueError:
            later = False
        if not later:
            raise Unusable("`expires` is a day after today, YYYY-MM-DD.", hint="Leave it out for a token that stays.")
    made = await run_in_threadpool(here.accounts.create, caller, wanted.name, wanted.roles, expires=wanted.expires)
    return json_answer(made, 201)


@router.get(
    "/tokens",
    summary="All tokens, without their text",
    responses=documented({200: schemas.TokenList}, 403),
    openapi_extra=SECURED,
)
def list_tokens(caller: Asking, here: Here, cursor: Cursor = None, limit: Limit = 50) -> Response:
    return page_answer(here.accounts.list(caller, read_cursor(cursor, str, str), limit))


@router.delete(
    "/tokens/{id}",
    summary="Revoke a token",
    status_code=204,
    responses=documented({204: None}, 403, 404, 409),
    openapi_extra=SECURED,
)
def revoke(caller: Asking, here: Here, id: str) -> Response:
    here.accounts.revoke(caller, id)
    return Response(status_code=204)
