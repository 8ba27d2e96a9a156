"""The catalogue: words, facets, an order, and pages that stay fast however many datasets there are."""

from __future__ import annotations

import json
import math
from typing import Any, cast
from urllib.parse import urlencode

from starlette.responses import Response

from saibot.domains.naming import domain_name
from saibot.platform.catalog import FACETS, SORTS, Filter, Sort
from saibot.platform.describe import plain
from saibot.platform.pages.visit import Visit
from saibot.platform.pagination import read_cursor, write_cursor

LIMIT = 20
SHOWN = 8  # values of a facet
SORT_WORDS = (
    ("published", "Newest first"),
    ("rows", "Most rows first"),
    ("epsilon", "Strongest privacy first"),
    ("name", "By name"),
    ("used", "Most used first"),
)
FILTERS = ("q", "domain", "provider", "feature", "tag")
SHOWN_AS = {"domain": domain_name}
TITLES = {"domain": "Key domain", "provider": "Provider", "feature": "Feature", "tag": "Tag"}


def show(visit: Visit) -> Response:
    asked = {name: visit.request.query_params.get(name, "").strip()[:200] for name in FILTERS}
    sort = visit.request.query_params.get("sort", "published")
    sort = sort if sort in SORTS else "published"
    cursor = visit.request.query_params.get("cursor", "")
    place = read_cursor(cursor, SORTS[sort][2], int)
    filter = Filter(**{name: value or None for name, value in asked.items()})
    page = visit.platform.catalog.list(visit.caller, filter, sort=cast(Sort, sort), place=place, limit=LIMIT, tables=True)
    items = [_item(json.loads(text)) for text in page.items]
    facets = visit.platform.catalog.facets(visit.caller, filter)
    query = asked | ({"sort": sort} if sort != "published" else {})
    after = write_cursor(page.next)
    return visit.page(
        "catalogue.html",
        here="catalogue",
        items=items,
        total=visit.platform.catalog.tables(visit.caller, filter),
        facets=_facets(facets, query),
        chosen=[
            {"title": TITLES[name], "value": SHOWN_AS.get(name, str)(asked[name]), "href": address(query | {name: ""})}
            for name in TITLES
            if asked[name]
        ],
        filters=asked | {"sort": sort},
        sorts=SORT_WORDS,
        first_href=address(query) if cursor else None,
        next_href=address(query | {"cursor": after}) if after else None,
    )


def address(query: dict[str, str]) -> str:
    """The catalogue with this query; empty fields are left out."""
    text = urlencode({name: value for name, value in query.items() if value})
    return f"/?{text}" if text else "/"


def _item(document: dict[str, Any]) -> dict[str, Any]:
    """With the number of its keys, or of the fewest and the most where it is published by several."""
    counts = sorted(math.prod(part["size"] for part in key["parts"]) for key in document["keys"])
    return document | {"key_counts": list(dict.fromkeys(counts[:1] + counts[-1:]))}


def _facets(found: dict[str, Any], query: dict[str, str]) -> list[dict[str, Any]]:
    """Key domains, providers, features and tags with counts, the most common first: some in sight, others behind `more`."""
    values = {name: [(entry[name], entry["count"]) for entry in found[f"{name}s"]] for name in TITLES}
    made = []
    for name, title in TITLES.items():
        chosen = query.get(name, "")
        # Features and tags are counted without case, as they are looked up; what was chosen may be written otherwise.
        same = plain(chosen) if name in ("feature", "tag") else chosen
        rows = [(value, count) for value, count in values[name] if value != same]
        count = next((count for value, count in values[name] if value == same), None)
        if chosen:
            rows.insert(0, (chosen, count))
        choices = [
            {
                "name": SHOWN_AS.get(name, str)(value),
                "id": value,
                "count": count,
                "chosen": value == chosen,
                "href": address(query | {name: "" if value == chosen else value}),
            }
            for value, count in rows
        ]
        cut = len(values[name]) >= FACETS  # rarer ones are found by their names
        made.append({"title": title, "choices": choices[:SHOWN], "more": choices[SHOWN:], "cut": cut})
    return made
