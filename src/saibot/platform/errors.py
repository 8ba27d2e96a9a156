"""Refusals of the platform: what every face of it (HTTP, pages) turns into the one error shape.

Refusal (a SaibotError)
├── NotSignedIn       401  no token, or one that is unknown, revoked or expired
├── NotAllowed        403  the token's roles do not cover this
├── NotFound          404  not there, or not for this caller: the two look the same
├── Conflict          409  what is there contradicts what is asked
├── TooLarge          413
├── WrongMediaType    415
├── Unusable          422  understood, but cannot be used as given
├── OverQuota         422  a quota of the platform is used up
├── TooManyRequests   429  with the seconds to wait
│   └── TooManyAtOnce      something that is held open, so that it is not known how long
└── Unavailable       503  the platform is starting or stopping, or its storage is away
    └── Busy               long work is under way that only one does at a time; with the seconds to wait
"""

from __future__ import annotations

from typing import Any

from saibot.errors import SaibotError


class Refusal(SaibotError):
    """Something the platform does not do. `code` is for programs and never changes; message and hint are for people."""

    status = 400
    code = "refused"

    def __init__(self, message: str, *, hint: str, code: str | None = None, details: dict[str, Any] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code or type(self).code
        self.details = details or {}


class NotSignedIn(Refusal):
    status, code = 401, "not_signed_in"


class NotAllowed(Refusal):
    status, code = 403, "not_allowed"


class NotFound(Refusal):
    status, code = 404, "not_found"


class Conflict(Refusal):
    status, code = 409, "conflict"


class TooLarge(Refusal):
    status, code = 413, "too_large"


class WrongMediaType(Refusal):
    status, code = 415, "wrong_media_type"


class Unusable(Refusal):
    status, code = 422, "unusable"


class OverQuota(Refusal):
    status, code = 422, "over_quota"


class TooManyRequests(Refusal):
    status, code = 429, "too_many_requests"

    def __init__(self, seconds: float) -> None:
        wait = max(1, round(seconds + 0.5))
        super().__init__(
            "this caller asks more often than the platform allows.", hint=f"Wait {wait} s and try again; see Retry-After."
        )
        self.retry_after = wait


class TooManyAtOnce(TooManyRequests):
    code = "too_many_at_once"

    def __init__(self, message: str) -> None:
        Refusal.__init__(self, message, hint="Let one of them end, and try again.")
        self.retry_after = 5


class Unavailable(Refusal):
    status, code = 503, "unavailable"


class Busy(Unavailable):
    """Nobody waits for that in one of the few threads that answer requests."""

    retry_after = 10

    def __init__(self, message: str = "the platform is at work on something large.", *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or f"Try again in {self.retry_after} s; see Retry-After.")


def error_document(problem: SaibotError) -> dict[str, Any]:
    """The one error shape."""
    code = problem.code if isinstance(problem, Refusal) else _code_of(problem)
    details = problem.details if isinstance(problem, Refusal) else {}
    hint = problem.hint or _HINTS.get(code, "The documentation at /docs says what is expected.")
    return {"error": {"code": code, "message": problem.message, "hint": hint, "details": details}}


def status_of(problem: SaibotError) -> int:
    if isinstance(problem, Refusal):
        return problem.status
    return {"unknown_domain": 404, "domain_conflict": 409}.get(_code_of(problem), 422)


def _code_of(problem: SaibotError) -> str:
    """`InvalidSketch` -> `invalid_sketch`."""
    name = type(problem).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


_HINTS = {
    "invalid_sketch": "Send the .saibot file as `saibot privatize` wrote it, unchanged; `saibot inspect FILE` checks it.",
    "invalid_domain": "Send CSV: a header line, then one line a key; first column the key, further columns its parents.",
    "domain_conflict": "An id and version mean one list of keys for good: register the changed list as the next version.",
    "invalid_input": "Change the value that the message names, and send the request again.",
}
