"""`saibot init`: a dataset card to fill in, from column names and types only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, print_json


def add_to(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    table: Annotated[Path, typer.Argument(help="CSV, Parquet or Arrow file.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the card. Default: beside the table, .toml.")] = None,
    json: JsonOption = False,
) -> None:
    """Write a dataset card for TABLE: every public fact in one file. No value of the table is read into it."""
    from saibot.errors import InvalidInput
    from saibot.privatize.template import card_template

    text = card_template(table)
    path = out or table.with_name(table.name.split(".")[0] + ".toml")
    if path.exists():
        raise InvalidInput(f"{path} is there already.", hint="Choose another file with --out.")
    path.write_text(text, encoding="utf-8")
    if json:
        print_json({"card": str(path)})
    else:
        typer.echo(f"wrote {path}")
        typer.echo("next: fill in bounds and a key, and remove features that nobody is to see, such as patients' numbers;")
        typer.echo(f"then `saibot privatize {table} --card {path} --key KEY --epsilon 1`")
