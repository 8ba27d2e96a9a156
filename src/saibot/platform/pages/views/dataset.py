"""A dataset: what it holds, how private it is, what it goes with, and how to use it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from saibot.platform.api.answers import file_answer, is_download
from saibot.platform.key_values import ValuesByKey
from saibot.platform.pages import cite
from saibot.platform.pages.history import history
from saibot.platform.pages.sketch_facts import SketchFacts, SketchReader
from saibot.platform.pages.views import values
from saibot.platform.pages.visit import Visit, in_thread
from saibot.platform.shown_sketches import TooLargeToShow
from saibot.report import sketch_charts, words
from saibot.wire import DatasetGrant

NEIGHBOURS = 6


def show(visit: Visit, reader: SketchReader) -> Response:
    dataset = visit.platform.show(visit.caller, visit.request.path_params["id"])
    facts = reader.read(dataset["digest"])
    profile = dataset["profile"]
    features = _features(dataset, profile)
    names = [feature["name"] for feature in features]
    correlations = profile["correlations"] if profile and len(names) > 1 else None
    found, too_large = _values(visit, dataset["digest"])
    mechanism, layout = words.mechanism(dataset["mechanism"], dataset["layout"])
    return visit.page(
        "dataset.html",
        here="catalogue",
        dataset=dataset,
        facts=facts,
        siblings=_siblings(visit, dataset),
        said=visit.platform.said.of(visit.caller, dataset["id"]),
        versions=history(dataset["versions"], reader),
        citation=cite.sentence(dataset, visit.origin),
        bibtex=cite.bibtex(dataset, visit.origin),
        values=None if found is None else values.section(visit, dataset["id"], found),
        too_large=too_large,
        features=features,
        profile_chart=sketch_charts.profile(features) if profile else None,
        correlations=correlations,
        correlations_chart=sketch_charts.correlations(names, correlations) if correlations and len(names) <= 40 else None,
        names=names,
        protection=_protection(dataset, facts),
        account_total=words.account_total(dataset["budget"], dataset["spent"]) if dataset["spent"] else "",
        mechanism_words=mechanism,
        layout_words=layout,
        related=visit.platform.relatives.of(visit.caller, dataset["id"], limit=NEIGHBOURS),
        finer=visit.platform.relatives.finer(visit.caller, dataset, limit=NEIGHBOURS),
        snippet=_snippet(visit.origin, dataset),
        may_confirm=dataset["open"] and not dataset["confirmed"] and may_confirm(visit, dataset),
        may_enquire=visit.caller.has("requester") and dataset["provider"] != visit.caller.name,
        grants=_grants(visit, dataset),
        standing=visit.platform.providers.standings(visit.caller, [dataset["provider"]])[dataset["provider"]],
        original=_original(visit, dataset),
        own=visit.caller.signed_in and (dataset["provider"] == visit.caller.name or visit.caller.has("admin")),
    )


def _values(visit: Visit, digest: str) -> tuple[ValuesByKey | None, TooLargeToShow | None]:
    """What there is to show of the keys, or why there is nothing."""
    try:
        query = visit.request.query_params
        return visit.platform.key_values.of(digest, query.get("feature"), query.get("level")), None
    except TooLargeToShow as problem:
        return None, problem


def _original(visit: Visit, dataset: dict[str, Any]) -> dict[str, Any] | None:
    """The dataset that this one is a copy of, if the visitor may know of it."""
    return visit.platform.catalog.show(visit.caller, dataset["copy_of"]) if dataset["copy_of"] else None


def _grants(visit: Visit, dataset: dict[str, Any]) -> list[DatasetGrant]:
    """To whom it is granted, for its provider's eyes."""
    own = visit.caller.has("provider") and dataset["provider"] == visit.caller.name
    return visit.platform.grants.of(visit.caller, dataset["id"]) if own else []


def may_confirm(visit: Visit, dataset: dict[str, Any]) -> bool:
    """Whether this visitor may say that the source of an open table is what it claims to be: an admin, of others' tables."""
    return visit.caller.has("admin") and dataset["provider"] != visit.caller.name


async def confirm(visit: Visit) -> Response:
    fields = await visit.form()
    id = visit.request.path_params["id"]
    await in_thread(visit.platform.confirm, visit.caller, id, str(fields.get("digest")))
    return visit.go(f"/datasets/{id}?done=confirmed")


def _siblings(visit: Visit, dataset: dict[str, Any]) -> list[dict[str, Any]]:
    """The same table by other keys."""
    found = visit.platform.catalog.siblings(visit.caller, dataset["provider"], dataset["name"])
    return [other for other in found if other["id"] != dataset["id"]]


def sketch(visit: Visit) -> Response:
    """The file itself, as its provider published it."""
    dataset = visit.platform.catalog.show(visit.caller, visit.request.path_params["id"])
    digest = dataset["digest"]
    file = visit.platform.open_sketch(visit.caller, digest, counted=is_download(visit.request, digest))
    name = f"{dataset['name']}-{digest[:12]}.saibot"
    return file_answer(visit.request, file, etag=digest, media_type="application/octet-stream", name=name)


def _features(dataset: dict[str, Any], profile: dict[str, Any] | None) -> list[dict[str, Any]]:
    nothing = {"value": None, "error": None}
    profiled = {feature["name"]: feature for feature in profile["features"]} if profile else {}
    unknown = {"mean": nothing, "deviation": nothing}
    return [feature | {k: profiled.get(feature["name"], unknown)[k] for k in unknown} for feature in dataset["features"]]


def _protection(dataset: dict[str, Any], facts: SketchFacts | None) -> words.Protection:
    if dataset["open"]:
        return words.open_table()
    return words.protection(
        budget=dataset["budget"],
        neighbours=dataset["neighbours"],
        individual=dataset["individual"],
        rows_per_individual=facts.rows_per_individual if facts else 1,
        preparation=facts.preparation if facts else "public",
    )


def _snippet(origin: str, dataset: dict[str, Any]) -> str:
    """Three lines that show whether this dataset's platform improves one's own model, without sending a row.

    The columns of one's own table are taken to be called like the parts of the key. Without a key, rows can be added that
    have the same columns: the target is one of them.
    """
    # Names are whatever their provider chose: as literals they stay names when somebody runs these lines.
    columns = [part["name"] for part in dataset["key"]["parts"]] if dataset["key"] else []
    key = f", key={(columns if len(columns) > 1 else columns[0])!r}" if columns else ""
    target = "y" if columns else dataset["features"][0]["name"]
    token = "" if dataset["visibility"] == "public" else ', token="saibot_..."'
    return (
        "from saibot.client import Platform, Requester\n"
        f"requester = Requester(Platform({origin!r}{token}))\n"
        f'found = requester.search("mine.csv", target={target!r}{key}, local=True)'
    )
