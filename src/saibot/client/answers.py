"""Reading a platform's answers into the shapes of `saibot.wire`. Fields that a later platform adds are ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from saibot.client.errors import PlatformUnreachable
from saibot.wire import Shape

Progress = Callable[[str, float | None], None]


Kind = TypeVar("Kind", bound=Shape)


def read_answer(kind: type[Kind], document: Any) -> Kind:
    """The typed value of an answer. One that does not fit its shape raises `PlatformUnreachable`."""
    try:
        return kind.model_validate(document, extra="ignore")
    except ValidationError as problem:
        place = ".".join(str(step) for step in problem.errors(include_input=False, include_url=False)[0]["loc"])
        raise PlatformUnreachable(
            f"the platform's answer is not the {kind.__name__.lower()} that was asked for (at {place!r}).",
            hint="It may run another version of Saibot.",
        ) from None
