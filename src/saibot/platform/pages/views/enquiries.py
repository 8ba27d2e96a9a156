"""Enquiries in the browser: a requester asks for more, a provider grants a dataset or refuses, both see how it stands."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import FormData
from starlette.responses import Response

from saibot.platform.catalog import Filter
from saibot.platform.errors import NotFound, Unusable
from saibot.platform.pages.visit import Visit, in_thread
from saibot.platform.pagination import read_cursor, write_cursor
from saibot.wire import Enquire, EnquiryGrant, EnquiryRefusal
from saibot.wire.dataset import Cost
from saibot.wire.enquiry import TELLS

OFFERED = 200  # of a provider's datasets, to choose from
TOO_LONG = "Names have at most 100 letters, 50 columns and 10 keys at most; texts have at most 2,000 letters."


def form(visit: Visit) -> Response:
    """The form in which a requester asks the provider of a dataset for more."""
    visit.need("requester")
    dataset = visit.platform.show(visit.caller, visit.request.path_params["id"])
    return visit.page("enquire.html", here="catalogue", dataset=dataset, tells=TELLS)


async def send(visit: Visit) -> Response:
    fields = await visit.form()
    visit.need("requester")
    if fields.get("understood") != "yes":
        raise Unusable("the enquiry was not sent: the box is not ticked.", hint=TELLS)
    epsilon, delta = _text(fields, "epsilon"), _text(fields, "delta")
    try:
        wish = Enquire(
            dataset=visit.request.path_params["id"],
            columns=_names(fields, "columns"),
            keys=_names(fields, "keys"),
            budget=Cost(epsilon=epsilon, delta=delta or "0") if epsilon else None,
            why=_text(fields, "why"),
            understood=True,
        )
    except ValidationError as problem:
        raise _unusable(problem) from None
    sent = await in_thread(visit.platform.enquiries.ask, visit.caller, wish)
    return visit.go(f"/enquiries/{sent.id}?done=enquired")


def index(visit: Visit) -> Response:
    place = read_cursor(visit.request.query_params.get("cursor"), int)
    page = visit.platform.enquiries.list(visit.caller, place=place)
    return visit.page("enquiries.html", here="enquiries", enquiries=page.items, next=write_cursor(page.next))


def show(visit: Visit) -> Response:
    enquiry = visit.platform.enquiries.show(visit.caller, visit.request.path_params["id"])
    answers = enquiry.status == "open" and enquiry.provider == visit.caller.name
    return visit.page(
        "enquiry.html",
        here="enquiries",
        enquiry=enquiry,
        there={id for id in (enquiry.dataset, enquiry.granted) if id is not None and _is_there(visit, id)},
        answers=answers,
        offered=_offered(visit) if answers else [],
    )


async def grant(visit: Visit) -> Response:
    fields = await visit.form()
    id = visit.request.path_params["id"]
    try:
        answer = EnquiryGrant(dataset=_text(fields, "dataset"), words=_text(fields, "words"))
    except ValidationError as problem:
        raise _unusable(problem) from None
    await in_thread(visit.platform.enquiries.grant, visit.caller, id, answer)
    return visit.go(f"/enquiries/{id}?done=granted")


async def refuse(visit: Visit) -> Response:
    fields = await visit.form()
    id = visit.request.path_params["id"]
    try:
        answer = EnquiryRefusal(reason=_text(fields, "reason"))
    except ValidationError as problem:
        raise _unusable(problem) from None
    await in_thread(visit.platform.enquiries.refuse, visit.caller, id, answer)
    return visit.go(f"/enquiries/{id}?done=refused")


async def remove(visit: Visit) -> Response:
    await visit.form()
    await in_thread(visit.platform.enquiries.remove, visit.caller, visit.request.path_params["id"])
    return visit.go("/enquiries?done=taken-back")


async def take_grant(visit: Visit) -> Response:
    fields = await visit.form()
    id = visit.request.path_params["id"]
    await in_thread(visit.platform.grants.take, visit.caller, id, _text(fields, "account"))
    return visit.go(f"/datasets/{id}?done=grant-taken")


def _offered(visit: Visit) -> list[dict[str, Any]]:
    """The provider's own datasets, those first that are granted account by account."""
    page = visit.platform.catalog.list(visit.caller, Filter(provider=visit.caller.name), limit=OFFERED)
    own = [one for one in map(json.loads, page.items) if one["provider"] == visit.caller.name]
    return sorted(own, key=lambda one: one["visibility"] != "granted")


def _is_there(visit: Visit, id: str) -> bool:
    try:
        visit.platform.catalog.row(visit.caller, id)
    except NotFound:
        return False
    return True


def _text(fields: FormData, name: str) -> str:
    return str(fields.get(name, "")).replace("\r\n", "\n").strip()


def _names(fields: FormData, name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in _text(fields, name).split(",") if part.strip())


def _unusable(problem: ValidationError) -> Unusable:
    field = problem.errors(include_input=False)[0]["loc"][0]
    return Unusable(f"the field {field} is empty or too long.", hint=TOO_LONG)
