"""How commands speak beside what they show: JSON on standard output, progress and questions on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.report.format import one_line

if TYPE_CHECKING:
    from saibot.privatize.doubts import Doubt
    from saibot.privatize.release_request import Progress

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


# Of the characters that command a terminal, or turn text around, those that JSON leaves as they are within texts.
_COMMANDING = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def say(*lines: object, err: bool = False) -> None:
    """Lines for people. There are names of strangers in them: none of them commands the terminal, or begins a line."""
    for line in lines:
        typer.echo(one_line(line), err=err)


def print_json(document: Any) -> None:
    """One document on standard output; numbers that are not finite are a bug, not output."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(_COMMANDING.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text) + "\n")


@contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """A line on standard error that says what is being done and how far it is, where somebody is looking."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    if quiet or not sys.stderr.isatty():
        yield lambda stage, part: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(stage: str, part: float | None) -> None:
            bar.update(task, description=one_line(stage), total=None if part is None else 1.0, completed=part or 0.0)

        yield tell


def ask_provider(doubt: Doubt) -> bool:
    """Whether to go on. Where nobody is there to be asked, only a release that would be all noise is stopped."""
    from saibot.privatize.doubts import go_on

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return go_on(doubt)
    say(f"note: {doubt.text}", err=True)
    return typer.confirm("Go on?", err=True)
