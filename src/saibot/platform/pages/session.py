"""Signing in by token: what the cookies hold, and how a form proves that it came from our own page.

The session cookie holds a random text that stands for the token, for the browser's eyes only (HttpOnly): whoever finds it
cannot use the API with it; signing out and revoking the token end it at once. Every form carries a code that only a page
shown to this very session can know. The code is masked anew each time, so that compressed answers do not give it away by
their length.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from saibot.platform.errors import NotAllowed

SESSION = "saibot_session"
FORM = "saibot_form"  # a random text for visitors who have no session yet
FIELD = "csrf"
_HALF = hashlib.sha256().digest_size


def is_secure(connection: HTTPConnection) -> bool:
    """Whether browsers reach us by https: they do so directly, or the platform's public address says it."""
    return connection.url.scheme == "https" or _public(connection).startswith("https:")


def _public(connection: HTTPConnection) -> str:
    return str(connection.app.state.platform.settings.public_url or "")


def cookie_name(connection: HTTPConnection, name: str) -> str:
    """Over https the name itself makes browsers insist on Secure, our host and no other path."""
    return f"__Host-{name}" if is_secure(connection) else name


def session_text(connection: HTTPConnection) -> str | None:
    return connection.cookies.get(cookie_name(connection, SESSION)) or None


def form_secret(connection: HTTPConnection) -> str | None:
    """What the codes of this visitor's forms are made from."""
    return session_text(connection) or connection.cookies.get(cookie_name(connection, FORM)) or None


def set_cookie(connection: HTTPConnection, response: Response, name: str, value: str, *, strict: bool = False) -> None:
    """Gone when the browser closes; never readable by script; sent over https only where that is what is used."""
    response.set_cookie(
        cookie_name(connection, name),
        value,
        path="/",
        httponly=True,
        secure=is_secure(connection),
        samesite="strict" if strict else "lax",
    )


def drop_cookie(connection: HTTPConnection, response: Response, name: str) -> None:
    response.delete_cookie(
        cookie_name(connection, name), path="/", httponly=True, secure=is_secure(connection), samesite="lax"
    )


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def form_code(secret: str) -> str:
    """A fresh mask, and the code under it."""
    mask = secrets.token_bytes(_HALF)
    return (mask + _xor(mask, _code(secret))).hex()


def check_origin(connection: HTTPConnection) -> None:
    """Refuse a form that another site sent, before its body is read. Browsers say where a form came from."""
    origin = connection.headers.get("origin")
    ours = {connection.headers.get("host", ""), urlsplit(_public(connection)).netloc} - {""}
    if origin is not None and urlsplit(origin).netloc not in ours:
        raise _foreign()
    if connection.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise _foreign()


def check_code(connection: HTTPConnection, sent: object) -> None:
    """Refuse a form that does not carry the code of this visitor."""
    secret = form_secret(connection)
    try:
        both = bytes.fromhex(sent) if isinstance(sent, str) else b""
    except ValueError:
        both = b""
    mask, masked = both[:_HALF], both[_HALF:]
    if secret is None or len(both) != 2 * _HALF or not hmac.compare_digest(_xor(mask, masked), _code(secret)):
        raise NotAllowed(
            "this form is no longer valid, or was not sent from this site.",
            hint="Go back, load the page again, and repeat. Cookies must be allowed for this site.",
            code="stale_form",
        )


def local_path(wanted: str | None) -> str:
    """Where to go after signing in: a path of this site, whatever a link says."""
    if not wanted or not wanted.startswith("/") or wanted.startswith("//") or "\\" in wanted or not wanted.isprintable():
        return "/"
    return wanted


def _code(secret: str) -> bytes:
    return hmac.digest(secret.encode("utf-8", "surrogateescape"), b"saibot form", "sha256")


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=False))


def _foreign() -> NotAllowed:
    return NotAllowed(
        "this form was sent from another site.", hint="Open the page here and send it again.", code="foreign_form"
    )
