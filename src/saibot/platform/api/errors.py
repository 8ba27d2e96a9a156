"""Every error as the one shape, whoever raised it: a verb, the router, or the check of parameters."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from saibot.errors import SaibotError
from saibot.platform.api.answers import json_answer
from saibot.platform.errors import Busy, TooManyRequests, error_document, status_of

_KNOWN = {
    400: ("bad_request", "the request cannot be read.", "Send it as /docs describes."),
    404: ("not_found", "there is nothing at this address.", "The addresses are listed at /docs."),
    405: ("wrong_method", "this address does not have this method.", "The Allow header says which it has."),
    413: ("too_large", "the request is too large.", "Send a smaller one."),
    415: ("wrong_media_type", "this media type is not expected here.", "/docs says which is."),
}


def add_to(app: FastAPI) -> None:
    app.add_exception_handler(SaibotError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


async def _refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, SaibotError)
    headers = {}
    status = status_of(problem)
    if isinstance(problem, TooManyRequests | Busy):
        headers["Retry-After"] = str(problem.retry_after)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return json_answer(error_document(problem), status, headers)


async def _invalid(request: Request, problem: Exception) -> Response:
    """Where and why, never the value itself."""
    assert isinstance(problem, RequestValidationError)
    found = [{"where": ".".join(map(str, entry["loc"])), "why": entry["msg"]} for entry in problem.errors()[:20]]
    where = found[0]["where"] if found else "the request"
    document = {
        "code": "invalid_request",
        "message": f"{where}: {found[0]['why'] if found else 'not valid'}.",
        "hint": "`details` lists what does not fit; /docs says what is expected.",
        "details": {"problems": found},
    }
    return json_answer({"error": document}, 422)


async def _http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    fallback = (f"http_{problem.status_code}", "the request was refused.", "Send it as /docs describes.")
    code, message, hint = _KNOWN.get(problem.status_code, fallback)
    details: dict[str, Any] = {}
    error = {"code": code, "message": message, "hint": hint, "details": details}
    return json_answer({"error": error}, problem.status_code, dict(problem.headers or {}))
