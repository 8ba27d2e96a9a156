"""What can go wrong between a client and a platform, under `SaibotError`.

PlatformError            the platform refused; carries its status, code and details
├── NotAllowed           the token is missing, unknown, revoked or of another role
├── NotFound             nothing there, or nothing that this token may see
├── PlatformBusy         too many requests; `retry_after` says when to come back
├── PlatformUnreachable  nobody answers at this address, or the answer is not a platform's
└── SearchFailed         the search ended without a result: failed or cancelled
"""

from __future__ import annotations

from typing import Any

from saibot.errors import SaibotError
from saibot.report.format import plain_text


class PlatformError(SaibotError):
    """A refusal in the platform's own words, without control characters: the platform is not trusted with the terminal."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        code: str = "",
        details: Any = None,
    ) -> None:
        super().__init__(plain_text(message), hint=plain_text(hint) if hint else None)
        self.status, self.code, self.details = status, code, details


class NotAllowed(PlatformError):
    """The platform does not let this token do that."""


class NotFound(PlatformError):
    """Nothing there under that name, or not for this token."""


class PlatformBusy(PlatformError):
    """Too many requests at once, even after waiting."""

    retry_after: float | None = None


class PlatformUnreachable(PlatformError):
    """No platform answers at the address."""


class SearchFailed(PlatformError):
    """A search that was cancelled, or that ended with an error."""
