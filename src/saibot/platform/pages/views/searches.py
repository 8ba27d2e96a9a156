"""Searches: the list of one's own, one while it runs, and what it found, to look at or to take along."""

from __future__ import annotations

from datetime import datetime

from starlette.responses import Response

from saibot.platform.api import searches as api
from saibot.platform.clock import today
from saibot.platform.pages.visit import Visit, in_thread
from saibot.platform.pagination import read_cursor, write_cursor
from saibot.report.html import report_html
from saibot.report.result import ResultView, file_name, result_csv, view_result
from saibot.wire import Search

LIMIT = 50
ALONE = {"cache-control": "no-store"}


def index(visit: Visit) -> Response:
    place = read_cursor(visit.request.query_params.get("cursor"), int)
    page = visit.platform.searches.list(visit.caller, place, LIMIT)
    searches = [search.to_json() | {"seconds": _seconds(search)} for search in page.items]
    return visit.page(
        "searches.html",
        here="searches",
        searches=searches,
        next=write_cursor(page.next),
        everybody=visit.caller.has("admin"),
        days=visit.platform.settings.result_days,
    )


def show(visit: Visit) -> Response:
    search = visit.platform.searches.show(visit.caller, visit.request.path_params["id"])
    own = search.requester == visit.caller.name
    if search.status == "done" and own:
        return visit.page("result.html", here="searches", search=search, view=_view(visit))
    return visit.page(
        "search.html",
        here="searches",
        search=search,
        over=search.over,
        own=own,
        days=visit.platform.settings.result_days,
    )


async def events(visit: Visit) -> Response:
    """The same stream as the API's, for the session in the cookie."""
    return await api.events(visit.caller, visit.platform, visit.request.path_params["id"])


async def cancel(visit: Visit) -> Response:
    """Stops it while it is under way; removes it when it is over."""
    await visit.form()
    id = visit.request.path_params["id"]
    found = await in_thread(visit.platform.searches.cancel, visit.caller, id)
    return visit.go("/searches?done=removed" if found is None else f"/searches/{id}?done=cancelled")


def as_json(visit: Visit) -> Response:
    view = _view(visit)
    return _download(view.result.text().encode(), view, ".json", "application/json")


def as_csv(visit: Visit) -> Response:
    view = _view(visit)
    return _download(result_csv(view).encode("utf-8-sig"), view, ".csv", "text/csv")


def as_report(visit: Visit) -> Response:
    view = _view(visit)
    return _download(report_html(view.result, created=today()).encode(), view, ".html", "text/html")


def to_dataset(visit: Visit) -> Response:
    """A result names sketches by digest; this leads to the dataset, as long as it is published."""
    return visit.go(f"/datasets/{visit.platform.catalog.id_of(visit.caller, visit.request.path_params['digest'])}")


def _view(visit: Visit) -> ResultView:
    return view_result(visit.platform.result(visit.caller, visit.request.path_params["id"]))


def _download(content: bytes, view: ResultView, suffix: str, kind: str) -> Response:
    headers = ALONE | {"content-disposition": f'attachment; filename="{file_name(view, suffix)}"'}
    return Response(content, media_type=kind, headers=headers)


def _seconds(search: Search) -> float | None:
    if not search.started or not search.finished:
        return None
    taken = datetime.fromisoformat(search.finished) - datetime.fromisoformat(search.started)
    return max(taken.total_seconds(), 0.0)
