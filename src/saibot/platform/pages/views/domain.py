"""Key domains: what their keys are, which datasets have them, and what the corpus knows beyond any one of those."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from starlette.responses import Response

from saibot.discover.joins import part_id
from saibot.domains.csv_text import domain_to_csv
from saibot.domains.naming import domain_name, key_kind, key_labels, listed_size
from saibot.domains.vocabularies import finer_lists, of_domain
from saibot.errors import InvalidDomain
from saibot.platform.catalog import Filter
from saibot.platform.errors import NotFound
from saibot.platform.key_domains import KeyDomainFacts, SharedKnowledge
from saibot.platform.pages.render import asset
from saibot.platform.pages.visit import Visit
from saibot.report.charts import Spec
from saibot.report.key_charts import OverKeys, loaded_bars, over_keys
from saibot.report.key_table import KINDS, KeyTable
from saibot.report.places import map_words, shapes_of
from saibot.report.spreadsheet import safe_file_name
from saibot.search.searched_corpus import SHARED

LOADED = 12  # datasets shown for a factor
COMPOSITE = " × "


def address(id: str, **query: Any) -> str:
    """Where the page of a key domain is."""
    words = urlencode({name: value for name, value in query.items() if value})
    return f"/domains/{quote(id, safe='')}" + (f"?{words}" if words else "")


def index(visit: Visit) -> Response:
    """All key domains that datasets here have, those with the most datasets first."""
    counted = visit.platform.catalog.facets(visit.caller, Filter())["domains"]
    factors = {name: one for one in visit.platform.key_domains.in_use() for name in one.names if len(one.names) == 1}
    listed = [
        {
            "id": one["domain"],
            "count": one["count"],
            "href": address(one["domain"]),
            "known": factors.get(one["domain"]),
            "kind": key_kind(one["domain"]),
            "size": listed_size(one["domain"]) or _seen_size(visit, one["domain"]),
        }
        for one in counted
    ]
    return visit.page("domains.html", here="domains", domains=listed)


def _seen_size(visit: Visit, id: str) -> int | None:
    """As the newest dataset with these keys says: lists under one id that nobody has registered may differ."""
    page = visit.platform.catalog.list(visit.caller, Filter(domain=id), limit=1)
    parts = [part for text in page.items for part in json.loads(text)["key"]["parts"] if part["domain"] == id]
    return next((int(part["size"]) for part in parts), None)


def show(visit: Visit) -> Response:
    query = visit.request.query_params
    facts = visit.platform.key_domains.find(visit.caller, visit.request.path_params["id"], query.get("keys") or None)
    known = visit.platform.key_domains.knowledge(facts.part)
    chosen = next((one for one in known if one.shared.version == query.get("version")), known[0] if known else None)
    return visit.page(
        "domain.html",
        here="domains",
        facts=facts,
        name=domain_name(facts.part.domain),
        others=[
            {"version": other.version, "size": other.size, "href": address(other.domain, keys=part_id(other.keys_digest))}
            for other in facts.others
        ],
        sample=_sample(facts),
        levels=[(level, size) for level, size in facts.levels if size < facts.part.size],
        spellings=[level for level, size in facts.levels if size >= facts.part.size],
        known=[_brief(facts, one, one is chosen) for one in known],
        chosen=None if chosen is None else _factor(visit, facts, chosen, query.get("factor", "1")),
        coarser=_lists(facts.vocabulary.levels.values() if facts.vocabulary else ()),
        finer=_lists(finer_lists(facts.part.domain) if facts.vocabulary else ()),
        snippet=_snippet(visit.origin),
    )


def listed(visit: Visit) -> Response:
    """All keys of a list that ships, with their coarser levels: what the page of `saibot ask-page` reads."""
    id = visit.request.path_params["id"]
    found = of_domain(id)
    try:
        domain = None if found is None else found.domain
    except InvalidDomain:  # its package is not installed here
        domain = None
    if domain is None:
        raise NotFound("there is no such file.", hint="The page of key domains lists those that are there.")
    named = safe_file_name(f"{id}-{domain.version}", ".csv")
    headers = {"content-disposition": f'attachment; filename="{named}"'}
    return Response(domain_to_csv(domain), media_type="text/csv", headers=headers)


def factors(visit: Visit) -> Response:
    """The factors of a version by key, to take along."""
    stem, _, kind = visit.request.path_params["kind"].partition(".")
    if stem != "factors" or kind not in KINDS:
        raise NotFound("there is no such file.", hint="Factors are there as CSV, Arrow and JSON.")
    known = visit.platform.key_domains.named(visit.request.path_params["version"])
    keys = visit.platform.key_domains.keys_of(known.shared)
    if keys is None:
        raise NotFound("the keys of these factors are not known here.", hint="GET /v1/factors has them without keys.")
    names = _distinct(known.names)
    table = KeyTable(
        dict(zip(names, zip(*keys, strict=True), strict=True)),
        {f"{_column(known)}.{number}": column for number, column in enumerate(known.columns, start=1)},
    )
    named = safe_file_name(f"saibot-shared-{'-'.join(known.names)}-{known.shared.version[:8]}", f".{kind}")
    headers = {"content-disposition": f'attachment; filename="{named}"'}
    return Response(table.written(kind), media_type=KINDS[kind], headers=headers)


def _brief(facts: KeyDomainFacts, known: SharedKnowledge, chosen: bool) -> dict[str, Any]:
    return {
        "name": COMPOSITE.join(map(domain_name, known.names)),
        "rank": known.shared.rank,
        "version": known.shared.version,
        "taught": len(known.shared.taught),
        "sketches": known.sketches,
        "explained": float(known.shared.explained.sum()),
        "chosen": chosen,
        "href": address(facts.part.domain, keys=_keys(facts), version=known.shared.version) + "#shared",
    }


def _factor(visit: Visit, facts: KeyDomainFacts, known: SharedKnowledge, asked: str) -> dict[str, Any]:
    """One factor of a key: over its keys, and which datasets load on it."""
    number = min(max(int(asked), 1), known.shared.rank) if asked.isascii() and asked.isdigit() else 1
    keys = visit.platform.key_domains.keys_of(known.shared)
    loaded = visit.platform.key_domains.loaded(visit.caller, known.shared, number - 1, most=LOADED)
    labels = [(f"{dataset['title'] or dataset['name']}: {one.feature}", one.share) for one, dataset in loaded]
    picks = [
        {
            "number": each,
            "explained": float(share),
            "href": address(facts.part.domain, keys=_keys(facts), version=known.shared.version, factor=each) + "#shared",
        }
        for each, share in enumerate(known.shared.explained, start=1)
    ]
    return {
        "number": number,
        "picks": picks,
        "version": known.shared.version,
        "chart": None if keys is None else _over_keys(known, keys, number),
        "map_words": "" if keys is None else _map_words(visit, known, keys),
        "loaded": loaded,
        "loaded_chart": loaded_bars(labels),
    }


def _over_keys(known: SharedKnowledge, keys: list[tuple[str, ...]], number: int) -> Spec:
    domain = "+".join(known.names)
    values = np.asarray(known.columns[number - 1], float)
    columns = [key_labels(name, column) for name, column in zip(known.names, zip(*keys, strict=True), strict=True)]
    drawn = OverKeys(domain, _texts(keys), values, name=f"factor {number}", shapes=shapes_of(domain))
    return over_keys(replace(drawn, labels=_texts(list(zip(*columns, strict=True)))), asset)


def _map_words(visit: Visit, known: SharedKnowledge, keys: list[tuple[str, ...]]) -> str:
    return map_words("+".join(known.names), _texts(keys), command=visit.caller.has("admin"))


def _texts(keys: Sequence[tuple[str, ...]]) -> list[str]:
    return [COMPOSITE.join(key) for key in keys]


def _snippet(origin: str) -> str:
    return (
        "from saibot.client import Platform, Requester, SearchOptions\n"
        f"requester = Requester(Platform({origin!r}))\n"
        'found = requester.search("mine.csv", target="y", key="KEY", local=True, options=SearchOptions(shared=True))\n'
        'table = found.augment("mine.csv")'
    )


def _sample(facts: KeyDomainFacts) -> dict[str, Any] | None:
    if facts.keys is None:
        return None
    levels = [name for name, _ in facts.levels]
    return {"levels": levels, "rows": facts.keys.rows, "left": max(facts.part.size - len(facts.keys.rows), 0)}


def _lists(ids: Iterable[str]) -> list[dict[str, str]]:
    return [{"name": domain_name(id), "href": address(id)} for id in dict.fromkeys(ids)]


def _keys(facts: KeyDomainFacts) -> str:
    """Needed in an address only where an id stands for several lists."""
    return part_id(facts.part.keys_digest) if facts.others else ""


def _column(known: SharedKnowledge) -> str:
    return f"{SHARED}{'+'.join(known.names)}"


def _distinct(names: tuple[str, ...]) -> list[str]:
    """Two parts of a key may have one domain: from, to."""
    return [name if names.index(name) == place else f"{name} ({place + 1})" for place, name in enumerate(names)]
