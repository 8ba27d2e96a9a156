"""Routes of the pages, and what holds for all of them: headers, compression, and errors as pages.

Pages are routes of the same application as the API, so they are logged and counted alike. An error inside a page is shown
as a page; an address that nobody has is shown as a page to browsers and as JSON to programs.
"""

from __future__ import annotations

import gzip
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from saibot.errors import SaibotError
from saibot.platform.accounts import NOBODY
from saibot.platform.api.asking import reading
from saibot.platform.errors import NotSignedIn, TooManyRequests, status_of
from saibot.platform.limits import Kind
from saibot.platform.pages.first_visitor import prepare
from saibot.platform.pages.help_site import HelpSite
from saibot.platform.pages.session import session_text
from saibot.platform.pages.sketch_facts import SketchReader
from saibot.platform.pages.static_files import StaticFiles
from saibot.platform.pages.views import (
    about,
    admin,
    ask,
    budget,
    catalogue,
    dataset,
    docs,
    domain,
    enquiries,
    help,
    plan,
    provider,
    searches,
    sign_in,
    values,
)
from saibot.platform.pages.visit import Visit
from saibot.platform.service import Platform
from saibot.platform.storage.unavailable import is_away

View = Callable[[Visit], Response | Awaitable[Response]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
COMPRESSED_FROM = 1500
HEADINGS = {
    403: "Not with this token",
    404: "Nothing here",
    405: "Nothing here",
    409: "Not possible as things are",
    413: "Too large",
    422: "That cannot be used",
    429: "One moment, please",
    500: "Something went wrong",
    503: "Back in a moment",
}


@dataclass(frozen=True)
class Path:
    """What a route is called in logs and metrics."""

    path: str


def mount(app: FastAPI, platform: Platform) -> None:
    prepare()
    reader = SketchReader(platform.files)
    static = StaticFiles(platform.settings.data / "cache")
    guide = HelpSite()

    def add(path: str, view: View, *, method: str = "GET", kind: Kind | None = None, reads: bool = False) -> None:
        """`reads` where the view reads the sketch of the dataset that the address names."""
        spent: Kind = kind or ("read" if method == "GET" else "write")
        endpoint = _endpoint(platform, Path(path), view, spent, reads=reads)
        app.router.add_route(path, endpoint, methods=[method], include_in_schema=False)

    add("/", catalogue.show)
    add("/datasets/{id}", partial(dataset.show, reader=reader), reads=True)
    add("/datasets/{id}/sketch", dataset.sketch)
    add("/datasets/{id}/confirm", dataset.confirm, method="POST")
    add("/datasets/{id}/rows", values.rows, reads=True)
    add("/datasets/{id}/charts", values.charts, reads=True)
    add("/datasets/{id}/values.{kind}", values.download, reads=True)
    add("/datasets/{id}/about", about.show)
    add("/datasets/{id}/about", about.change, method="POST")
    add("/datasets/{id}/withdraw", budget.ask_withdrawal)
    add("/datasets/{id}/withdraw", budget.withdraw, method="POST")
    add("/datasets/{id}/enquire", enquiries.form)
    add("/datasets/{id}/enquire", enquiries.send, method="POST")
    add("/datasets/{id}/grants/take", enquiries.take_grant, method="POST")
    add("/enquiries", enquiries.index)
    add("/enquiries/{id}", enquiries.show)
    add("/enquiries/{id}/grant", enquiries.grant, method="POST")
    add("/enquiries/{id}/refuse", enquiries.refuse, method="POST")
    add("/enquiries/{id}/remove", enquiries.remove, method="POST")
    add("/providers/{name:path}", partial(provider.show, reader=reader))
    add("/domains", domain.index)
    add("/domains/{id:path}", domain.show)
    add("/lists/{id}.csv", domain.listed)
    add("/factors/{version}/{kind}", domain.factors)
    add("/ask", ask.show)
    add("/ask", ask.send, method="POST")
    add("/searches", searches.index)
    add("/searches/{id}", searches.show)
    add("/searches/{id}/events", searches.events)
    add("/searches/{id}/cancel", searches.cancel, method="POST")
    add("/searches/{id}/result.json", searches.as_json)
    add("/searches/{id}/result.csv", searches.as_csv)
    add("/searches/{id}/result.html", searches.as_report)
    add("/searches/{id}/residuals.csv", searches.residuals)
    add("/searches/{id}/compare", searches.choose_other)
    add("/searches/{id}/compare/{other}", searches.compare)
    add("/searches/{id}/compare/{other}/comparison.{kind}", searches.compare_file)
    add("/sketches/{digest}", searches.to_dataset)
    add("/budget", partial(budget.show, reader=reader))
    add("/account", sign_in.account)
    add("/account/tokens", sign_in.make_token, method="POST")
    add("/admin", admin.show)
    add("/admin/verify", admin.verify, method="POST")
    add("/admin/take-key", admin.take_key, method="POST")
    add("/tokens/{id}/revoke", admin.revoke, method="POST")
    add("/plan", plan.show)
    add("/plan/preview.json", plan.numbers)
    add("/sign-in", sign_in.show)
    add("/sign-in", sign_in.enter, method="POST")
    add("/sign-out", sign_in.leave, method="POST")
    add("/docs", docs.show)
    add("/help", partial(help.show, site=guide))
    add("/help/{name:path}", partial(help.show, site=guide))
    add("/static/{name}", lambda visit: static.respond(visit.request))
    add("/favicon.ico", lambda visit: visit.go("/static/favicon.svg"))
    _show_unknown_addresses(app, platform)


def _endpoint(
    platform: Platform, path: Path, view: View, kind: Kind, *, reads: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        request.scope["route"] = path
        visit = Visit(request, platform)
        try:
            if session_text(request) is not None:
                await run_in_threadpool(lambda: visit.caller)  # a look into the database
            visit.spend(kind)
            request.state.account = visit.caller.name
            if inspect.iscoroutinefunction(view):
                response = await view(visit)
            elif reads:
                work = partial(view, visit)
                response = await reading(request, platform, visit.caller, request.path_params["id"], work)
            else:
                response = await run_in_threadpool(view, visit)
        except NotSignedIn as problem:
            response = _to_sign_in(visit, problem)
        except SaibotError as problem:
            response = problem_page(visit, problem)
        except Exception as problem:
            platform.log.failure("page failed", problem, route=path.path)
            visit.__dict__.setdefault("caller", NOBODY)  # who it is may be what could not be found out
            away = is_away(problem)
            words = "The platform's storage does not answer, or is full." if away else "The platform made a mistake."
            response = error_page(visit, 503 if away else 500, f"{words} It has been noted.", "Try again in a moment.")
        return await _finished(request, response)

    return answer


async def _finished(request: Request, response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    text = response.headers.get("content-type", "").startswith(("text/html", "application/json", "text/csv"))
    long = len(getattr(response, "body", b"")) >= COMPRESSED_FROM
    if text and long and "content-encoding" not in response.headers and "gzip" in request.headers.get("accept-encoding", ""):
        response.body = await run_in_threadpool(gzip.compress, bytes(response.body), 5)
        response.headers["content-encoding"] = "gzip"
        response.headers["content-length"] = str(len(response.body))
        response.headers["vary"] = "accept-encoding"
    return response


def _to_sign_in(visit: Visit, problem: NotSignedIn) -> Response:
    if visit.request.method != "GET":
        return problem_page(visit, problem, offer_sign_in=True)
    here = visit.request.url.path + (f"?{visit.request.url.query}" if visit.request.url.query else "")
    return visit.go(f"/sign-in?next={quote(here, safe='')}")


def problem_page(visit: Visit, problem: SaibotError, *, offer_sign_in: bool = False) -> Response:
    status = status_of(problem)
    hidden = status == 404 and not visit.caller.signed_in
    hint = "It may be there for those who are signed in." if hidden else _for_people(problem.hint or "")
    response = error_page(visit, status, problem.message, hint, offer_sign_in=offer_sign_in or hidden)
    if isinstance(problem, TooManyRequests):
        response.headers["retry-after"] = str(problem.retry_after)
    return response


def error_page(visit: Visit, status: int, words: str, hint: str, *, offer_sign_in: bool = False) -> Response:
    heading = HEADINGS.get(status, HEADINGS[500] if status >= 500 else "Not possible")
    return visit.page(
        "error.html",
        status=status,
        code=status,
        heading=heading,
        words=words,
        hint=hint,
        offer_sign_in=offer_sign_in,
        next=visit.request.url.path if visit.request.method == "GET" else "/",
    )


def _for_people(hint: str) -> str:
    """Hints are written for callers of the API; an address of it helps nobody here."""
    return "" if "/v1/" in hint else hint


def _show_unknown_addresses(app: FastAPI, platform: Platform) -> None:
    as_json: Any = app.exception_handlers[HTTPException]

    async def unknown(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        browser = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1")
        if not browser or problem.status_code not in (404, 405):
            response: Response = await as_json(request, problem)
            return response
        page = error_page(Visit(request, platform), problem.status_code, "There is no page at this address.", "")
        return await _finished(request, page)

    app.add_exception_handler(HTTPException, unknown)
