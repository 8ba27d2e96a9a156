"""`saibot enquiries`: ask a provider for more than is published, and answer those who ask."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.connection import PlatformOption, day, open_connection, shown
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.wire import Enquiry

EnquiryId = Annotated[str, typer.Argument(help="The enquiry's id, as `saibot enquiries list` shows it.")]


def add_to(app: typer.Typer) -> None:
    help = "Ask a provider for a dataset or a release that is not published to you, and answer who asks you."
    enquiries = typer.Typer(help=help, no_args_is_help=True)
    enquiries.command("ask")(ask)
    enquiries.command("list")(list_enquiries)
    enquiries.command("show")(show)
    enquiries.command("grant")(grant)
    enquiries.command("refuse")(refuse)
    enquiries.command("remove")(remove)
    app.add_typer(enquiries, name="enquiries")


def ask(
    dataset: Annotated[str, typer.Argument(help="Id of the published dataset that it is about: `saibot datasets`.")],
    why: Annotated[str, typer.Option(help="What it is for, in your own words.")],
    column: Annotated[list[str] | None, typer.Option(help="A column that you would like. Repeatable.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="A key that you would like it by. Repeatable.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Budget that the release should have.")] = None,
    delta: Annotated[str, typer.Option(help="The delta that goes with it.")] = "1e-6",
    yes: Annotated[bool, typer.Option("--yes", help="You know what an enquiry tells: do not ask.")] = False,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Ask the provider of a dataset for access to more of it, or for another release: which columns, keys and budget, why.

    An enquiry tells the provider who you are and what you are after, which may tell what a search on your own machine has
    found. It is sent only with your word: you are asked, and without a terminal `--yes` is needed.
    """
    from saibot.client import Enquiries
    from saibot.errors import InvalidInput
    from saibot.wire.enquiry import TELLS

    with open_connection(platform) as opened:
        if not yes:
            if not sys.stdin.isatty() or json:
                raise InvalidInput(TELLS, hint="Say --yes to send it.")
            say(TELLS, err=True)
            typer.confirm(f"Send it to the provider of {dataset}?", abort=True, err=True)
        sent = Enquiries(opened).ask(
            dataset, why=why, columns=column or (), keys=key or (), epsilon=epsilon, delta=delta, yes=True
        )
    if json:
        print_json(sent.to_json())
        return
    say(f"sent {sent.id} to {shown(sent.provider)}, about {shown(sent.name)}")
    say(f"next: `saibot enquiries show {sent.id}` shows the answer; `remove` instead of `show` takes it back.")


def list_enquiries(
    received: Annotated[bool, typer.Option("--received", help="Only those that others sent to you.")] = False,
    open_only: Annotated[bool, typer.Option("--open", help="Only those without an answer.")] = False,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """List the enquiries that you have sent or received, the latest first."""
    from saibot.client import Enquiries

    with open_connection(platform) as opened:
        found = list(Enquiries(opened).list("received" if received else None, open_only=open_only))
        me = opened.me().name
    if json:
        print_json({"platform": opened.url, "enquiries": [one.to_json() for one in found]})
        return
    rows = [[one.id, shown(_other_side(one, me)), shown(one.name), one.status, day(one.asked)] for one in found]
    print_table(f"enquiries at {opened.url}", ["id", "with", "about", "status", "asked"], rows, whole=(0,))
    if not found:
        say("none yet: `saibot enquiries ask DATASET --why ...` sends one.")


def show(id: EnquiryId, platform: PlatformOption = None, json: JsonOption = False) -> None:
    """Show an enquiry and its answer."""
    from saibot.client import Enquiries

    with open_connection(platform) as opened:
        found = Enquiries(opened).show(id)
        me = opened.me().name
    if json:
        print_json(found.to_json())
        return
    _show(found)
    if found.status == "open" and found.provider == me:
        say(f"next: `saibot enquiries grant {id} --dataset ID`, or `saibot enquiries refuse {id} --reason ...`.")
    elif found.granted is not None and found.requester == me:
        say(f"next: `saibot datasets {found.granted}` shows it, and your searches find it.")


def grant(
    id: EnquiryId,
    dataset: Annotated[str, typer.Option(help="Id of the dataset of yours that they may use: `saibot datasets --mine`.")],
    words: Annotated[str, typer.Option(help="What else there is to say.")] = "",
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Say yes with a dataset that you have published, as a rule by `saibot publish --visibility granted`.

    The requester may use it from now on; `saibot grants take` ends that.
    """
    from saibot.client import Enquiries

    with open_connection(platform) as opened:
        done = Enquiries(opened).grant(id, dataset, words)
    _answered(done, f"granted {dataset} to {shown(done.requester)}", json)


def refuse(
    id: EnquiryId,
    reason: Annotated[str, typer.Option(help="Why not. The requester reads it.")],
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Say no, with a reason."""
    from saibot.client import Enquiries

    with open_connection(platform) as opened:
        done = Enquiries(opened).refuse(id, reason)
    _answered(done, f"refused {id}", json)


def remove(id: EnquiryId, platform: PlatformOption = None, json: JsonOption = False) -> None:
    """Take back an enquiry that you have sent, answered or not. What was granted stays granted."""
    from saibot.client import Enquiries

    with open_connection(platform) as opened:
        Enquiries(opened).remove(id)
    if json:
        print_json({"platform": opened.url, "removed": id})
    else:
        say(f"removed {id}")


def _other_side(one: Enquiry, me: str) -> str:
    return f"from {one.requester}" if one.provider == me else f"to {one.provider}"


def _answered(done: Enquiry, told: str, json: bool) -> None:
    if json:
        print_json(done.to_json())
    else:
        say(told)


def _show(one: Enquiry) -> None:
    facts = [
        ("from", one.requester),
        ("to", one.provider),
        ("about", f"{one.name} ({one.dataset})"),
        ("columns", ", ".join(one.columns)),
        ("keys", ", ".join(one.keys)),
        ("budget", "" if one.budget is None else str(one.budget)),
        ("asked", day(one.asked)),
        ("status", one.status + (f", {day(one.answered)}" if one.answered else "")),
        ("granted", one.granted or ""),
    ]
    print_table(f"enquiry {one.id}", ["", ""], [[name, shown(value)] for name, value in facts if value])
    for title, text in (("why", one.why), ("answer", one.answer)):
        if text:
            say(f"{title}:")
            for line in text.splitlines():
                say(f"  {shown(line)}")
