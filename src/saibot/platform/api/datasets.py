"""Datasets: publish, list, count, show, withdraw, download; and what a slice of the corpus is made of."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from saibot.platform.api import schemas
from saibot.platform.api.answers import (
    described_body,
    documented,
    file_answer,
    is_download,
    json_answer,
    page_answer,
    page_of_texts,
)
from saibot.platform.api.asking import Asking, Cursor, Here, Limit, document_of, reading, turn
from saibot.platform.api.tokens import SECURED
from saibot.platform.api.uploads import upload_of
from saibot.platform.catalog import SORTS, Filter, Sort
from saibot.platform.errors import Busy, WrongMediaType
from saibot.platform.pagination import read_cursor
from saibot.platform.validation import MAGIC, PRIVATIZE
from saibot.platform.withdrawing import PATIENCE
from saibot.sketch import SUFFIX
from saibot.wire import About, Dataset, Related, ShownDataset
from saibot.wire.dataset import Visibility

router = APIRouter(prefix="/v1", tags=["datasets"])
WORDS = "Every word of it begins a word of its name, title, a feature, its key domain, provider, a tag or the licence."
Q = Annotated[str | None, Query(max_length=500, description=WORDS)]
Named = Annotated[str | None, Query(max_length=200)]
DatasetId = Annotated[str, Path(max_length=40)]
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_BINARY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_FILE: dict[int, dict[str, Any]] = {
    200: {"content": _BINARY, "description": "The sketch file."},
    206: {"content": _BINARY, "description": "The part that the Range header asked for."},
    304: {"description": "Unchanged: the ETag is its digest."},
}


@router.post(
    "/datasets",
    summary="Publish a sketch",
    status_code=201,
    responses=documented({201: Dataset, 200: Dataset}, 403, 413, 415),
    openapi_extra=SECURED | {"requestBody": {"required": True, "content": _BINARY}},
)
async def publish(
    request: Request,
    caller: Asking,
    here: Here,
    visibility: Annotated[
        Visibility | None,
        Query(
            description="Who sees it: everybody, requesters, or accounts that it is granted to. Left out: as it is now; "
            "a new one is public."
        ),
    ] = None,
    expires: Annotated[
        str | None,
        Query(description="The day it is withdrawn by itself, YYYY-MM-DD. Left out: as it is now.", max_length=10),
    ] = None,
) -> Response:
    """The body is a `.saibot` file. 201: a new dataset, or a new version of it; 200: this very sketch is there already."""
    caller.need("provider")
    kind = request.headers.get("content-type", "application/octet-stream").partition(";")[0].strip().lower()
    if kind not in ("application/octet-stream", "application/vnd.apache.arrow.file"):
        raise WrongMediaType("a sketch is sent as application/octet-stream.", hint=PRIVATIZE)
    async with upload_of(request, caller, here, here.settings.max_upload_bytes, begins=MAGIC) as content:
        found, is_new = await run_in_threadpool(here.accept, caller, content, visibility=visibility, expires=expires)
    return json_answer(found, 201 if is_new else 200)


@router.get("/datasets", summary="Published datasets", responses=documented({200: schemas.DatasetList}))
def list_datasets(
    caller: Asking,
    here: Here,
    q: Q = None,
    domain: Named = None,
    provider: Named = None,
    feature: Named = None,
    tag: Named = None,
    sort: Sort = "published",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    place = read_cursor(cursor, SORTS[sort][2], int)
    filter = Filter(q, domain, provider, feature, tag)
    return page_of_texts(here.catalog.list(caller, filter, sort=sort, place=place, limit=limit))


@router.get(
    "/facets",
    summary="How many datasets match, by domain, provider, feature and tag",
    responses=documented({200: schemas.Facets}),
)
def facets(
    caller: Asking,
    here: Here,
    q: Q = None,
    domain: Named = None,
    provider: Named = None,
    feature: Named = None,
    tag: Named = None,
) -> Response:
    return json_answer(here.catalog.facets(caller, Filter(q, domain, provider, feature, tag)))


@router.get("/datasets/{id}", summary="A dataset and its private profile", responses=documented({200: ShownDataset}, 404))
async def show(request: Request, caller: Asking, here: Here, id: DatasetId) -> Response:
    return json_answer(await reading(request, here, caller, id, lambda: here.show(caller, id)))


@router.get(
    "/datasets/{id}/related",
    summary="Which datasets join or union with a dataset, and why",
    responses=documented({200: Related}, 404),
)
async def related(
    request: Request,
    caller: Asking,
    here: Here,
    id: DatasetId,
    limit: Annotated[int, Query(ge=1, le=100, description="Most of each kind.")] = 20,
) -> Response:
    """From public facts alone: features with their units, and lists of keys, which may overlap in part."""
    return json_answer(await reading(request, here, caller, id, lambda: here.relatives.of(caller, id, limit=limit)))


@router.get(
    "/datasets/{id}/about",
    summary="Licence, contact, tags and more of a dataset",
    responses=documented({200: About}, 404),
)
def about(caller: Asking, here: Here, id: DatasetId) -> Response:
    """What its provider says beside the sketches."""
    return json_answer(here.said.of(caller, id))


@router.put(
    "/datasets/{id}/about",
    summary="Say licence, contact, tags and more of a dataset",
    responses=documented({200: About}, 403, 404),
    openapi_extra=SECURED | described_body("About"),
)
async def describe(request: Request, caller: Asking, here: Here, id: DatasetId) -> Response:
    """Of its table, by all keys that it is published by. What is left out is empty afterwards."""
    await run_in_threadpool(here.said.check_may_change, caller, id)
    said = await document_of(request, About)
    return json_answer(await run_in_threadpool(here.said.change, caller, id, said))


@router.delete(
    "/datasets/{id}",
    summary="Withdraw a dataset with all its versions",
    status_code=204,
    responses=documented({204: None}, 403, 404),
    openapi_extra=SECURED,
)
async def withdraw(request: Request, caller: Asking, here: Here, id: DatasetId) -> Response:
    """When this has answered, its data is in no file that is served or searched; what was being learned at that moment drops
    it as the lesson ends, in half an hour at most. 503: it is in no list; its files follow.
    """
    await run_in_threadpool(here.withdrawing.check_may_withdraw, caller, id)
    async with AsyncExitStack() as held:
        patience = PATIENCE
        try:
            await held.enter_async_context(turn(request.app.state.leaving, "everybody"))
        except Busy:
            patience = 0.0  # it leaves all lists nevertheless
        await run_in_threadpool(here.withdraw, caller, id, patience=patience)
    return Response(status_code=204)


@router.post(
    "/datasets/{id}/confirm",
    summary="Confirm the source of an open dataset",
    responses=documented({200: Dataset}, 403, 404, 409, 422),
    openapi_extra=SECURED,
)
def confirm(
    caller: Asking,
    here: Here,
    id: DatasetId,
    digest: Annotated[str, Query(pattern=r"^[0-9a-f]{64}$", description="Of the sketch that was looked at.")],
) -> Response:
    """An admin says that the table is what its source says. Before that, an open dataset teaches no shared factors."""
    return json_answer(here.confirm(caller, id, digest))


@router.get(
    "/datasets/{id}/sketch",
    summary="Download the latest sketch of a dataset",
    response_class=Response,
    responses=documented({}, 404, 416, extra=_FILE),
)
def download(request: Request, caller: Asking, here: Here, id: DatasetId) -> Response:
    row = here.catalog.row(caller, id)
    return _sketch(request, caller, here, row["digest"], row["name"])


@router.get(
    "/sketches/{digest}",
    summary="Download a sketch by digest",
    response_class=Response,
    responses=documented({}, 404, 416, extra=_FILE),
)
def by_digest(request: Request, caller: Asking, here: Here, digest: Digest) -> Response:
    return _sketch(request, caller, here, digest, digest[:16])


@router.get("/corpus", summary="What a slice of the corpus is made of", responses=documented({200: schemas.CorpusList}))
def corpus(
    caller: Asking,
    here: Here,
    domain: Named = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
) -> Response:
    return page_answer(here.catalog.manifest(caller, domain, read_cursor(cursor, int), limit))


def _sketch(request: Request, caller: Asking, here: Here, digest: str, name: str) -> Response:
    file = here.open_sketch(caller, digest, counted=is_download(request, digest))
    media_type = "application/octet-stream"
    return file_answer(request, file, etag=digest, media_type=media_type, name=f"{name}{SUFFIX}")
