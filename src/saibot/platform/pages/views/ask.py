"""Asking: a request's sketches come in, never rows. A table is refused with the command that makes a sketch of it."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from saibot.errors import SaibotError
from saibot.platform.accepting import MAGIC
from saibot.platform.api.schemas import SearchOptions
from saibot.platform.errors import TooLarge, TooManyRequests, Unusable, status_of
from saibot.platform.pages.visit import FORM_BYTES, Visit, in_thread

CHOICES = {"steps": "5", "confidence": "0.9", "shown": "50", "rank": "usable"}
CHECKS = ("joins", "unions", "hops", "whole_datasets", "exhaustive")
WORDS = {"steps": "Most steps", "confidence": "Confidence", "shown": "Candidates shown", "target": "Target"}


class NotASketch(Unusable):
    """A table, most likely. Carries the command to run instead."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not a sketch. It was not kept.",
            hint="Rows never come to the platform. Make a sketch of them on your own machine, and send that:",
            code="invalid_sketch",
        )
        self.command = f"saibot privatize {shlex.quote(name)} --card CARD.toml --key KEY --epsilon 1"


def show(visit: Visit) -> Response:
    return _form(visit, {"target": "", **CHOICES, **dict.fromkeys(CHECKS, False), "joins": True, "unions": True})


async def send(visit: Visit) -> Response:
    visit.need("requester")
    limit = visit.platform.settings.max_upload_bytes
    fields = await visit.form(most=2 * limit + FORM_BYTES)
    typed = {name: str(fields.get(name, "")).strip() for name in ("target", *CHOICES)}
    asked: dict[str, Any] = typed | {name: name in fields for name in CHECKS}
    try:
        train = await _sketch(fields, "train", limit)
        if train is None:
            raise Unusable("choose the training sketch.", hint="`saibot privatize` makes it.")
        test = await _sketch(fields, "test", limit)
        search = await in_thread(visit.platform.submit, visit.caller, train, test, _options(asked))
    except TooManyRequests:
        raise
    except SaibotError as problem:
        return _form(visit, asked, problem=problem, status=status_of(problem))
    return visit.go(f"/searches/{search['id']}")


def _form(visit: Visit, asked: dict[str, Any], *, problem: SaibotError | None = None, status: int = 200) -> Response:
    return visit.page(
        "ask.html",
        here="ask",
        status=status,
        asked=asked,
        problem=problem,
        command=problem.command if isinstance(problem, NotASketch) else "",
        may_ask=visit.caller.has("requester"),
    )


async def _sketch(fields: FormData, name: str, limit: int) -> bytes | None:
    part = fields.get(name)
    if not isinstance(part, UploadFile) or not (part.filename or part.size):
        return None
    content = await part.read(limit + 1)
    await part.close()
    if len(content) > limit:
        raise TooLarge(
            f"the sketch has more than {limit:,} bytes, the most allowed.", hint="Release fewer features or keys."
        )
    if not content.startswith(MAGIC):
        raise NotASketch(PurePath(part.filename or "TABLE").name[:100])
    return content


def _options(asked: dict[str, Any]) -> dict[str, Any]:
    """The form's fields as the API's options, or what is wrong with them in the form's own words."""
    try:
        return SearchOptions.model_validate({name: value for name, value in asked.items() if value != ""}).model_dump()
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        raise Unusable(f"{WORDS.get(field, field)}: {first['msg'].lower()}.", hint="Change it and send again.") from None
