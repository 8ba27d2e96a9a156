"""`saibot preview`: what a release would be worth, from public facts alone. Reads no data and spends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli import options
from saibot.cli.show import JsonOption, print_json, say
from saibot.cli.terms import ReleaseTerms, TermsCommand, with_terms
from saibot.report.format import percent
from saibot.report.terminal import print_table
from saibot.report.words import preview_rows

if TYPE_CHECKING:
    from saibot.estimate.preview import Preview


def add_to(app: typer.Typer) -> None:
    app.command("preview", cls=TermsCommand)(preview)


@with_terms
def preview(
    rows: Annotated[int, typer.Option(help="Rows of the table, roughly.", min=1)],
    keys: Annotated[
        str | None, typer.Option(help="Keys of the domain, then of each coarser level: 1500,32,5. Without: a union sketch.")
    ] = None,
    features: Annotated[int, typer.Option(help="Number of features.", min=1)] = 1,
    *,
    terms: ReleaseTerms,
    rows_per_individual: Annotated[int, typer.Option(help="Rows that one individual may own.", min=1)] = 1,
    json: JsonOption = False,
) -> None:
    """Say what to expect of a release at this budget: errors per key, how much signal is left, and what would help."""
    from saibot.estimate.preview import preview

    sizes = options.key_sizes(keys)
    request = terms.plan_request(
        features=features,
        keyed=bool(sizes),
        levels=max(len(sizes), 1),
        keys=sizes,
        rows=rows,
        rows_per_individual=rows_per_individual,
    )
    found = preview(request, rows=rows, keys=sizes)
    if json:
        print_json(found.to_json())
    else:
        _show(found, f"{request.mechanism} {request.layout}, {request.budget}, {request.neighbours}")


def _show(found: Preview, title: str) -> None:
    facts = preview_rows(found.to_json())
    for name, kept in (found.reliability or {}).items():
        facts.append([f"signal left in looked-up values, {name} differences between keys", percent(kept)])
    print_table(f"{found.rows:,} rows, {title}", ["to expect", ""], facts, right=(1,))
    say("Errors are shares of half the width of a feature's bounds.")
    for word in found.advice:
        say(word)
