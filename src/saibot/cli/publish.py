"""`saibot publish` and `saibot withdraw`: a provider's sketches go to a platform, and are taken back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.describe import ContactOption, LicenceOption, TagOption, check, describe_all, said_in_options
from saibot.cli.open_table import publish_open
from saibot.cli.show import JsonOption, print_json, progress, say

if TYPE_CHECKING:
    from saibot.wire import Dataset


def add_to(app: typer.Typer) -> None:
    app.command("publish")(publish)
    app.command("withdraw")(withdraw)


def publish(
    paths: Annotated[list[Path], typer.Argument(help="Sketches (.saibot files), or one table: CSV, Parquet or Arrow.")],
    card: Annotated[
        Path | None,
        typer.Option(
            help="Sketches: the card they were made with; registers the key domains that it lists. A table: its card, "
            "made there if there is none. Default: beside the table."
        ),
    ] = None,
    individual: Annotated[str | None, typer.Option(help='Whom a row is about: "one patient".')] = None,
    id: Annotated[
        str | None, typer.Option(help="Column that tells individuals apart, where they have several rows.")
    ] = None,
    rows_per_individual: Annotated[
        int | None, typer.Option(min=1, help="Rows that one individual may have; with --id the rest are left out.")
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(min=1, help="Most rows that there can be, where their number is protected.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column that others look values up by, or none; with a card, its key.")
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(
            "--domain", "--vocabulary", help="Public list of keys: an id such as us-county-fips, range:ward:1:99, a file."
        ),
    ] = None,
    level: Annotated[list[str] | None, typer.Option(help="Coarser level of the keys, fine to coarse. Repeatable.")] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(help="To release: age (bounds bought), age=0:100, age=buy:0:100, log:age, farm=yes|no. Repeatable."),
    ] = None,
    component: Annotated[
        bool, typer.Option("--component", help="Release the principal component of all features, bought, in their place.")
    ] = False,
    epsilon: Annotated[str | None, typer.Option(help="Privacy budget epsilon of a table's release.")] = None,
    delta: Annotated[str, typer.Option(help="Its delta.")] = "1e-6",
    neighbours: Annotated[
        str, typer.Option(help="replace-one, or add-remove, which also protects the number of rows.")
    ] = "replace-one",
    name: Annotated[str | None, typer.Option(help="What the dataset is called. Default: like the file.")] = None,
    title: Annotated[str, typer.Option(help="A line about it, for people.")] = "",
    look: Annotated[
        bool, typer.Option(help="Show what your rows say about the card, here only; another card then counts as tuned.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="Write a table's sketch here, and send nothing.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing before charging, and go on where all would be noise.")
    ] = False,
    header_is_names: Annotated[
        bool, typer.Option("--header-is-names", help="The first line of a text file holds names, odd as they look.")
    ] = False,
    visibility: Annotated[
        str | None,
        typer.Option(
            help="public, restricted to signed-in requesters, or granted: to accounts that you grant it to. Else as it is; "
            "new datasets are public."
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Day on which the platform withdraws them, YYYY-MM-DD. Else as it is.")
    ] = None,
    licence: LicenceOption = None,
    contact: ContactOption = None,
    tag: TagOption = None,
    is_open: Annotated[
        bool, typer.Option("--open", help="The table is no secret: publish it exactly, without noise and at no budget.")
    ] = False,
    source: Annotated[
        str | None, typer.Option(help="With --open: where everybody can get the table, a citation or an address.")
    ] = None,
    layout: Annotated[
        str, typer.Option(help="With --open: lookup, or semiring, which has products for every key.")
    ] = "lookup",
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Send sketches to a platform, or make one of a table first, step by step, and send that. Rows and ledger stay here.

    A table is released by guide: what was not said by options is asked; the card is made; you see what would be left of
    each column before anything is paid; you are asked once; the ledger is charged. Without a terminal nothing is asked.

    Sketches are all checked before the first is sent: where one is damaged or not private, nothing leaves. A dataset of the
    same name and key gets a new version. The same sketch again changes nothing.

    With --open, a public table is summed up exactly and published with its source, by every key of its card. A card that
    plans for privacy is refused, and so are rows that the ledger has ever charged.
    """
    from saibot.client.sketch_request import is_sketch
    from saibot.errors import InvalidInput
    from saibot.privatize.drafting import Answers

    said = said_in_options(licence, contact, tag)
    check(said)
    if said and out is not None:
        raise InvalidInput(
            f"--{next(iter(said)).removesuffix('s')} is said to a platform, and --out sends nothing.",
            hint="`saibot describe` says it later.",
        )
    answers = Answers(
        name=name,
        title=title,
        individual=individual,
        id=id,
        rows_per_individual=rows_per_individual,
        max_rows=max_rows,
        neighbours=neighbours,
        key=key,
        domain=domain,
        levels=tuple(level or ()),
        features=tuple(feature or ()),
        component=component,
    )
    if is_open:
        if len(paths) != 1 or is_sketch(paths[0]):
            raise InvalidInput("--open takes one table at a time.", hint="Each table has a card and a source of its own.")
        if private := [name for name in answers.said if name != "key"]:
            raise InvalidInput(f"--{private[0].replace('_', '-')} is about a private table; --open needs a card.")
        publish_open(
            paths[0],
            card,
            source=source,
            key=key,
            layout=layout,
            yes=yes,
            expires=expires,
            out=out,
            said=said,
            platform=platform,
            json=json,
        )
        return
    if source is not None:
        raise InvalidInput("--source goes with --open: a private table has none.")
    tables = [path for path in paths if not is_sketch(path)]
    if tables and len(paths) > 1:
        raise InvalidInput(
            f"{tables[0]} is no sketch: publish sketches together, or one table by itself.",
            hint="`saibot publish TABLE` guides through the release of one table.",
        )
    if tables:
        from saibot.cli.guide import TableOptions, publish_table

        guided = TableOptions(
            card, epsilon, delta, look, out, yes, header_is_names, visibility, expires, said, platform, json
        )
        publish_table(tables[0], answers, guided)
        return
    if answers.said or epsilon is not None or out is not None:
        given = next(iter(answers.said), "epsilon" if epsilon is not None else "out")
        raise InvalidInput(f"--{given.replace('_', '-')} is about a table; sketches are sent as they are.")
    _publish_sketches(paths, card, visibility, expires, said, platform, json)


def _publish_sketches(
    sketches: list[Path],
    card: Path | None,
    visibility: str | None,
    expires: str | None,
    said: dict[str, Any],
    platform: str | None,
    json: bool,
) -> None:
    from saibot.client import Provider

    with open_connection(platform) as opened, progress(quiet=json) as tell:
        provider = Provider(opened)
        done = provider.publish_all(sketches, card=card, visibility=visibility, expires=expires, progress=tell)
        describe_all(provider, done, said)
    if json:
        print_json({"platform": opened.url, "datasets": [dataset.model_dump(mode="json") for dataset in done]})
        return
    for path, dataset in zip(sketches, done, strict=True):
        say(f"published {path} as {dataset.id} ({shown(dataset.name)}, version {dataset.version})")
        tell_doubts(dataset)
    say(f"next: `saibot datasets {done[-1].id}` shows it as others see it; `saibot withdraw {done[-1].id}` takes it back.")


def tell_doubts(dataset: Dataset) -> None:
    """What others are told beside a dataset, for whoever has just published it."""
    if dataset.copy_of is not None:
        say(f"note: these very numbers are there already ({dataset.copy_of or 'hidden'}): this is listed as a copy")
        say("      if the table is yours, ask the platform's admin to verify your account: then yours is the original")
    for flag in dataset.flags:
        say(f"note: others are told that {shown(flag.text)}")


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
        say(f"withdrew {id}")
    say("The budget that it cost stays spent: `saibot ledger` shows it.")
