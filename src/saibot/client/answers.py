"""Answers of a platform, read: `saibot.wire` has their shapes. Fields that a later platform adds are passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from saibot.client.errors import PlatformUnreachable

Progress = Callable[[str, float | None], None]


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Account(Answer):
    """Whom a token speaks for."""

    name: str
    roles: tuple[str, ...]


class Token(Answer):
    """A token as the platform lists it. Its text is shown once, when it is made: see `NewToken`."""

    id: str
    name: str
    roles: tuple[str, ...]
    created: str | None = None
    expires: str | None = None
    revoked: str | None = None
    last_used: str | None = None


class NewToken(Token):
    token: str

    def __repr__(self) -> str:
        return f"NewToken(id={self.id!r}, name={self.name!r}, roles={self.roles!r})"  # the text stays out of logs


class Relative(Answer):
    """A dataset that joins or unions with another one; `share` is of that one's keys, for a join."""

    id: str
    provider: str
    name: str
    rows: int | None = None
    digest: str
    key: str | None = None
    on: tuple[str, ...] = ()
    share: float | None = None
    signal: float | None = None
    why: str = ""


class RelatedDatasets(Answer):
    id: str
    joins: tuple[Relative, ...]
    unions: tuple[Relative, ...]


Kind = TypeVar("Kind", bound=BaseModel)


def read_answer(kind: type[Kind], document: Any) -> Kind:
    """The typed value of an answer; one that does not fit did not come from a platform that we know."""
    try:
        return kind.model_validate(document, extra="ignore")
    except ValidationError as problem:
        place = ".".join(str(step) for step in problem.errors(include_input=False, include_url=False)[0]["loc"])
        raise PlatformUnreachable(
            f"the platform's answer is not the {kind.__name__.lower()} that was asked for (at {place!r}).",
            hint="It may run another version of Saibot.",
        ) from None
