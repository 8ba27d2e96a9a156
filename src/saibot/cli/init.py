"""`saibot init`: a dataset card to fill in, from column names, and types where a file declares them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, print_json, say
from saibot.report.format import printable


def add_to(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    table: Annotated[Path, typer.Argument(help="CSV, Parquet or Arrow file.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the card. Default: beside the table, .toml.")] = None,
    header_is_names: Annotated[
        bool,
        typer.Option(
            "--header-is-names",
            help="The first line of a text file holds names, odd as they look; columns without their own are left out.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write a dataset card for TABLE: a place for every public fact in one file. No value of the table is read into it."""
    from saibot.errors import InvalidInput
    from saibot.privatize.heading import read_names
    from saibot.privatize.template import card_template
    from saibot.privatize.text_file import is_text_file

    path = out or table.with_name(table.name.split(".")[0] + ".toml")
    if path.exists():
        raise InvalidInput(f"{path} is there already.", hint="Choose another file with --out.")
    text = card_template(table, header_is_names=header_is_names)
    names = read_names(table, sure=header_is_names) if is_text_file(table) else None
    if names is not None:
        _tell(table, names, ask=not header_is_names and not json, to_stderr=json)
    path.write_text(text, encoding="utf-8")
    if json:
        print_json({"card": str(path)} | ({"names_from_first_line": names} if names is not None else {}))
        return
    say(f"wrote {path}")
    say("next: fill in bounds and a key, and leave out what nobody is to see, such as patients' numbers;")
    say(f"then `saibot privatize {table} --card {path} --key KEY --epsilon 1`")


def _tell(table: Path, names: list[str], *, ask: bool, to_stderr: bool) -> None:
    """Words of a row look like names. Only the provider can tell, so they are shown, and on a terminal confirmed."""
    from saibot.errors import InvalidInput

    say(f"names of columns, from the first line of {table}: {', '.join(map(printable, names))}", err=to_stderr)
    say("Names that the card uses become public. If these are somebody's cells, the first line is missing.", err=to_stderr)
    if ask and sys.stdin.isatty() and sys.stdout.isatty() and not typer.confirm("Are these the names of the columns?"):
        raise InvalidInput("no card was written.", hint="Write a first line with the names of the columns into the table.")
