"""`saibot publish` and `saibot withdraw`: a provider's sketches go to a platform, and are taken back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.open_table import publish_open
from saibot.cli.show import JsonOption, print_json, progress


def add_to(app: typer.Typer) -> None:
    app.command("publish")(publish)
    app.command("withdraw")(withdraw)


def publish(
    sketches: Annotated[list[Path], typer.Argument(help=".saibot files; with --open, one table that is public.")],
    card: Annotated[
        Path | None, typer.Option(help="The card they were privatised with: registers the key domains that it lists.")
    ] = None,
    visibility: Annotated[
        str | None,
        typer.Option(help="public, or restricted to signed-in requesters. Else as it is; new datasets are public."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Day on which the platform withdraws them, YYYY-MM-DD. Else as it is.")
    ] = None,
    is_open: Annotated[
        bool, typer.Option("--open", help="The table is no secret: publish it exactly, without noise and at no budget.")
    ] = False,
    source: Annotated[
        str | None, typer.Option(help="With --open: where everybody can get the table, a citation or an address.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="With --open: key of the card. Default: a sketch for each.")] = None,
    layout: Annotated[
        str, typer.Option(help="With --open: lookup, or semiring, which has products for every key.")
    ] = "lookup",
    out: Annotated[
        Path | None, typer.Option(help="With --open: write it here, a file or a folder for all keys, and send nothing.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --open: anybody may see the table. Do not ask.")] = False,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Send SKETCHES to a platform. Nothing else leaves: the rows, the card's columns and the ledger stay here.

    All are checked before the first is sent: where one is damaged or not private, nothing leaves. A dataset of the same name
    and key gets a new version. The same sketch again changes nothing.

    With --open, a public TABLE is summed up exactly and published with its source, by every key of its card. A card that
    plans for privacy is refused, and so are rows that the ledger has ever charged.
    """
    from saibot.client import Provider
    from saibot.errors import InvalidInput

    if is_open:
        if len(sketches) != 1:
            raise InvalidInput("--open takes one table at a time.", hint="Each table has a card and a source of its own.")
        publish_open(
            sketches[0],
            card,
            source=source,
            key=key,
            layout=layout,
            yes=yes,
            expires=expires,
            out=out,
            platform=platform,
            json=json,
        )
        return
    if source is not None:
        raise InvalidInput("--source goes with --open: a private table has none.")
    with open_connection(platform) as opened, progress(quiet=json) as tell:
        provider = Provider(opened)
        done = provider.publish_all(sketches, card=card, visibility=visibility, expires=expires, progress=tell)
    if json:
        print_json({"platform": opened.url, "datasets": [dataset.model_dump(mode="json") for dataset in done]})
        return
    for path, dataset in zip(sketches, done, strict=True):
        typer.echo(f"published {path} as {dataset.id} ({shown(dataset.name)}, version {dataset.version})")
    typer.echo(f"next: `saibot datasets {done[-1].id}` shows it as others see it; `saibot withdraw ID` takes it back.")


def withdraw(
    ids: Annotated[list[str], typer.Argument(help="Ids of datasets, as `saibot datasets --mine` shows them.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Take datasets back, all their versions. The platform deletes them; copies that others have made stay with them."""
    from saibot.client import Provider

    if not yes and not json and sys.stdin.isatty():
        typer.confirm(f"Withdraw {', '.join(ids)} for good?", abort=True, err=True)
    with open_connection(platform) as opened:
        provider = Provider(opened)
        for id in ids:
            provider.withdraw(id)
    if json:
        print_json({"platform": opened.url, "withdrawn": ids})
        return
    for id in ids:
        typer.echo(f"withdrew {id}")
    typer.echo("The budget that it cost stays spent: `saibot ledger` shows it.")
