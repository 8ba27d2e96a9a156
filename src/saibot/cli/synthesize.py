"""`saibot synthesize`: rows that a sketch could have come from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.options import checked_file
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.format import fixed, number, plural, with_error
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.client.synthesizing import Synthesized


def add_to(app: typer.Typer) -> None:
    app.command("synthesize")(synthesize)


def synthesize(
    sketch: Annotated[Path, typer.Argument(help="A .saibot file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write: .csv, .parquet or .arrow, with 'synthetic' in its name. [default: DATASET.synthetic.csv]"
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="How many rows. Default: as many as the sketch says.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Another number gives another draw.", min=0)] = 0,
    target: Annotated[str | None, typer.Option(help="The feature to explain where models are compared.")] = None,
    json: JsonOption = False,
) -> None:
    """Make a synthetic table from SKETCH, to try things out on. Costs no budget: the sketch is private already.

    Counts, means and covariances by key are one draw of what the sketch and its noise leave open, within the public bounds.
    Nobody's row is in it, and what the sketch does not hold is not in it either: beyond these moments its rows are made up.
    """
    from saibot.client.synthesizing import synthesize as make
    from saibot.sketch import read_sketch

    read = read_sketch(checked_file(sketch))
    made = make(read, rows=rows, seed=seed, target=target)
    path = out or Path(f"{read.header.dataset.name}.synthetic.csv")
    made.write(path)
    if json:
        print_json({"table": str(path)} | made.to_json())
        return
    say(
        f"wrote {path}: {plural(made.table.num_rows, 'synthetic row')}, drawn from the sketch. No budget was spent.",
    )
    _show(made)


def _show(made: Synthesized) -> None:
    cells = []
    for one in made.features:
        mean, spread = (with_error(told.value, told.error) for told in (one.mean, one.deviation))
        cells.append([one.name, mean, number(one.synthetic_mean), spread, number(one.synthetic_deviation)])
    columns = ["feature", "mean", "synthetic", "spread", "synthetic"]
    print_table("the sketch, with the error of its noise, and the synthetic rows", columns, cells, right=(1, 2, 3, 4))
    if made.model is None:
        return
    model = made.model
    slopes = [[name, number(a), number(b)] for name, (a, b) in model.slopes.items()]
    slopes.append(["R² on the sketch", fixed(model.r2), fixed(model.synthetic_r2)])
    title = f"least squares of {model.target}"
    print_table(title, ["", "from the sketch", "from synthetic rows"], slopes, right=(1, 2))
