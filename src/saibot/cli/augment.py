"""`saibot augment`: the values that a search has chosen, joined to the requester's own rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.connection import open_connection
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.format import plural

if TYPE_CHECKING:
    from saibot.client import Augmented, Corpus, Kept


KeyNames = Annotated[
    list[str] | None, typer.Option("--key", help="KEY=COLUMN where this table calls a key column otherwise. Repeatable.")
]
CorpusOption = Annotated[Path | None, typer.Option("--corpus", help="The corpus that was searched, if it was a folder.")]
PlatformOption = Annotated[
    str | None,
    typer.Option(
        "--platform", metavar="ADDRESS", help="Where to fetch the values. Default: the platform that was searched."
    ),
]
FetchOption = Annotated[
    bool,
    typer.Option(
        "--fetch",
        help="After a search at home: fetch what is missing here. It tells the platform which datasets were chosen.",
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command("augment")(augment)


def augment(
    result: Annotated[Path, typer.Argument(help="result.json of a search.")],
    table: Annotated[Path, typer.Argument(help="CSV, Parquet or Arrow file with the request's key columns.")],
    out: Annotated[Path, typer.Option(help="Where to write the rows with their new columns: .csv, .parquet or .arrow.")],
    key: KeyNames = None,
    corpus: CorpusOption = None,
    platform: PlatformOption = None,
    fetch: FetchOption = False,
    json: JsonOption = False,
) -> None:
    """Join what RESULT chose to the rows of TABLE: every row stays, in order. Costs no budget and sends nothing of the rows.

    The values come from the corpus folder, or from what was fetched of the platform and kept on this machine. After a search
    at home nobody is asked for anything, unless you say --fetch: the platform does not know what your rows chose. After a
    private request, which the platform answered itself, what is missing is fetched from it.
    """
    import warnings

    from saibot.client import Augmented
    from saibot.client.augmented import CoverageWarning
    from saibot.domains.aligning import percent
    from saibot.errors import InvalidInput

    names = key_names(key)
    if corpus is not None and platform is not None:
        raise InvalidInput("the values come from --corpus or from --platform, not from both.")
    if corpus is not None and fetch:
        raise InvalidInput("the values come from --corpus: there is nothing to fetch.")
    if _same(out, table):
        raise InvalidInput(f"{out} is the table itself.", hint="Choose another file with --out: your table stays as it is.")
    found = Augmented.load(result)
    if not found.columns:
        raise InvalidInput("the search chose nothing to join.", hint="`saibot search` says why; nothing was written.")
    found = Augmented(found.result, value_source(found, corpus, platform, fetch=fetch))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # told below, whatever it is
        found.augment(table, out=out, columns=names)
    covered = found.coverage(table, columns=names)
    if json:
        told = [column.to_json() | {"coverage": covered[column.name]} for column in found.result.columns]
        print_json({"table": str(out), "columns": told})
        return
    say(f"wrote {out} with {plural(len(found.columns), 'new column')}:")
    for new in found.result.columns:
        unit = f", in {new.unit}" if new.unit else ""
        say(f"  {new.name}{unit}: lists the keys of {percent(covered[new.name])} of the rows")
    say("What is new is private already: train any model on it, as often as you like.")


def key_names(texts: list[str] | None) -> dict[str, str]:
    """The key columns of a table that calls them otherwise."""
    from saibot.errors import InvalidInput

    names = {}
    for text in texts or []:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise InvalidInput(f"--key is KEY=COLUMN, not {text!r}.")
        names[name] = column
    return names


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def value_source(found: Augmented, corpus: Path | None, platform: str | None, *, fetch: bool) -> Corpus | Kept:
    """Where the values are: in a folder, or on this machine, fetched first where that is allowed."""
    from saibot.client import Corpus, Kept, Published
    from saibot.errors import InvalidInput

    if corpus is not None:
        return Corpus(corpus)
    address = platform or found.result.platform
    if address is None:
        raise InvalidInput("the values of this result are in the corpus that was searched.", hint="Name it with --corpus.")
    if fetch or not found.at_home:
        with open_connection(address, typed=platform is not None) as opened:
            if found.at_home:
                say(f"--fetch: {opened.url} is asked for what is missing, and learns what was chosen.", err=True)
            Published(opened).fetch(found.result.columns)
    return Kept()
