"""`saibot discover`: which published tables join or union with one's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.show import JsonOption, print_json, progress, say
from saibot.report.format import percent, plural
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.wire import Related, UnionsWith, Unrelated

DATASET = re.compile(r"d[0-9a-f]{16}")  # ids that platforms give


def add_to(app: typer.Typer) -> None:
    app.command("discover")(discover)


def discover(
    own: Annotated[str, typer.Argument(help="A table, a .saibot sketch, or the id of a dataset that the platform has.")],
    key: Annotated[list[str] | None, typer.Option(help="Key column of the table. Repeatable.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Column that a table must have for its rows to be added. Repeatable.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="The table's card: columns of its keys, units of its features.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Folder of packed sketches, instead of a platform.")] = None,
    most: Annotated[int, typer.Option(help="Most tables to list of each kind.", min=1)] = 20,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Find what joins or unions with OWN, from public facts alone: names, units and lists of keys.

    A table or sketch of your own stays here: what is published comes to you. Nothing is spent.
    """
    if corpus is None and not Path(own).exists() and DATASET.fullmatch(own):  # no path of this machine goes to a platform
        with open_connection(platform) as opened:
            found: Related = opened.related(own)
    else:
        found = _at_home(Path(own), {"keys": key or [], "features": feature or []}, card, corpus, platform, json)
    if json:
        print_json(found.to_json())
        return
    _tell("joins with", ["dataset", "key", "keys", "signal", "why"], found.joins, most)
    _tell("unions with", ["dataset", "why"], found.unions, most)
    left: tuple[Unrelated, ...] = getattr(found, "unrelated", ())
    for one in left[:most]:
        say(shown(f"neither: {one.name} ({'; '.join(reason.removesuffix('.') for reason in one.reasons)})"))
    if len(left) > most:
        say(f"and {plural(len(left) - most, 'table')} more without a relation: --json names them all.")


def _at_home(
    own: Path, named: dict[str, list[str]], card: Path | None, corpus: Path | None, platform: str | None, quiet: bool
) -> Related:
    from saibot.client import Corpus, Requester
    from saibot.client.discovering import discover as look
    from saibot.errors import InvalidInput
    from saibot.privatize import Card

    if not own.exists():
        raise InvalidInput(f"there is no table or sketch {own}.", hint="Check the path.")
    terms: dict[str, Any] = named | {"card": None if card is None else Card.read(card)}
    if corpus is not None:
        return look(own, Corpus(corpus), **terms)
    with open_connection(platform) as opened, progress(quiet=quiet) as tell:
        return look(own, Requester(opened).corpus(progress=tell), **terms)


def _tell(title: str, columns: list[str], found: Sequence[UnionsWith], most: int) -> None:
    if not found:
        say(f"{title}: nothing")
        return
    rows = [[shown(one.name), *_looked_up(one), shown(one.why)] for one in found[:most]]
    print_table(title, columns, rows, right=(2, 3) if "key" in columns else ())
    if len(found) > most:
        say(f"and {len(found) - most:,} more: --most {2 * most}.")


def _looked_up(one: UnionsWith) -> list[str]:
    """Of a join: by which key, for how many of one's own keys, and how much of the values is signal."""
    from saibot.wire import JoinsWith

    if not isinstance(one, JoinsWith):
        return []
    return [shown(str(one.key)), percent(one.share), percent(one.signal)]
