"""The form in which a provider says licence, contact, tags and more of a table."""

from __future__ import annotations

from pydantic import ValidationError
from starlette.responses import Response

from saibot.platform.errors import NotAllowed, Unusable
from saibot.platform.pages.visit import Visit, in_thread
from saibot.wire import About


def show(visit: Visit) -> Response:
    dataset = visit.platform.catalog.show(visit.caller, visit.request.path_params["id"])
    visit.need("provider")
    if dataset["provider"] != visit.caller.name:
        raise NotAllowed("only its provider describes a dataset.", hint="Ask the provider.")
    said = visit.platform.said.of(visit.caller, dataset["id"])
    return visit.page("about.html", here="budget", dataset=dataset, said=said)


async def change(visit: Visit) -> Response:
    fields = await visit.form()
    id = visit.request.path_params["id"]
    words = {name: str(fields.get(name, "")) for name in ("licence", "contact", "more")}
    tags = [tag.strip() for tag in str(fields.get("tags", "")).split(",") if tag.strip()]
    try:
        said = About(**words, tags=tuple(dict.fromkeys(tags)))
    except ValidationError as problem:
        field = problem.errors(include_input=False)[0]["loc"][0]
        hint = "A line has at most 200 letters; there are at most 20 tags of 40 letters, and 20,000 letters of text."
        raise Unusable(f"the field {field} is too long.", hint=hint) from None
    await in_thread(visit.platform.said.change, visit.caller, id, said)
    return visit.go(f"/datasets/{id}?done=described")
