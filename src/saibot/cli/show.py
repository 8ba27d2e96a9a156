"""How commands speak: tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from saibot.privatize.doubts import Doubt
    from saibot.privatize.release_request import Progress

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def print_json(document: Any) -> None:
    """One document on standard output; numbers that are not finite are a bug, not output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> None:
    """Names are somebody's own: `[/]` in one of them is no markup, and what would command the terminal is left out.

    Columns named in `whole` are never broken over lines: what is typed again or seen as a picture stays in one piece.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.show_header = any(columns)  # facts with their names before them need no heading
    for number, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if number in right else "left"
        width = max((len(row[number]) for row in rows), default=0) if number in whole else None
        table.add_column(Text(printable(name)), justify=justify, overflow="fold", no_wrap=number in whole, min_width=width)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console()
    console.print(Text(printable(title), style="bold"))  # as wide as the screen, not as its table
    console.print(table)


def printable(text: str) -> str:
    """Without control and formatting characters, but for line ends."""
    if text.isprintable():
        return text
    from unicodedata import category

    return "".join(letter for letter in text if letter == "\n" or letter.isprintable() or category(letter) == "Zs")


def screen_width() -> int:
    """Letters that fit on a line here; 80 where nobody is looking."""
    from rich.console import Console

    return Console().width


def number(value: float | None, digits: int = 4) -> str:
    """A number for people: significant digits, no needless exponent."""
    if value is None:
        return "–"
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    text = f"{value:,.{max(digits - 1 - _magnitude(value), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 join`, `2 joins`, `3 sketches`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _magnitude(value: float) -> int:
    from math import floor, log10

    return floor(log10(abs(value))) if value else 0


@contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """A line on standard error that says what is being done and how far it is, where somebody is looking."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    if quiet or not sys.stderr.isatty():
        yield lambda stage, part: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(stage: str, part: float | None) -> None:
            bar.update(task, description=stage, total=None if part is None else 1.0, completed=part or 0.0)

        yield tell


def ask_provider(doubt: Doubt) -> bool:
    """Whether to go on. Where nobody is there to be asked, only a release that would be all noise is stopped."""
    from saibot.privatize.doubts import go_on

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return go_on(doubt)
    typer.echo(f"note: {doubt.text}", err=True)
    return typer.confirm("Go on?", err=True)
