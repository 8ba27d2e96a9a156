"""What a sketch says per key, on the page of its dataset: a chart, a table that sorts and narrows, and files to take along.

The table is paged here and not in the browser, so that a hundred thousand keys are as quick as ten. Without script the same
links and the same form lead to the page again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.responses import JSONResponse, Response

from saibot.platform.errors import NotFound
from saibot.platform.key_values import FeatureByKey, ValuesByKey
from saibot.platform.pages.render import asset
from saibot.platform.pages.visit import Visit
from saibot.report.explore_charts import Drawn
from saibot.report.format import count, with_error
from saibot.report.key_charts import OverKeys, kind_of, over_keys, places
from saibot.report.key_table import KINDS, KeyTable
from saibot.report.places import key_labels, map_words, shapes_of
from saibot.report.spreadsheet import safe_file_name

FIRST = 50  # rows in the page itself
MOST = 500  # rows of one answer
LITTLE = 0.2  # of their error, by which values differ at least where they say something of single keys
CHIPS = 12  # features that are a button each; of more, a list has the others
LONGEST = 100  # letters of a text that is looked for
COLUMNS = {"key": "Key", "value": "Value", "error": "Error", "rows": "Rows"}
BETTER = {"better": "With the corpus", "better_error": "Its error"}


def section(visit: Visit, id: str, found: ValuesByKey) -> dict[str, Any]:
    """All that the page shows of the keys, for a query that links and the form of the page make."""
    query = visit.request.query_params
    whole, part = found, _fixed_part(found)
    found, asked = _narrowed(found, query), _asked(query)
    feature = found.feature(query.get("feature"))
    asked |= {"level": found.level or "", "within": "" if found is whole else query["within"]}
    order = found.order(feature, by=asked["sort"], down=asked["down"], text=asked["text"])
    start = min(_start(query), max(len(order) - 1, 0))
    chosen = order[start : start + FIRST]
    return {
        "feature": feature,
        "picks": [
            {"name": name, "unit": unit, "href": _address(id, asked | {"feature": name}), "chosen": name == feature.name}
            for place, (name, unit) in enumerate(found.named)
            if place < CHIPS or name == feature.name
        ],
        "listed": [{"name": name, "unit": unit} for name, unit in found.named] if len(found.named) > CHIPS else [],
        "levels": _level_picks(id, found, asked | {"feature": feature.name}),
        "within": None if part is None else _part_picks(id, whole, part, asked | {"feature": feature.name}),
        "whole": found.whole,
        "files": {kind: _file(id, kind, found, feature) for kind in KINDS},
        "asked": asked,
        "heads": [
            {
                "name": name,
                "title": title,
                "sorted": ("descending" if asked["down"] else "ascending") if asked["sort"] == name else None,
                "href": _address(id, asked | {"feature": feature.name, "sort": name, "down": _turned(asked, name)}),
            }
            for name, title in _columns(feature).items()
        ],
        "rows": _rows(found, feature, chosen),
        "total": len(order),
        "start": start,
        "before": _address(id, asked | {"feature": feature.name, "start": max(start - FIRST, 0)}) if start else None,
        "after": (
            _address(id, asked | {"feature": feature.name, "start": start + FIRST}) if start + FIRST < len(order) else None
        ),
        "charts": _charts(found, feature),
        "kind": _drawn(found, feature).kind,
        "says_little": _says_little(feature),
        "map_words": map_words(found.domain, found.labels, command=visit.caller.has("admin")),
        "factors": found.factors,
    }


def _says_little(feature: FeatureByKey) -> bool:
    """Whether values of keys differ by less than a fifth of what they may be off by."""
    error = float(np.median(feature.errors)) if len(feature.errors) else 0.0
    return error > 0 and float(np.std(feature.values)) < LITTLE * error


def rows(visit: Visit) -> Response:
    """Some rows of the table as texts, and how many there are."""
    query = visit.request.query_params
    found = _narrowed(_found(visit), query)
    feature, asked = found.feature(query.get("feature")), _asked(query)
    order = found.order(feature, by=asked["sort"], down=asked["down"], text=asked["text"])
    start = _start(query)
    some = _rows(found, feature, order[start : start + MOST])
    return JSONResponse({"total": len(order), "start": start, "rows": some}, headers={"cache-control": "no-store"})


def charts(visit: Visit) -> Response:
    """The specifications of a feature's charts, by their ids in the page, and whether the feature says little."""
    found = _narrowed(_found(visit), visit.request.query_params)
    feature = found.feature(visit.request.query_params.get("feature"))
    drawn = {one.id: one.spec for one in _charts(found, feature)}
    return JSONResponse({"charts": drawn, "says_little": _says_little(feature)}, headers={"cache-control": "no-store"})


def download(visit: Visit) -> Response:
    """All features of all keys, to take along; of a large sketch one feature."""
    kind = visit.request.path_params["kind"]
    if kind not in KINDS:
        raise NotFound("there is no such file.", hint="Values are there as CSV, Arrow and JSON.")
    dataset = visit.platform.catalog.show(visit.caller, visit.request.path_params["id"])
    found = _found(visit)
    of = "".join(f"-{name}" for name in (found.level, None if found.whole else found.features[0].name) if name)
    named = safe_file_name(f"{dataset['name']}-{dataset['digest'][:12]}-values{of}", f".{kind}")
    headers = {"content-disposition": f'attachment; filename="{named}"', "cache-control": "no-store"}
    return Response(as_table(found).written(kind), media_type=KINDS[kind], headers=headers)


def as_table(found: ValuesByKey) -> KeyTable:
    """Key columns, rows of each key, and for each feature its value and error, alone and with the help of the corpus."""
    numbers = {"rows": found.counts}
    for feature in found.features:
        numbers |= {feature.name: feature.values, f"{feature.name} error": feature.errors}
        if feature.better is not None and feature.better_errors is not None:
            numbers |= {
                f"{feature.name} with the corpus": feature.better,
                f"{feature.name} with the corpus error": feature.better_errors,
            }
    names = [f"key {name}" if name in numbers else name for name in found.parts]
    return KeyTable(dict(zip(names, found.keys, strict=True)), numbers)


# ------------------------------------------------------------------------------------------------ inside


def _found(visit: Visit) -> ValuesByKey:
    dataset = visit.platform.catalog.show(visit.caller, visit.request.path_params["id"])
    query = visit.request.query_params
    found = visit.platform.key_values.of(dataset["digest"], query.get("feature"), query.get("level"))
    if found is None:
        raise NotFound("this dataset has no key.", hint="Its page has what it says of the whole table.")
    return found


def _columns(feature: FeatureByKey) -> dict[str, str]:
    better = BETTER if feature.better is not None else {}
    return {"key": COLUMNS["key"], "value": COLUMNS["value"], "error": COLUMNS["error"], **better, "rows": COLUMNS["rows"]}


def _rows(found: ValuesByKey, feature: FeatureByKey, places: np.ndarray) -> list[list[str]]:
    pairs = [(feature.values, feature.errors)]
    if feature.better is not None and feature.better_errors is not None:
        pairs.append((feature.better, feature.better_errors))
    made = []
    for place in places.tolist():
        told = [text for values, errors in pairs for text in _told(float(values[place]), float(errors[place]))]
        made.append([found.told[place], *told, count(max(float(found.counts[place]), 0.0))])
    return made


def _told(value: float, error: float) -> tuple[str, str]:
    """Value and error, with no more digits than the error leaves a meaning to."""
    told, _, of = with_error(value, error).partition(" ± ")
    return told, of or "0"


def _drawn(found: ValuesByKey, feature: FeatureByKey) -> OverKeys:
    return OverKeys(
        found.domain,
        found.labels,
        feature.values,
        feature.errors,
        unit=feature.unit,
        name=feature.name,
        shapes=shapes_of(found.domain),
        better=feature.better,
        labels=None if found.told is found.labels else found.told,
        bounds=feature.bounds,
    )


def _charts(found: ValuesByKey, feature: FeatureByKey) -> list[Drawn]:
    """One, with the corpus's values in it; of places two maps of one scale, for a map has room for one value of a place."""
    drawn = _drawn(found, feature)
    words = "Values over the keys; the table below has the numbers."
    if drawn.shapes is None or drawn.better is None:
        return [Drawn("values-chart", "", words, over_keys(drawn, asset))]
    both = {"values-chart": ("The sketch alone", drawn.values), "better-chart": ("With the corpus", drawn.better)}
    spread = [float(np.nanmax(np.abs(values - drawn.middle))) for _, values in both.values()]
    reach = max(*spread, drawn.least_reach)
    return [
        Drawn(
            id,
            title,
            words,
            places(
                replace(drawn, values=values, errors=drawn.errors if id == "values-chart" else None, better=None),
                drawn.shapes,
                asset(drawn.shapes.file),
                middle=drawn.middle,
                reach=reach,
            ),
        )
        for id, (title, values) in both.items()
    ]


def _asked(query: Mapping[str, str]) -> dict[str, Any]:
    sort = query.get("sort", "key")
    return {
        "sort": sort if sort in COLUMNS or sort in BETTER else "key",
        "down": query.get("down") == "1",
        "text": query.get("keys", "").strip()[:LONGEST],
    }


def _start(query: Mapping[str, str]) -> int:
    text = query.get("start", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _turned(asked: Mapping[str, Any], name: str) -> bool:
    """Numbers begin with the largest, keys with the first; the same again turns the order round."""
    return not asked["down"] if asked["sort"] == name else name != "key"


def _file(id: str, kind: str, found: ValuesByKey, feature: FeatureByKey) -> str:
    query = {"feature": "" if found.whole else feature.name, "level": found.level or ""}
    asked = urlencode({name: value for name, value in query.items() if value})
    return f"/datasets/{id}/values.{kind}" + (f"?{asked}" if asked else "")


def _level_picks(id: str, found: ValuesByKey, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keys themselves, and each coarser level of them."""
    names = ("", *found.levels) if found.levels else ()
    return [
        {"level": name, "href": _address(id, {**asked, "level": name, "text": ""}), "chosen": name == (found.level or "")}
        for name in names
    ]


def _fixed_part(found: ValuesByKey) -> int | None:
    """Which part of a key of two parts is picked, so that the other can be drawn: a line in time, or else a map."""
    if len(found.domains) != 2:
        return None
    kinds = [kind_of(domain, shapes_of(domain)) for domain in found.domains]
    for kind in ("line", "map"):
        if kind in kinds:
            return 1 - kinds.index(kind)
    return 0


def _part_picks(id: str, found: ValuesByKey, part: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the part that is picked: some as links, and all of many in a list."""
    texts = list(dict.fromkeys(found.keys[part]))
    told = dict(zip(texts, key_labels(found.domains[part], texts), strict=True))
    chosen = asked["within"]
    shown = [text for place, text in enumerate(texts) if place < CHIPS or text == chosen]
    return {
        "part": found.parts[part],
        "other": found.parts[1 - part],
        "picks": [
            {
                "text": text,
                "told": told.get(text, "all"),
                "href": _address(id, {**asked, "within": text}),
                "chosen": text == chosen,
            }
            for text in ("", *shown)
        ],
        "listed": told if len(texts) > CHIPS else {},
    }


def _narrowed(found: ValuesByKey, query: Mapping[str, str]) -> ValuesByKey:
    """The keys with the picked value of a part, if there is such a value."""
    part, text = _fixed_part(found), query.get("within", "")
    return found if part is None or not text or text not in found.keys[part] else found.within(part, text)


def _address(id: str, asked: Mapping[str, Any]) -> str:
    named = {
        "feature": asked.get("feature", ""),
        "sort": "" if asked["sort"] == "key" else asked["sort"],
        "down": "1" if asked["down"] else "",
        "keys": asked["text"],
        "level": asked.get("level", ""),
        "within": asked.get("within", ""),
        "start": asked.get("start") or "",
    }
    return f"/datasets/{id}?{urlencode({name: value for name, value in named.items() if value})}#values"
