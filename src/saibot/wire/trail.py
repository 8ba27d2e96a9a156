"""An entry of a platform's audit trail: something that happened once, or how often something happened in an hour."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from saibot.wire.shapes import Shape


class TrailEntry(Shape):
    """Who did what to what."""

    number: int
    at: str = Field(description="When it happened; of a sum, for the first time in its hour.")
    account: str = Field(description="`-`: nobody who is known here; `*`: one of too many to be told apart.")
    action: str
    subject: str = Field(description="Its id; of a sum, the kind of thing.")
    facts: dict[str, Any]
    hour: str | None = Field(None, description="Of a sum: the hour that it counts, in UTC, such as 2026-01-31T09.")
    times: int = Field(1, description="How often it happened in that hour.")

    @property
    def told(self) -> str:
        """A sum in words; empty of what happened once."""
        if self.hour is None:
            return ""
        return f"{self.times:,} {'time' if self.times == 1 else 'times'} from {self.hour[11:]}:00 to {self.hour[11:]}:59"
