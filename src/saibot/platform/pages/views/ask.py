"""Asking: a request's sketches come in, never rows. A table is refused with the command that makes a sketch of it."""

from __future__ import annotations

import shlex
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path, PurePath
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from saibot.errors import SaibotError
from saibot.platform.api.forms import file_of
from saibot.platform.api.uploads import large_turn
from saibot.platform.errors import NotFound, TooManyRequests, Unusable, status_of
from saibot.platform.pages.visit import Visit, in_thread
from saibot.platform.validation import MAGIC
from saibot.search.rankings import RANKINGS
from saibot.wire import InvalidOption, Question

NUMBERS = {"steps": "Most steps", "confidence": "Confidence", "shown": "Candidates shown"}
CHECKS = {
    "joins": "New columns",
    "unions": "New rows",
    "shared": "Columns of what tables have in common",
    "hops": "Columns one hop further",
    "whole_datasets": "Whole datasets",
    "verified": "Verified providers only",
    "strategy": "Every combination",
}
CHECKED = {"strategy": "exhaustive"}  # what a check means, where that is not just yes
UNCHECKED = {"strategy": "greedy"}


class NotASketch(Unusable):
    """A table, most likely. Carries the command to run instead."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the file {name} is not a sketch. It was not kept.",
            hint="Rows never come to the platform. Make a sketch of them on your own machine, and send that:",
            code="invalid_sketch",
        )
        self.command = f"saibot privatize {shlex.quote(name)} --card CARD.toml --key KEY --epsilon 1"


def show(visit: Visit) -> Response:
    fields = Question.model_fields
    asked_of = visit.request.query_params.get("dataset", "")[:40]
    chosen = {"target": "", "providers": visit.request.query_params.get("provider", "")[:200], "dataset": asked_of}
    return _form(visit, chosen | {name: fields[name].default for name in (*NUMBERS, "rank", *CHECKS)})


async def send(visit: Visit) -> Response:
    visit.need("requester")
    with ExitStack() as held:
        async with visit.sketches() as fields:
            asked: dict[str, Any] = {
                name: str(fields.get(name, "")).strip() for name in ("target", "providers", "dataset", *NUMBERS, "rank")
            }
            for name in CHECKS:
                asked[name] = CHECKED.get(name, True) if name in fields else UNCHECKED.get(name, False)
            try:
                train = await _sketch(visit, fields, "train", held)
                test = await _sketch(visit, fields, "test", held)
            except SaibotError as problem:
                return _form(visit, asked, problem=problem, status=status_of(problem))
        return await _submit(visit, asked, train, test)


async def _submit(visit: Visit, asked: dict[str, Any], train: bytes | Path | None, test: bytes | Path | None) -> Response:
    try:
        if train is None:
            raise Unusable("choose the training sketch.", hint="`saibot privatize` makes it.")
        async with AsyncExitStack() as turn:
            if isinstance(train, Path) or isinstance(test, Path):
                await turn.enter_async_context(large_turn(visit.request, visit.caller))
            search = await in_thread(visit.platform.submit, visit.caller, train, test, _question(asked))
    except TooManyRequests:
        raise
    except SaibotError as problem:
        return _form(visit, asked, problem=problem, status=status_of(problem))
    return visit.go(f"/searches/{search.id}")


def _form(visit: Visit, asked: dict[str, Any], *, problem: SaibotError | None = None, status: int = 200) -> Response:
    return visit.page(
        "ask.html",
        here="ask",
        status=status,
        asked=asked,
        facts=Question.model_json_schema()["properties"],
        numbers=NUMBERS,
        checks=CHECKS,
        checked=CHECKED,
        rankings=RANKINGS.values(),
        problem=problem,
        dataset=_dataset(visit, asked["dataset"]),
        command=problem.command if isinstance(problem, NotASketch) else "",
        may_ask=visit.caller.has("requester"),
    )


def _dataset(visit: Visit, id: str) -> dict[str, Any] | None:
    """The dataset from whose page somebody came, if there is one that they may know of."""
    try:
        return visit.platform.catalog.show(visit.caller, id) if id else None
    except NotFound:
        return None


async def _sketch(visit: Visit, fields: FormData, name: str, held: ExitStack) -> bytes | Path | None:
    content = await file_of(fields, name, visit.platform, held)
    if isinstance(content, bytes) and not content.startswith(MAGIC):
        part = fields[name]
        named = part.filename if isinstance(part, UploadFile) else None
        raise NotASketch(PurePath(named or "TABLE").name[:100])
    return content


def _question(asked: dict[str, Any]) -> Question:
    """The form's fields, or what is wrong with them in the form's own words."""
    try:
        given = {name: value for name, value in asked.items() if value != "" and name != "dataset"}
        named = tuple(name.strip() for name in asked["providers"].split(",") if name.strip())
        return Question(**given | {"providers": named})
    except InvalidOption as problem:
        words = {**NUMBERS, **CHECKS, "target": "Target", "rank": "Rank by", "providers": "Providers"}
        said = f"{words.get(problem.field, problem.field)}: {problem.reason}" if problem.field else problem.reason
        raise Unusable(f"{said}.", hint="Change it and send again.") from None
