"""`saibot trail`: who did what at a platform, for its admin."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.wire import TrailEntry

MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}(:\d{2}(:\d{2}(\.\d{1,6})?)?)?Z?)?")


def add_to(app: typer.Typer) -> None:
    app.command("trail")(trail)


def trail(
    action: Annotated[
        str | None, typer.Option(help="Only this: publish, download, sign in, refuse token, and so on, as it is shown.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="Only of this account; - is nobody who is known.")] = None,
    since: Annotated[
        str | None, typer.Option(help="From this day on, YYYY-MM-DD, or this moment, YYYY-MM-DDTHH:MM, in UTC.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Most to list.", min=1)] = 50,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Show who did what, newest first (admin): sign-ins, refusals, downloads, publications, tokens, searches.

    Downloads and refusals are sums by the hour, and a few seconds late. Never what a sketch or a request says.
    """
    from saibot.client.answers import read_answer
    from saibot.errors import InvalidInput
    from saibot.wire import TrailEntry

    if since is not None and MOMENT.fullmatch(since) is None:
        raise InvalidInput(f"--since is a day, YYYY-MM-DD, or YYYY-MM-DDTHH:MM, not {since!r}.")
    filters = {"action": action, "account": account, "since": since, "limit": min(limit, 200)}
    with open_connection(platform) as opened:
        found = [read_answer(TrailEntry, entry) for entry in islice(opened.audit(**filters), limit + 1)]
    listed, more = found[:limit], len(found) > limit
    if json:
        print_json({"platform": opened.url, "trail": [one.to_json() for one in listed], "more": more})
        return
    rows = [[_minute(one.at), shown(one.account), shown(one.action), shown(one.subject), _said(one)] for one in listed]
    print_table(f"trail of {opened.url}", ["when (UTC)", "who", "did", "to", ""], rows, whole=(0,))
    if more:
        say(f"and more: --limit {2 * limit}, or narrow it with --action, --account or --since.")
    elif not listed:
        say("nothing in the trail fits.")


def _minute(moment: str) -> str:
    return shown(moment[:16].replace("T", " "))


def _said(entry: TrailEntry) -> str:
    return shown(", ".join([entry.told, *(f"{name} {value}" for name, value in entry.facts.items())]).strip(", "))
