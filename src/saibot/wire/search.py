"""A search on a platform, and the one shape of errors."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from saibot.wire.shapes import Shape

OVER = ("done", "failed", "cancelled")


class ErrorFacts(Shape):
    code: str = Field(description="For programs; never changes.")
    message: str = Field(description="What was asked and what is allowed.")
    hint: str = Field(description="What to do next.")
    details: dict[str, Any] = Field(description="Facts of this error, where it has any.")


class Progress(Shape):
    stage: str
    part: float | None


class Search(Shape):
    """How a search stands. `error` says why it failed."""

    id: str
    requester: str
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: Progress
    created: str
    started: str | None
    finished: str | None
    target: str
    error: ErrorFacts | None

    @property
    def over(self) -> bool:
        return self.status in OVER
