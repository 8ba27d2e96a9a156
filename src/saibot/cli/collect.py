"""`saibot collect`: the reports of individuals become one sketch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, print_json, say
from saibot.report.format import number, plural


def add_to(app: typer.Typer) -> None:
    app.command("collect")(collect)


def collect(
    reports: Annotated[list[Path], typer.Argument(help="Reports of individuals, or folders of them.")],
    out: Annotated[Path, typer.Option(help="Where to write the sketch.")],
    json: JsonOption = False,
) -> None:
    """Add up REPORTS, which individuals made with `saibot contribute`, to one sketch. Sees no row and charges nothing."""
    from saibot.safe_file import write_safely
    from saibot.sketch import SUFFIX, collect, write_sketch

    files = [file for path in reports for file in (sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path])]
    sketch = collect(files)
    content = write_sketch(sketch)
    write_safely(out, content)
    header = sketch.header
    assert header.rows is not None
    if json:
        print_json({"sketch": str(out), "digest": sketch.digest, "reports": header.rows, "bytes": len(content)})
        return
    say(f"wrote {out}: {plural(header.rows, 'report')} of {header.dataset.name!r}, digest {sketch.digest[:12]}")
    say(f"Its noise is {number(header.rows**0.5)} times that of one report.")
    say(f"next: `saibot inspect {out}` shows what it says; `saibot publish {out}` or `saibot pack` makes it searchable.")
