"""Key domains: register, list, show, and download as CSV."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from saibot.platform.api import schemas
from saibot.platform.api.answers import documented, file_answer, is_unchanged, json_answer, page_answer
from saibot.platform.api.asking import Asking, Cursor, Here, Limit, turn
from saibot.platform.api.tokens import SECURED
from saibot.platform.api.uploads import upload_of
from saibot.platform.domains import ID
from saibot.platform.errors import WrongMediaType
from saibot.platform.pagination import read_cursor
from saibot.wire import Domain

router = APIRouter(prefix="/v1", tags=["domains"])
DomainId = Annotated[str, Path(description="Like `us-county-fips`.", pattern=ID)]
VersionNumber = Annotated[int, Path(ge=1, le=1_000_000_000)]
_CSV = {"text/csv": {"schema": {"type": "string"}}}
_KEYS: dict[int, dict[str, Any]] = {
    200: {"content": _CSV, "description": "A header line, then one line a key."},
    304: {"description": "Unchanged: the ETag is its digest."},
}


@router.put(
    "/domains/{id}/{version}",
    summary="Register a key domain",
    status_code=201,
    responses=documented({201: Domain, 200: Domain}, 403, 409, 413, 415),
    openapi_extra=SECURED | {"requestBody": {"required": True, "content": _CSV}},
)
async def register(request: Request, caller: Asking, here: Here, id: DomainId, version: VersionNumber) -> Response:
    """CSV with a header line: first column the key, further columns its parents. 200 when it is there already."""
    kind = request.headers.get("content-type", "text/csv").partition(";")[0].strip().lower()
    caller.need("provider")
    if kind not in ("text/csv", "application/csv", "text/plain"):
        raise WrongMediaType("a key domain is sent as CSV.", hint="Send it with `Content-Type: text/csv`.")
    async with upload_of(request, caller, here, here.settings.max_upload_bytes) as content:
        facts, is_new = await run_in_threadpool(here.register_domain, caller, id, version, content)
    return json_answer(facts, 201 if is_new else 200)


@router.get("/domains", summary="Registered key domains", responses=documented({200: schemas.DomainList}))
def list_domains(caller: Asking, here: Here, cursor: Cursor = None, limit: Limit = 50) -> Response:
    return page_answer(here.domains.list(read_cursor(cursor, str, int), limit))


@router.get("/domains/{id}/{version}", summary="Facts about a key domain", responses=documented({200: Domain}, 404))
def show(caller: Asking, here: Here, id: DomainId, version: VersionNumber) -> Response:
    return json_answer(here.domains.show(id, version))


@router.get(
    "/domains/{id}/{version}/file",
    summary="The keys of a domain, as CSV",
    response_class=Response,
    responses=documented({}, 404, extra=_KEYS),
)
async def file(request: Request, caller: Asking, here: Here, id: DomainId, version: VersionNumber) -> Response:
    facts = await run_in_threadpool(here.domains.show, id, version)
    headers = {"ETag": f'"{facts.digest}"', "Cache-Control": "public, max-age=3600"}
    if is_unchanged(request, facts.digest):
        return Response(status_code=304, headers=headers)
    keys = await run_in_threadpool(here.domains.made_csv, facts.digest)
    if keys is None:
        long = await run_in_threadpool(here.domains.takes_long, facts.digest)
        async with turn(request.app.state.lists, facts.digest, *(["everybody"] if long else [])):
            keys = await run_in_threadpool(here.domains.csv, facts.digest)
    return file_answer(request, keys, etag=facts.digest, media_type="text/csv", name=f"{id}-{version}.csv", headers=headers)


@router.delete(
    "/domains/{id}/{version}",
    summary="Remove a key domain that no dataset uses",
    status_code=204,
    responses=documented({204: None}, 403, 404, 409),
    openapi_extra=SECURED,
)
def remove(caller: Asking, here: Here, id: DomainId, version: VersionNumber) -> Response:
    """By whoever registered it, or an admin. Its id and version are free again afterwards, for them alone."""
    here.domains.remove(caller, id, version)
    return Response(status_code=204)
