"""A provider: all its datasets, and what they have cost together."""

from __future__ import annotations

import json

from starlette.responses import Response

from saibot.platform.catalog import Filter
from saibot.platform.errors import NotFound
from saibot.platform.pages.sketch_facts import SketchReader
from saibot.platform.pages.spending import spent_by, tables_of, together
from saibot.platform.pages.visit import Visit

MOST = 200  # datasets of one page


def show(visit: Visit, reader: SketchReader) -> Response:
    name = visit.request.path_params["name"]
    page = visit.platform.catalog.list(visit.caller, Filter(provider=name), sort="name", limit=MOST)
    documents = [one for one in map(json.loads, page.items) if one["provider"] == name]
    if not documents:
        raise NotFound("nobody with this name has published anything here.", hint="The catalogue lists all providers.")
    tables = tables_of(visit, reader, documents)
    return visit.page(
        "provider.html",
        here="catalogue",
        provider=name,
        tables=[table | {"spent": spent_by(table)} for table in tables],
        spent=together(tables),
        sketches=len(documents),
        standing=visit.platform.providers.standings(visit.caller, [name])[name],
        complete=page.next is None,
    )
