"""Who am I, and tokens: for others by an admin, for oneself by everybody."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from saibot.platform.accounts import Caller, in_order
from saibot.platform.api import schemas
from saibot.platform.api.answers import described_body, documented, json_answer, page_answer
from saibot.platform.api.asking import Asking, Cursor, Here, Limit, document_of
from saibot.platform.clock import today
from saibot.platform.errors import NotSignedIn, Unusable
from saibot.platform.pagination import read_cursor
from saibot.wire import Me, NewToken

router = APIRouter(prefix="/v1", tags=["tokens"])
SECURED: dict[str, Any] = {"security": [{"bearer": []}]}


def check_signed_in(caller: Caller) -> None:
    if not caller.signed_in:
        raise NotSignedIn("this needs a token.", hint="Send `Authorization: Bearer TOKEN`; an admin gives out tokens.")


@router.get("/me", summary="Who this token is", responses=documented({200: Me}), openapi_extra=SECURED)
def me(caller: Asking, here: Here) -> Response:
    """Whom it speaks for, and the largest budget of a sketch that is listed here: so nobody pays for one that is not."""
    check_signed_in(caller)
    largest = {"max_epsilon": here.settings.max_epsilon, "max_delta": here.settings.max_delta}
    return json_answer(Me(name=caller.account.name, roles=caller.account.roles, **largest))


@router.post(
    "/tokens",
    summary="Create a token",
    status_code=201,
    responses=documented({201: NewToken}, 400, 403),
    openapi_extra=SECURED | described_body("TokenRequest"),
)
async def create(request: Request, caller: Asking, here: Here) -> Response:
    """An admin makes tokens for accounts by their `name`. Without one everybody makes tokens for themselves, of roles that
    the token has which is used here, until it expires at the latest; they end when it is revoked.
    """
    check_signed_in(caller)
    wanted = await document_of(request, schemas.TokenRequest)
    if wanted.expires is not None:
        try:
            later = date.fromisoformat(wanted.expires).isoformat() > today()
        except ValueError:
            later = False
        if not later:
            raise Unusable("`expires` is a day after today, YYYY-MM-DD.", hint="Leave it out for a token that stays.")
    if wanted.roles is None and wanted.name not in (None, caller.name):
        raise Unusable("it is not said what the account may do.", hint="Name its roles in `roles`.")
    roles = wanted.roles or in_order(caller.roles)
    made = await run_in_threadpool(here.accounts.create, caller, wanted.name, roles, expires=wanted.expires)
    return json_answer(made, 201)


@router.get(
    "/tokens",
    summary="Tokens, without their text",
    responses=documented({200: schemas.TokenList}),
    openapi_extra=SECURED,
)
def list_tokens(
    caller: Asking,
    here: Here,
    mine: Annotated[bool, Query(description="Only those of one's own account, for an admin, too.")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """An admin sees all; everybody else those of their own account."""
    return page_answer(here.accounts.list(caller, read_cursor(cursor, str, str), limit, mine=mine))


@router.delete(
    "/tokens/{id}",
    summary="Revoke a token",
    status_code=204,
    responses=documented({204: None}, 403, 404, 409),
    openapi_extra=SECURED,
)
def revoke(caller: Asking, here: Here, id: str) -> Response:
    """Of one's own account, or as an admin anybody's. Tokens that were made with it end, too; and one that was made with
    another ends itself and those, no others."""
    here.accounts.revoke(caller, id)
    return Response(status_code=204)
