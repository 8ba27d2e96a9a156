"""`saibot reproduce`: the paper's figures and ours, run again, drawn, and checked against what they should show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.checkout import find_research
from saibot.cli.show import JsonOption, print_json, progress, say


def add_to(app: typer.Typer) -> None:
    app.command("reproduce")(reproduce)


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="all; fig7, fig8, fig9; fig10a to h, fig11a to d, fig12a, b (or a family: fig10); quality, calibration, "
            "allocation, coverage.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for numbers and figures.")] = Path("figures"),
    tables: Annotated[
        Path | None, typer.Option(help="Folder of real tables. Default: $SAIBOT_TABLES, or a small corpus of our own.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data and simulated noise.", min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, few runs: to see that it works.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again even where the numbers are there.")] = False,
    json: JsonOption = False,
) -> None:
    """Run figures again: numbers (CSV), plots (PNG, SVG) and whether each has the expected shape. `all` builds a page.

    Runs from a checkout of the repository: research code is not in the installed package.
    """
    find_research("saibot reproduce")
    from research.reproducing import registry
    from research.reproducing.figure import RunConfig
    from research.reproducing.report import write_page
    from research.reproducing.reproduce import reproduce as make_all
    from saibot.errors import InvalidInput

    chosen = registry.chosen(names)
    if tables is None and os.environ.get("SAIBOT_TABLES"):
        tables = Path(os.environ["SAIBOT_TABLES"])
    if tables is not None and not tables.is_dir():
        raise InvalidInput(f"there is no folder {str(tables)!r} of tables.")
    with progress(quiet=json) as tell:
        config = RunConfig(seed=seed, quick=quick, tables=tables, progress=tell)
        made = make_all(chosen, config, out=out, fresh=fresh)
    page = write_page(made, out) if "all" in names else None
    if json:
        print_json({"figures": [done.to_json() for done in made], "page": str(page) if page else None})
        return
    for done in made:
        kept = " (numbers kept from an earlier run)" if done.reused else ""
        say(f"{done.verdict:6}  {done.name:11}  {done.title}{kept}")
        for check in done.checks:
            if not check.passed:
                say(f"{'':8}≠ {check.name}: {check.reason}")
    say(f"numbers and drawings in {out}" + (f", all on one page: {page}" if page else ""))
