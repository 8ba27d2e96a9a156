"""Who may use a platform: accounts, their roles, and the tokens that act for them."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field

from saibot.wire.shapes import Shape

Role = Literal["admin", "provider", "requester"]


class Account(Shape):
    """Whom a token acts for."""

    name: str
    roles: tuple[Role, ...]


class Me(Account):
    """Whom a token acts for, and the budget beyond which this platform lists no sketch: known before it is paid."""

    max_epsilon: Decimal | None = Field(default=None, description="Largest epsilon of a sketch that is listed.")
    max_delta: Decimal | None = Field(default=None, description="Largest delta of a sketch that is listed.")


class Token(Account):
    """A token as it is listed. Its text is shown once, when it is made: see `NewToken`."""

    id: str
    created: str
    expires: str | None
    revoked: str | None
    last_used: str | None
    made_with: str | None = Field(default=None, description="The token that it was made with, and ends with.")


class NewToken(Token):
    """A token that was just made. Its text is left out wherever the object is printed."""

    token: str = Field(repr=False, description="The token's text: shown here and nowhere else.")
