"""For whoever runs the platform: is it well, its numbers, and the trail of who did what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from saibot import __version__
from saibot.platform.accounts import NOBODY
from saibot.platform.api import schemas
from saibot.platform.api.answers import documented, json_answer, page_answer
from saibot.platform.api.asking import Asking, Cursor, Here, Limit, platform_of
from saibot.platform.api.tokens import SECURED
from saibot.platform.metrics import CONTENT_TYPE
from saibot.platform.pagination import read_cursor

router = APIRouter(prefix="/v1", tags=["operations"])
SINCE = r"^\d{4}-\d{2}-\d{2}(T\d{2}(:\d{2}(:\d{2}(\.\d{1,6})?)?)?Z?)?$"


async def not_too_often(request: Request) -> None:
    """Counted by address: these need no account, and look at storage."""
    here = await platform_of(request)
    here.limits.spend(NOBODY, request.client.host if request.client else None, "probe")


plain_router = APIRouter(
    tags=["operations"], dependencies=[Depends(not_too_often)], responses={429: {"model": schemas.Error}}
)


@router.get(
    "/audit",
    summary="Who did what",
    responses=documented({200: schemas.TrailList}, 403),
    openapi_extra=SECURED,
)
def audit(
    caller: Asking,
    here: Here,
    action: Annotated[str | None, Query(max_length=40, description="Only this, such as `publish` or `download`.")] = None,
    account: Annotated[str | None, Query(max_length=100, description="Only of this account; `-` is nobody known.")] = None,
    since: Annotated[str | None, Query(pattern=SINCE, description="From this day or moment on, in UTC.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Latest first. Downloads and refusals are sums by the hour, some seconds late; everything else is told one by one."""
    place = read_cursor(cursor, int)
    return page_answer(here.trail.list(caller, place, limit, action=action, account=account, since=since))


@plain_router.get(
    "/healthz",
    summary="Whether the platform is well",
    responses={200: {"model": schemas.Health}, 503: {"model": schemas.Error}},
)
def healthz(here: Here) -> Response:
    here.healthy()
    return json_answer({"status": "ok", "version": __version__})


@plain_router.get(
    "/readyz",
    summary="Whether the platform can do its work now: storage looked at",
    responses={200: {"model": schemas.Ready}, 503: {"model": schemas.Ready}},
)
def readyz(here: Here) -> Response:
    parts = here.ready()
    well = all(parts.values())
    document = {"status": "ready" if well else "not ready", "parts": parts, "not_confined": here.not_confined}
    return json_answer(document, 200 if well else 503)


@plain_router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, 503: {"model": schemas.Error}},
)
def metrics(here: Here) -> Response:
    return Response(here.metrics.text(), media_type=CONTENT_TYPE)
