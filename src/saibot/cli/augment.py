"""`saibot augment`: the values that a search has chosen, joined to the requester's own rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, print_json


def add_to(app: typer.Typer) -> None:
    app.command("augment")(augment)


def augment(
    result: Annotated[Path, typer.Argument(help="result.json of a search.")],
    table: Annotated[Path, typer.Argument(help="CSV, Parquet or Arrow file with the request's key columns.")],
    corpus: Annotated[Path, typer.Option(help="The corpus that was searched.")],
    out: Annotated[Path, typer.Option(help="Where to write the rows with their new columns: .csv, .parquet or .arrow.")],
    key: Annotated[
        list[str] | None, typer.Option(help="KEY=COLUMN where this table calls a key column otherwise. Repeatable.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Join what RESULT chose to the rows of TABLE: every row stays, in order. Costs no budget and sends nothing."""
    from saibot.client import Augmented, Corpus
    from saibot.errors import InvalidInput

    names = {}
    for text in key or []:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise InvalidInput(f"--key is KEY=COLUMN, not {text!r}.")
        names[name] = column
    found = Augmented.load(result, Corpus(corpus))
    if not found.columns:
        raise InvalidInput("the search chose nothing to join.", hint="`saibot search` says why; nothing was written.")
    found.augment(table, out=out, columns=names)
    if json:
        print_json({"table": str(out), "columns": [dict(column) for column in found.document["columns"]]})
        return
    typer.echo(f"wrote {out} with {len(found.columns)} new column{'s' if len(found.columns) > 1 else ''}:")
    for column in found.document["columns"]:
        unit = f", in {column['unit']}" if column["unit"] else ""
        typer.echo(f"  {column['name']}{unit}")
    typer.echo("They are private already: train any model on them, as often as you like.")
