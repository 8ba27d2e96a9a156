"""`saibot contribute`: somebody's own row becomes a report, and their own ledger is charged for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli import options
from saibot.cli.home import open_ledger
from saibot.cli.privatize import chosen_features
from saibot.cli.show import JsonOption, print_json, progress, say
from saibot.cli.terms import ReleaseTerms, TermsCommand, with_terms

if TYPE_CHECKING:
    from saibot.privatize import Card
    from saibot.privatize.local_model import Cell


def add_to(app: typer.Typer) -> None:
    app.command("contribute", cls=TermsCommand)(contribute)


@with_terms
def contribute(
    row: Annotated[Path | None, typer.Argument(help="Your row: CSV with the names above it, or a JSON object.")] = None,
    *,
    card: Annotated[Path, typer.Option(help="The collection's public card (TOML), the same for everybody.")],
    value: Annotated[
        list[str] | None, typer.Option(help="COLUMN=CELL of your row instead of a file; nothing after = if missing.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Key of the card to group by, as the collection asks for.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Feature of the card, as the collection asks for. Default: all. Repeatable.")
    ] = None,
    terms: ReleaseTerms,
    new_version: Annotated[bool, typer.Option(help="Make another report, charged anew.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the report. Default: a file with a name of its own.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Privatise your own row into a report for `saibot collect`, charging your own ledger first. The row stays here."""
    from saibot.errors import InvalidInput
    from saibot.privatize import ReleaseRequest, contribute
    from saibot.privatize.local_model import read_row
    from saibot.safe_file import write_safely
    from saibot.sketch import SUFFIX

    described, chosen = chosen_features(card, feature or [])
    if (row is None) == (not value):
        raise InvalidInput("whose row? Give a file with it, or its cells with --value COLUMN=CELL.")
    own = read_row(row) if row is not None else _given(value or [], described)
    request = ReleaseRequest(
        card=described,
        budget=terms.budget,
        neighbours=options.neighbours(terms.neighbours, described.dataset.neighbours),
        key=key,
        features=chosen,
        **terms.of_release,
        model="local",
        new_version=new_version,
    )
    with progress(quiet=json) as tell:
        released = contribute(own, request, open_ledger(), progress=tell)
    name = described.dataset.name + (f"-{key}" if key else "")
    # By its digest, so that reports of many people can lie in one folder; it tells nothing that the report does not.
    path = out or Path(f"{name}-report-{released.sketch.digest[:12]}{SUFFIX}")
    write_safely(path, released.content)
    for note in released.notes:
        say(f"note: {note}", err=True)
    if json:
        charged = {"epsilon": "0", "delta": "0"} if released.repeated else released.sketch.header.budget
        print_json(
            {"report": str(path), "digest": released.sketch.digest, "repeated": released.repeated, "charged": charged}
        )
        return
    if released.repeated:
        say("you made this very report before: the same one, at no further cost.")
    else:
        say(f"charged your ledger for {described.dataset.name}: {terms.budget}")
    say(f"wrote {path}: noise that hides your row is in it. Send it to whoever collects, once.")


def _given(values: list[str], card: Card) -> dict[str, Cell]:
    """The cells of --value. Messages quote none of them: a swapped pair would have its cell where the name should be."""
    from saibot.errors import InvalidInput
    from saibot.privatize.local_model import card_columns

    columns = card_columns(card)
    found: dict[str, Cell] = {}
    for text in values:
        named = [column for column in columns if text.startswith(f"{column}=")]
        if not named:
            raise InvalidInput(
                "a --value does not begin with a column of the card and =.", hint=f"The columns are {', '.join(columns)}."
            )
        column = max(named, key=len)  # a name may have an = in it
        if column in found:
            raise InvalidInput(f"column {column!r} is given twice.", hint="Everybody contributes one row, their own.")
        found[column] = text[len(column) + 1 :]
    return found
