"""`saibot publish TABLE`: a first-timer is led from a table to a published sketch. Questions go to standard error.

What comes from rows is shown on this screen and goes nowhere else.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from saibot.cli.connection import open_connection, shown
from saibot.cli.describe import describe_all
from saibot.cli.home import open_ledger
from saibot.cli.show import ask_provider, print_json, progress, say
from saibot.report.format import count, number, one_line, percent
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.client.guiding import Ask, GuideQuestion
    from saibot.privatize import Released, ReleaseRequest
    from saibot.privatize.drafting import Answers
    from saibot.privatize.looking import RowsLook


@dataclass(frozen=True)
class TableOptions:
    """Options of `saibot publish TABLE` beyond what is said about the table."""

    card: Path | None
    epsilon: str | None
    delta: str
    look: bool
    out: Path | None
    yes: bool
    header_is_names: bool
    visibility: str | None
    expires: str | None
    said: dict[str, Any]
    platform: str | None
    json: bool


def publish_table(table: Path, answers: Answers, options: TableOptions) -> None:
    """Ask what is missing, show what to expect, ask once, charge, release, send."""
    from saibot.client import Provider
    from saibot.client.config import find_address
    from saibot.client.guiding import check_untuned, keep_card, nobody
    from saibot.client.provider import check_listed
    from saibot.errors import InvalidInput, SaibotError
    from saibot.privatize import look_at, privatize
    from saibot.safe_file import write_safely

    if not table.is_file():
        raise InvalidInput(f"there is no table {table}.", hint="Give the path of a CSV, Parquet or Arrow file.")
    if options.out is None:  # before a row is read: what a platform would refuse is not paid for first
        if find_address(options.platform) is None:
            raise InvalidInput(
                "it is not said where the sketch is to go.",
                hint="Say --platform ADDRESS (or `saibot login ADDRESS` once), or --out FILE for a file only.",
            )
        with open_connection(options.platform) as opened:
            terms = Provider(opened).check_before_paying(visibility=options.visibility, expires=options.expires)
    someone = sys.stdin.isatty() and sys.stderr.isatty() and not options.json
    path = options.card or table.with_name(table.name.split(".")[0] + ".toml")
    request, made = _request(table, answers, options, path, _ask if someone else nobody)
    ledger = open_ledger()
    request = replace(request, yes=options.yes)
    if options.out is None:
        check_listed(request.budget, terms)
        check_untuned(request, ledger)  # a platform would refuse it after it was paid
    if options.look:
        with progress(quiet=options.json) as tell:
            found = look_at(table, request, ledger, progress=tell)
        if not options.json:
            show_look(found)
        if found.wasteful and not options.yes and not (someone and typer.confirm(f"{found.wasteful}. Go on?", err=True)):
            raise InvalidInput(f"{found.wasteful}. Nothing was charged.", hint="Mend that, or say --yes to release it so.")
    if someone and not options.yes:
        where = str(options.out) if options.out else str(find_address(options.platform))
        if not typer.confirm(f"Charge {request.budget} to {request.card.dataset.name} and release to {where}?", err=True):
            raise InvalidInput("nothing was charged.", hint="The answers were not kept: options say them next time.")
    if made:
        keep_card(request.card, path)
    with progress(quiet=options.json) as tell:
        released = privatize(table, request, ledger, progress=tell, ask=ask_provider)
    for note in released.notes:
        say(f"note: {note}", err=True)
    document = {"card": str(path), "digest": released.sketch.digest, "repeated": released.repeated}
    if options.out is not None:
        write_safely(options.out, released.content)
        document["sketch"] = str(options.out)
    else:
        try:
            with open_connection(options.platform) as opened:
                sent = Provider(opened).publish(
                    released.sketch, card=request.card, visibility=options.visibility, expires=options.expires
                )
                describe_all(Provider(opened), [sent], options.said)
        except SaibotError:
            _report(released, request, path if made else None, err=True)
            say("What was charged is kept: the same release is sent by another try, at no further cost.", err=True)
            raise
        document |= {"platform": opened.url, "dataset": sent.model_dump(mode="json")}
    if options.json:
        print_json(document)
        return
    _report(released, request, path if made else None)
    if options.out is not None:
        say(f"wrote {options.out} ({number(len(released.content) / 1024)} KiB); nothing was sent.")
        say(f"next: `saibot inspect {options.out}` shows what it says; `saibot publish {options.out}` sends it.")
    else:
        say(f"published as {sent.id} ({shown(sent.name)}, version {sent.version})")
        say(f"next: `saibot datasets {sent.id}` shows it as others see it; `saibot withdraw {sent.id}` takes it back.")


def _request(table: Path, answers: Answers, options: TableOptions, path: Path, ask: Ask) -> tuple[ReleaseRequest, bool]:
    """The release that the answers come to, and whether its card was made now."""
    from saibot.client.guiding import GuideQuestion, affordable_bounds, described_table, public_rows, request_for
    from saibot.privacy import Budget

    card, made = described_table(table, answers, ask, path=path, header_is_names=options.header_is_names)
    epsilon = options.epsilon
    if epsilon is None:
        told = ("1 is usual; less protects more and says less. It is spent for good.",)
        epsilon = ask(GuideQuestion("epsilon", "How much privacy budget, epsilon, may this cost?", told, "1"))
    budget = Budget(epsilon, options.delta)
    if made:
        card = affordable_bounds(card, budget, public_rows(table, card), ask)
    return request_for(card, budget, key=None if made else answers.key), made


def show_look(found: RowsLook) -> None:
    """What rows say about the card, on the provider's own screen."""
    if found.inside is not None:
        share = f"{percent(found.inside)} of {count(found.rows)} rows have a key of the list"
        say(f"{share}; {count(found.empty_keys)} of its {count(found.keys)} keys have no row.")
    rows = []
    for column in found.columns:
        unit = f" ({column.unit})" if column.unit else ""
        bounds = f"{number(column.lower, 3)} to {number(column.upper, 3)}{unit}"
        rows.append(
            [
                shown(column.name),
                f"about {bounds}, to be bought" if column.to_buy else bounds,
                percent(column.missing),
                f"{percent(column.below)} / {percent(column.above)}",
                "–" if column.spread is None else f"{number(column.spread, 2)}{unit}",
                "–" if column.error is None else f"{number(column.error, 2)}{unit}",
                "–" if column.survives is None else percent(column.survives),
            ]
        )
    heads = ["column", "bounds", "missing", "clipped below / above", "differs between keys by", "noise of a key", "survives"]
    print_table("your rows by this card (seen here only)", heads, rows, right=(2, 3, 4, 5, 6))
    for name in found.ids:
        say(f"Values of column {shown(name)!r} come more than once. If it tells individuals apart, say --id {shown(name)}.")
    for words in found.better:
        say(f"better: {words}.")
    say("Another card than this one counts as tuned from now on, unless what changes is bought.")


def _ask(question: GuideQuestion) -> str:
    """One question in the terminal, with its hints above it."""
    for line in (*question.seen, *question.hints):
        say(f"  {shown(line)}", err=True)
    answer: str = typer.prompt(one_line(question.text), default=question.suggested, prompt_suffix=" ", err=True)
    return answer.strip()


def _report(released: Released, request: ReleaseRequest, card: Path | None, *, err: bool = False) -> None:
    if card is not None:
        say(f"wrote the card {card}: what was said about the table, to keep and to edit", err=err)
    if released.repeated:
        say("this very release was asked for before: the same sketch, at no further cost.", err=err)
    else:
        say(f"charged {request.card.dataset.name}: {request.budget} under {request.neighbours}", err=err)
