"""`saibot split`: training and test part of a table, by the operating system's randomness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command("split")(split)


def split(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file.")],
    test: Annotated[str, typer.Option(help="Fraction of individuals in the test part.")] = "0.25",
    id: Annotated[str | None, typer.Option(help="Column that tells individuals apart; their rows stay together.")] = None,
    by_key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Key column: all rows of a key in one part, to judge a model on keys it has not seen."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for both parts. Default: beside the table.")] = None,
    json: JsonOption = False,
) -> None:
    """Divide TABLE into NAME.train and NAME.test at random: individual by individual, or with --by-key key by key.

    Parts divided by individual are noted in the ledger: each may be released with the full budget. Parts divided by key are
    for a search at home; releasing both costs as much as releasing the whole table twice.
    """
    from saibot.cli.home import open_ledger
    from saibot.privacy.budget import exact_decimal
    from saibot.privatize.split import split_table

    share = exact_decimal(test, name="--test")
    files = split_table(table, open_ledger(), test=share, id_column=id, key=by_key, out=out)
    for note in files.notes:
        say(f"note: {note}", err=True)
    if json:
        print_json({"train": str(files.train), "test": str(files.test), "split": files.id})
    else:
        say(f"wrote {files.train}", f"wrote {files.test}")
        if by_key is not None:
            say(
                f"No {by_key} is in both parts: search at home with --train {files.train.name} --test {files.test.name} "
                "to see what columns are worth where you have no rows. "
                "The ledger knows of no split: budgets of both parts add up."
            )
            return
        say(_divided(id))
        say(
            f"The ledger knows them as the split {files.id}, by where they are; "
            f"once moved, they are released with --split {files.id}."
        )


def _divided(id: str | None) -> str:
    """What may be relied on: without --id nobody has said which rows belong together."""
    if id is None:
        return (
            "Rows were divided one by one. That is right only if every individual has one row: otherwise give --id COLUMN, "
            "the column that tells individuals apart, or somebody may be in both parts, whose budgets then add up."
        )
    return f"Every individual (by {id}) is in one part only: each part may be released with the full budget."
