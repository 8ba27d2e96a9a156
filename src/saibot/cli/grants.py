"""`saibot grants`: which accounts may use a dataset that is published with the visibility `granted`."""

from __future__ import annotations

from typing import Annotated

import typer

from saibot.cli.connection import PlatformOption, day, open_connection, shown
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.terminal import print_table

Granted = Annotated[str, typer.Argument(metavar="DATASET", help="Id of a dataset of yours: `saibot datasets --mine`.")]
Grantee = Annotated[str, typer.Argument(help="The account, as the platform calls it.")]


def add_to(app: typer.Typer) -> None:
    help = "Who may use a dataset of yours that is published with --visibility granted."
    grants = typer.Typer(help=help, no_args_is_help=True)
    grants.command("list")(list_grants)
    grants.command("give")(give)
    grants.command("take")(take)
    app.add_typer(grants, name="grants")


def list_grants(dataset: Granted, platform: PlatformOption = None, json: JsonOption = False) -> None:
    """List the accounts that a dataset is granted to."""
    from saibot.client import Enquiries

    with open_connection(platform) as opened:
        found = list(Enquiries(opened).grants(dataset))
    if json:
        print_json({"platform": opened.url, "dataset": dataset, "grants": [one.to_json() for one in found]})
        return
    print_table(f"{dataset} is granted to", ["account", "since"], [[shown(one.account), day(one.since)] for one in found])


def give(dataset: Granted, account: Grantee, platform: PlatformOption = None, json: JsonOption = False) -> None:
    """Grant a dataset to an account."""
    from saibot.client import Enquiries

    with open_connection(platform) as opened:
        made = Enquiries(opened).give(dataset, account)
    if json:
        print_json(made.to_json())
    else:
        say(f"granted {dataset} to {account}")


def take(dataset: Granted, account: Grantee, platform: PlatformOption = None, json: JsonOption = False) -> None:
    """Take a grant back. What the account has downloaded stays with it."""
    from saibot.client import Enquiries

    with open_connection(platform) as opened:
        Enquiries(opened).take(dataset, account)
    if json:
        print_json({"platform": opened.url, "dataset": dataset, "taken_from": account})
    else:
        say(f"{account} may use {dataset} no longer")
