"""Enquiries to providers, and to whom datasets are granted."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from saibot.platform.api import schemas
from saibot.platform.api.answers import described_body, documented, json_answer, page_answer
from saibot.platform.api.asking import Asking, Cursor, Here, Limit, document_of
from saibot.platform.api.datasets import DatasetId
from saibot.platform.api.tokens import SECURED
from saibot.platform.pagination import Page, read_cursor
from saibot.wire import DatasetGrant, Enquire, Enquiry, EnquiryGrant, EnquiryRefusal

router = APIRouter(prefix="/v1", tags=["enquiries"])
EnquiryId = Annotated[str, Path(max_length=40)]
AccountName = Annotated[str, Path(max_length=100)]


@router.post(
    "/enquiries",
    summary="Ask the provider of a dataset for more",
    status_code=201,
    responses=documented({201: Enquiry}, 403, 404),
    openapi_extra=SECURED | described_body("Enquire"),
)
async def ask(request: Request, caller: Asking, here: Here) -> Response:
    """Asking tells the provider what you are after: send it only with the word of whoever searched."""
    caller.need("requester")
    wish = await document_of(request, Enquire)
    return json_answer(await run_in_threadpool(here.enquiries.ask, caller, wish), 201)


@router.get(
    "/enquiries",
    summary="Enquiries that one has sent or received",
    responses=documented({200: schemas.EnquiryList}),
    openapi_extra=SECURED,
)
def list_enquiries(
    caller: Asking,
    here: Here,
    side: Annotated[Literal["asked", "received"] | None, Query(description="Of which side. Left out: both.")] = None,
    open: Annotated[bool, Query(description="Only those without an answer.")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """The latest first."""
    place = read_cursor(cursor, int)
    return page_answer(here.enquiries.list(caller, side=side, open_only=open, place=place, limit=limit))


@router.get("/enquiries/{id}", summary="An enquiry", responses=documented({200: Enquiry}, 403, 404), openapi_extra=SECURED)
def show(caller: Asking, here: Here, id: EnquiryId) -> Response:
    """For the requester and the provider alone."""
    return json_answer(here.enquiries.show(caller, id))


@router.post(
    "/enquiries/{id}/grant",
    summary="Answer an enquiry with a dataset",
    responses=documented({200: Enquiry}, 403, 404, 409),
    openapi_extra=SECURED | described_body("EnquiryGrant"),
)
async def grant(request: Request, caller: Asking, here: Here, id: EnquiryId) -> Response:
    """The dataset is published already, as a rule with the visibility `granted`; the requester may use it from now on."""
    caller.need("provider")
    answer = await document_of(request, EnquiryGrant)
    return json_answer(await run_in_threadpool(here.enquiries.grant, caller, id, answer))


@router.post(
    "/enquiries/{id}/refuse",
    summary="Refuse an enquiry",
    responses=documented({200: Enquiry}, 403, 404, 409),
    openapi_extra=SECURED | described_body("EnquiryRefusal"),
)
async def refuse(request: Request, caller: Asking, here: Here, id: EnquiryId) -> Response:
    caller.need("provider")
    answer = await document_of(request, EnquiryRefusal)
    return json_answer(await run_in_threadpool(here.enquiries.refuse, caller, id, answer))


@router.delete(
    "/enquiries/{id}",
    summary="Take an enquiry back",
    status_code=204,
    responses=documented({204: None}, 403, 404),
    openapi_extra=SECURED,
)
def remove(caller: Asking, here: Here, id: EnquiryId) -> Response:
    """By who sent it, answered or not. What was granted stays granted."""
    here.enquiries.remove(caller, id)
    return Response(status_code=204)


@router.get(
    "/datasets/{id}/grants",
    summary="To whom a dataset is granted",
    responses=documented({200: schemas.GrantList}, 403, 404),
    openapi_extra=SECURED,
)
def list_grants(caller: Asking, here: Here, id: DatasetId) -> Response:
    return page_answer(Page(here.grants.of(caller, id), None))


@router.put(
    "/datasets/{id}/grants/{account}",
    summary="Grant a dataset to an account",
    responses=documented({200: DatasetGrant}, 403, 404),
    openapi_extra=SECURED,
)
def give(caller: Asking, here: Here, id: DatasetId, account: AccountName) -> Response:
    return json_answer(here.grants.give(caller, id, account))


@router.delete(
    "/datasets/{id}/grants/{account}",
    summary="Take a grant back",
    status_code=204,
    responses=documented({204: None}, 403, 404),
    openapi_extra=SECURED,
)
def take(caller: Asking, here: Here, id: DatasetId, account: AccountName) -> Response:
    """From now on. What the account has downloaded stays with it."""
    here.grants.take(caller, id, account)
    return Response(status_code=204)
