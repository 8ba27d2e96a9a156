"""`saibot report`: a saved result to look at; and `--report`, which searches write the same file with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.show import JsonOption, print_json
from saibot.report.terminal import show_result

if TYPE_CHECKING:
    from saibot.client import Augmented

ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Write the result as one .html file that opens offline.")
]


def add_to(app: typer.Typer) -> None:
    app.command("report")(report)


def report(
    result: Annotated[Path, typer.Argument(help="What `saibot search --out` wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="Write it: .html, which opens offline; .png, .svg or .pdf; .csv for spreadsheets.")
    ] = None,
    shown: Annotated[int, typer.Option(help="Ranked candidates to show.", min=1)] = 10,
    json: JsonOption = False,
) -> None:
    """Show RESULT again, or write it as a report, a picture or a table. Needs neither corpus nor platform."""
    from saibot.client import Augmented

    found = Augmented.load(result)
    if out is not None:
        _write(found, out)
    if json:
        print_json(found.result.to_json())
    elif out is not None:
        typer.echo(f"wrote {out}")
    else:
        show_result(found.result, sketches=None, shown=shown)


def check_outputs(*, report: Path | None = None, picture: Path | None = None) -> None:
    """Refuse what cannot be written before anything takes time."""
    if report is not None:
        from saibot.report.html import check_can_write

        check_can_write(report)
    if picture is not None:
        from saibot.report.picture import check_can_save

        check_can_save(picture)


def _write(found: Augmented, out: Path) -> None:
    from saibot.report import picture
    from saibot.report.result import result_csv, view_result
    from saibot.safe_file import write_safely

    if out.suffix.lower() == ".csv":
        write_safely(out, result_csv(view_result(found.result)).encode("utf-8-sig"))
    elif out.suffix.lower() in picture.SUFFIXES:
        found.plot(out)
    else:
        found.report(out)
