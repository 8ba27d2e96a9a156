"""`saibot providers`: who has published what at a platform, and whom its admin has verified."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.connection import PlatformOption, day, open_connection, shown
from saibot.cli.show import JsonOption, print_json
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.wire import ProviderStanding

Account = Annotated[str, typer.Argument(help="The account, as `saibot providers list` shows it.")]


def add_to(app: typer.Typer) -> None:
    help = "Who has published what, and how they stand: verified by the platform's admin or not, with which keys."
    providers = typer.Typer(help=help, no_args_is_help=True)
    providers.command("list")(list_providers)
    providers.command("show")(show)
    providers.command("verify")(verify)
    providers.command("unverify")(unverify)
    providers.command("take-key")(take_key)
    app.add_typer(providers, name="providers")


def list_providers(platform: PlatformOption = None, json: JsonOption = False) -> None:
    """List all providers by name."""
    with open_connection(platform) as opened:
        found = list(opened.providers())
    if json:
        print_json({"platform": opened.url, "providers": [one.to_json() for one in found]})
        return
    rows = [
        [shown(one.name), _verified(one), day(one.since), f"{one.datasets:,}", one.fingerprint or "unsigned"]
        for one in found
    ]
    heads = ["provider", "verified", "since", "datasets", "key"]
    print_table(f"providers at {opened.url}", heads, rows, right=(3,), whole=(4,))


def show(name: Account, platform: PlatformOption = None, json: JsonOption = False) -> None:
    """Show how one provider stands, with all keys that it has signed with."""
    with open_connection(platform) as opened:
        _tell(opened.provider(name), opened.url, json)


def verify(
    name: Account,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Say that an account is who its name says (admin), after having made sure by other means than this platform.

    Results and lists then say so, searches can be limited to verified providers, and among copies theirs is the original.
    """
    with open_connection(platform) as opened:
        if not yes and not json and sys.stdin.isatty():
            typer.confirm(f"Have you made sure that {shown(name)} is who the name says?", abort=True, err=True)
        _tell(opened.verify(name), opened.url, json)


def unverify(name: Account, platform: PlatformOption = None, json: JsonOption = False) -> None:
    """Take a verification back (admin)."""
    with open_connection(platform) as opened:
        _tell(opened.take_verification(name), opened.url, json)


def take_key(
    name: Account,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Take an account's signing key back (admin): it is lost, or somebody else has it. The account may bind another one."""
    with open_connection(platform) as opened:
        if not yes and not json and sys.stdin.isatty():
            typer.confirm(f"Has {shown(name)} asked for that, by other means than this platform?", abort=True, err=True)
        _tell(opened.take_key(name), opened.url, json)


def _tell(one: ProviderStanding, platform: str, json: bool) -> None:
    if json:
        print_json({"platform": platform, "provider": one.to_json()})
        return
    facts = [
        ["provider", shown(one.name)],
        ["verified", _verified(one)],
        ["since", day(one.since)],
        ["datasets", f"{one.datasets:,}"],
        ["key", one.fingerprint or "none: its sketches are unsigned"],
    ]
    for key in one.earlier_keys:
        why = "replaced by its owner" if key.proof else "taken back by an admin"
        facts.append(["earlier key", f"{key.fingerprint}, until {day(key.until)}, {why}"])
    print_table("provider", ["", ""], facts)


def _verified(one: ProviderStanding) -> str:
    return f"since {day(one.verified_since)}" if one.verified else "no"
