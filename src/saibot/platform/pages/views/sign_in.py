"""Signing in and out, and whom one is signed in as."""

from __future__ import annotations

from starlette.responses import Response

from saibot.platform.errors import NotSignedIn
from saibot.platform.pages import session
from saibot.platform.pages.visit import Visit, in_thread


def show(visit: Visit) -> Response:
    asked = session.local_path(visit.request.query_params.get("next"))
    if visit.caller.signed_in:
        return visit.go(asked)
    return visit.page("sign_in.html", here="sign-in", next=asked, problem=None)


def account(visit: Visit) -> Response:
    """The tokens of the account."""
    if not visit.caller.signed_in:
        raise NotSignedIn("this page needs an access token.", hint="Sign in with one.")
    tokens, name = visit.platform.accounts.own(visit.caller), visit.caller.name
    standing = visit.platform.providers.standings(visit.caller, [name])[name]
    return visit.page("account.html", here="account", tokens=tokens, this_token=visit.caller.token, standing=standing)


async def enter(visit: Visit) -> Response:
    fields = await visit.form()
    token = str(fields.get("token", "")).strip()
    asked = session.local_path(str(fields.get("next", "")))
    try:
        caller = await in_thread(visit.platform.accounts.caller_of, token or " ")
    except NotSignedIn as problem:
        return visit.page("sign_in.html", here="sign-in", status=401, next=asked, problem=problem)
    assert caller.signed_in
    opened = await in_thread(visit.platform.accounts.open_session, token)
    response = visit.go(asked if asked != "/" else "/?done=signed-in")
    session.set_cookie(visit.request, response, session.SESSION, opened)
    session.drop_cookie(visit.request, response, session.FORM)
    return response


async def leave(visit: Visit) -> Response:
    await visit.form()
    await in_thread(visit.platform.accounts.close_session, session.session_text(visit.request))
    response = visit.go("/?done=signed-out")
    session.drop_cookie(visit.request, response, session.SESSION)
    response.headers["clear-site-data"] = '"cache"'
    return response
