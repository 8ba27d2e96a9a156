"""`saibot compare`: two saved results side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.show import JsonOption, print_json, say

if TYPE_CHECKING:
    from saibot.client.compared import ComparedResults


def add_to(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    first: Annotated[Path, typer.Argument(help="What `saibot search --out` wrote.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    out: Annotated[
        Path | None, typer.Option(help="Write it: .html, which opens offline; .png, .svg or .pdf; .csv for spreadsheets.")
    ] = None,
    shown: Annotated[int, typer.Option(help="Candidates to show.", min=1)] = 15,
    json: JsonOption = False,
) -> None:
    """Two results side by side: what was asked, R² step by step, and which gains differ by more than their noise.

    Before and after something was published, with and without a feature, privately and at home. Needs neither corpus nor
    platform.
    """
    from saibot.client.compared import ComparedResults
    from saibot.client.saved import read_result
    from saibot.report.compare_terminal import comparison_document, show_comparison

    names = (first.stem, second.stem) if first.stem != second.stem else (str(first), str(second))
    found = ComparedResults(read_result(first), read_result(second), names)
    if out is not None:
        _write(found, out)
    if json:
        print_json(comparison_document(found.comparison))
    elif out is not None:
        say(f"wrote {out}")
    else:
        show_comparison(found.comparison, shown=shown)


def _write(found: ComparedResults, out: Path) -> None:
    from saibot.report import picture
    from saibot.safe_file import write_safely

    if out.suffix.lower() == ".csv":
        write_safely(out, found.comparison.csv().encode("utf-8-sig"))
    elif out.suffix.lower() in picture.SUFFIXES:
        found.plot(out)
    else:
        found.report(out)
