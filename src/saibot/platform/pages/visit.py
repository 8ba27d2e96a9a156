"""One request of a browser: who it is, what may be shown, and how a page is made of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.api.forms import form_of, sketches_of
from saibot.platform.errors import NotSignedIn
from saibot.platform.limits import Kind
from saibot.platform.pages import session
from saibot.platform.pages.guides import guide_to
from saibot.platform.pages.render import render
from saibot.platform.pages.static_files import vega_address
from saibot.platform.service import Platform

DONE = {  # what a page says after a form was sent; the address names the message, never its words
    "signed-in": "You are signed in.",
    "signed-out": "You are signed out.",
    "withdrawn": "The dataset is withdrawn. Its sketch is gone from storage and from searches.",
    "confirmed": "The source is confirmed. What the table has in common with others is learned soon.",
    "described": "What you say of the dataset is saved.",
    "cancelled": "The search is cancelled.",
    "removed": "The search and its result are removed.",
    "revoked": "The token is revoked.",
    "verified": "The provider is verified. Lists, dataset pages and results say so from now on.",
    "unverified": "The verification is taken back.",
    "key-taken": "The key is taken back. It signs nothing here any more, and the account may bind another one.",
    "enquired": "The enquiry is sent. Its answer will be shown here.",
    "granted": "The dataset is granted. The requester sees it from now on.",
    "refused": "The enquiry is refused. The requester sees your reason.",
    "taken-back": "The enquiry is gone.",
    "grant-taken": "The account does not see the dataset any more. What it has downloaded stays with it.",
}


class Visit:
    """Made for every request; `caller` is nobody where there is no session, or one that is no longer valid."""

    def __init__(self, request: Request, platform: Platform) -> None:
        self.request = request
        self.platform = platform

    @cached_property
    def caller(self) -> Caller:
        try:
            return self.platform.accounts.caller_of_session(session.session_text(self.request))
        except NotSignedIn:
            return NOBODY

    def spend(self, kind: Kind) -> None:
        """Count this request against the visitor's allowance."""
        self.platform.limits.spend(self.caller, self.request.client.host if self.request.client else None, kind)

    def need(self, role: str) -> None:
        self.caller.need(role)

    @property
    def origin(self) -> str:
        """The address people reach this platform at, for commands to copy."""
        return self.platform.settings.public_url or str(self.request.base_url).rstrip("/")

    # -------------------------------------------------------------------------------------------- answers

    def page(self, template: str, *, here: str = "", status: int = 200, **context: Any) -> Response:
        secret = session.form_secret(self.request)
        fresh = None if secret else session.new_secret()
        field = _csrf_field(secret or fresh or "")
        text = render(
            template,
            here=here,
            visitor=self.caller if self.caller.signed_in else None,
            csrf_field=field,
            message=DONE.get(self.request.query_params.get("done", ""), ""),
            origin=self.origin,
            vega=vega_address(),
            guide=guide_to(template),
            **context,
        )
        response = HTMLResponse(text, status_code=status, headers={"cache-control": "private, no-store"})
        if fresh is not None:
            session.set_cookie(self.request, response, session.FORM, fresh, strict=True)
        return response

    def go(self, path: str) -> RedirectResponse:
        """After a form: fetch this page, so that reloading does not send the form again."""
        return RedirectResponse(path, status_code=303, headers={"cache-control": "no-store"})

    # -------------------------------------------------------------------------------------------- forms

    async def form(self) -> FormData:
        """The fields of a form without files from this very visitor."""
        async with self._checked(form_of(self.request)) as fields:
            return fields

    @asynccontextmanager
    async def sketches(self) -> AsyncIterator[FormData]:
        """The form of a search from this very visitor, while its files are there."""
        async with self._checked(sketches_of(self.request, self.platform)) as fields:
            yield fields

    @asynccontextmanager
    async def _checked(self, form: AbstractAsyncContextManager[FormData]) -> AsyncIterator[FormData]:
        session.check_origin(self.request)
        async with form as fields:
            session.check_code(self.request, fields.get(session.FIELD))
            yield fields


def _csrf_field(secret: str) -> Callable[[], Markup]:
    return lambda: Markup('<input type="hidden" name="{}" value="{}">').format(session.FIELD, session.form_code(secret))


async def in_thread(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return await run_in_threadpool(work, *arguments, **named)
