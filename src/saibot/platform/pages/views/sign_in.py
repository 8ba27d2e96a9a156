"""Signing in and out, and whom one is signed in as."""

from __future__ import annotations

from starlette.responses import Response

from saibot.platform.clock import is_day, today
from saibot.platform.errors import NotSignedIn, Unusable
from saibot.platform.pages import session
from saibot.platform.pages.visit import Visit, in_thread
from saibot.wire import NewToken


def show(visit: Visit) -> Response:
    asked = session.local_path(visit.request.query_params.get("next"))
    if visit.caller.signed_in:
        return visit.go(asked)
    return visit.page("sign_in.html", here="sign-in", next=asked, problem=None)


def account(visit: Visit, made: NewToken | None = None) -> Response:
    """The tokens of the account, and a form for another one; `made` was made just now, and is shown this once."""
    if not visit.caller.signed_in:
        raise NotSignedIn("this page needs an access token.", hint="Sign in with one.")
    tokens, name = visit.platform.accounts.own(visit.caller), visit.caller.name
    this = next((token for token in tokens if token.id == visit.caller.token), None)
    return visit.page(
        "account.html",
        here="account",
        tokens=tokens,
        this_token=visit.caller.token,
        until=this.expires[:10] if this is not None and this.expires else None,
        roles=visit.caller.account.roles,
        made=made,
        standing=visit.platform.providers.standings(visit.caller, [name])[name],
    )


async def make_token(visit: Visit) -> Response:
    fields = await visit.form()
    if not visit.caller.signed_in:
        raise NotSignedIn("this needs an access token.", hint="Sign in with one.")
    roles = [str(role) for role in fields.getlist("role")]
    expires = str(fields.get("expires", "")).strip() or None
    if expires is not None and (not is_day(expires) or expires <= today()):
        raise Unusable("a token expires on a day after today.", hint="Leave the day out for one that stays.")
    create = visit.platform.accounts.create
    made = await in_thread(create, visit.caller, None, roles, expires=expires)
    shown: Response = await in_thread(account, visit, made)
    return shown


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
