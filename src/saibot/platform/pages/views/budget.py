"""A provider's own view: what was published, what it has cost, and how to take it back."""

from __future__ import annotations

import json

from starlette.responses import Response

from saibot.platform.catalog import Filter
from saibot.platform.errors import NotAllowed, Unusable
from saibot.platform.pages.sketch_facts import SketchReader
from saibot.platform.pages.spending import spent_by, tables_of
from saibot.platform.pages.visit import Visit, in_thread
from saibot.platform.pagination import read_cursor, write_cursor

LIMIT = 100


def show(visit: Visit, reader: SketchReader) -> Response:
    caller = visit.caller
    if not caller.has("admin"):
        visit.need("provider")
    place = read_cursor(visit.request.query_params.get("cursor"), str, int)
    page = visit.platform.catalog.list(caller, Filter(provider=caller.name), sort="name", place=place, limit=LIMIT)
    datasets = [json.loads(text) for text in page.items]
    return visit.page(
        "budget.html",
        here="budget",
        account=caller.name,
        tables=[table | {"spent": spent_by(table)} for table in tables_of(visit, reader, datasets)],
        next=write_cursor(page.next),
        waiting=visit.platform.enquiries.waiting(caller),
    )


def ask_withdrawal(visit: Visit) -> Response:
    dataset = visit.platform.catalog.show(visit.caller, visit.request.path_params["id"])
    visit.need("admin" if visit.caller.has("admin") else "provider")
    if dataset["provider"] != visit.caller.name and not visit.caller.has("admin"):
        raise NotAllowed("only its provider or an admin can withdraw a dataset.", hint="Ask the provider.")
    return visit.page("withdraw.html", here="budget", dataset=dataset)


async def withdraw(visit: Visit) -> Response:
    fields = await visit.form()
    if fields.get("sure") != "yes":
        raise Unusable("the withdrawal was not confirmed.", hint="Tick the box to confirm it.")
    await in_thread(visit.platform.withdraw, visit.caller, visit.request.path_params["id"])
    return visit.go("/budget?done=withdrawn")
