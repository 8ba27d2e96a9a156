"""Searches: the list of one's own, one while it runs, and what it found, to look at or to take along."""

from __future__ import annotations

import math
from dataclasses import dataclass

from starlette.responses import Response

from saibot.platform.api import searches as api
from saibot.platform.clock import today
from saibot.platform.errors import NotFound
from saibot.platform.pages.admin_words import taken
from saibot.platform.pages.render import asset
from saibot.platform.pages.visit import Visit, in_thread
from saibot.platform.pagination import read_cursor, write_cursor
from saibot.platform.remembered import Remembered
from saibot.report.comparison import SideBySide, asked_words, compare_views
from saibot.report.exploring import explore_view
from saibot.report.html import comparison_html, report_html
from saibot.report.result import ResultView, file_name, result_csv, view_result
from saibot.wire import Search

LIMIT = 50
REMEMBERED = 2_000  # a result is read once, and never changes
ALONE = {"cache-control": "no-store"}


def index(visit: Visit) -> Response:
    place = read_cursor(visit.request.query_params.get("cursor"), int)
    page = visit.platform.searches.list(visit.caller, place, LIMIT)
    searches = [search.to_json() | {"seconds": taken(search), "told": _in_brief(visit, search)} for search in page.items]
    return visit.page(
        "searches.html",
        here="searches",
        searches=searches,
        next=write_cursor(page.next),
        everybody=visit.caller.has("admin"),
        days=visit.platform.settings.result_days,
    )


@dataclass(frozen=True)
class InBrief:
    """What tells one's searches apart in a list."""

    words: str
    before: float | None
    after: float | None


_BRIEFS: Remembered[str, InBrief] = Remembered(seconds=3600.0, most=REMEMBERED)


def _in_brief(visit: Visit, search: Search) -> InBrief | None:
    """Of the visitor's own that have a result."""
    if search.status != "done" or search.requester != visit.caller.name:
        return None
    known = _BRIEFS.get(search.id)
    if known is None:
        try:
            view = view_result(visit.platform.result(visit.caller, search.id))
        except NotFound:  # it has just expired
            return None
        known = InBrief(asked_words(view), view.before, view.after)
        _BRIEFS.put(search.id, known)
    return known


def show(visit: Visit) -> Response:
    search = visit.platform.searches.show(visit.caller, visit.request.path_params["id"])
    own = search.requester == visit.caller.name
    if search.status == "done" and own:
        return _result(visit, search)
    return visit.page(
        "search.html",
        here="searches",
        search=search,
        over=search.over,
        own=own,
        may_stop=own or visit.caller.has("admin"),
        days=visit.platform.settings.result_days,
    )


def _result(visit: Visit, search: Search) -> Response:
    view = _view(visit)
    explored = explore_view(view, epsilon=_epsilon(visit), files=asset)
    picks = [
        {"epsilon": each, "href": f"/searches/{search.id}?epsilon={each:g}#budgets", "chosen": each == explored.epsilon}
        for each in explored.epsilons
    ]
    return visit.page(
        "result.html",
        here="searches",
        search=search,
        view=view,
        explored=explored,
        budget_picks=picks,
        residuals_href=f"/searches/{search.id}/residuals.csv",
        others=_others(visit, search),
    )


async def events(visit: Visit) -> Response:
    """The same stream as the API's, for the session in the cookie."""
    return await api.events(visit.request, visit.caller, visit.platform, visit.request.path_params["id"])


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


def residuals(visit: Visit) -> Response:
    """What is left unexplained of every key."""
    view = _view(visit)
    return _download(explore_view(view, files=asset).residuals_csv().encode("utf-8-sig"), view, "-by-key.csv", "text/csv")


def choose_other(visit: Visit) -> Response:
    """From the form of a result to the page that compares it with the chosen one."""
    id, other = visit.request.path_params["id"], visit.request.query_params.get("with", "")
    for wanted in (id, other):
        visit.platform.searches.show(visit.caller, wanted)  # an error page where there is none
    return visit.go(f"/searches/{id}/compare/{other}")


def compare(visit: Visit) -> Response:
    """Two results of the visitor's own, side by side."""
    first, second, comparison = _compared(visit)
    told = [asked_words(view) for view in comparison.views]
    return visit.page("comparison.html", here="searches", first=first, second=second, comparison=comparison, told=told)


def compare_file(visit: Visit) -> Response:
    """The same as a report or a table, to take along."""
    kind = visit.request.path_params["kind"]
    _, _, comparison = _compared(visit)
    if kind == "html":
        content, type = comparison_html(comparison, created=today()), "text/html"
    elif kind == "csv":
        content, type = "\ufeff" + comparison.csv(), "text/csv"
    else:
        raise NotFound("there is no such file.", hint="A comparison is there as HTML and as CSV.")
    named = f'attachment; filename="{comparison.file_name("." + kind)}"'
    return Response(content.encode(), media_type=type, headers=ALONE | {"content-disposition": named})


def _compared(visit: Visit) -> tuple[Search, Search, SideBySide]:
    ids = [visit.request.path_params[name] for name in ("id", "other")]
    first, second = (visit.platform.searches.show(visit.caller, id) for id in ids)
    views = [view_result(visit.platform.result(visit.caller, id)) for id in ids]
    return first, second, compare_views(views[0], views[1], ("A", "B"))


def to_dataset(visit: Visit) -> Response:
    """A result names sketches by digest; this leads to the dataset, as long as it is published."""
    return visit.go(f"/datasets/{visit.platform.catalog.id_of(visit.caller, visit.request.path_params['digest'])}")


def _view(visit: Visit) -> ResultView:
    return view_result(visit.platform.result(visit.caller, visit.request.path_params["id"]))


def _epsilon(visit: Visit) -> float | None:
    """The budget that somebody asks about; what is no number is nobody's question."""
    try:
        asked = float(visit.request.query_params.get("epsilon", ""))
    except ValueError:
        return None
    return asked if math.isfinite(asked) and asked > 0 else None


def _done(visit: Visit) -> list[Search]:
    """The visitor's own searches that have a result, latest first."""
    listed = visit.platform.searches.list(visit.caller, None, LIMIT).items
    return [search for search in listed if search.status == "done" and search.requester == visit.caller.name]


def _others(visit: Visit, search: Search) -> list[tuple[Search, str]]:
    """The other ones, each with what was asked."""
    return [
        (other, told.words if (told := _in_brief(visit, other)) else "") for other in _done(visit) if other.id != search.id
    ]


def _download(content: bytes, view: ResultView, suffix: str, kind: str) -> Response:
    headers = ALONE | {"content-disposition": f'attachment; filename="{file_name(view, suffix)}"'}
    return Response(content, media_type=kind, headers=headers)
