"""`saibot searches`: searches that were left to run on a platform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.report import ReportOption, check_outputs
from saibot.cli.show import JsonOption, print_json, progress, say
from saibot.report.terminal import print_table, show_result


def add_to(app: typer.Typer) -> None:
    searches = typer.Typer(help="Your searches on a platform: list them, fetch a result, cancel one.", no_args_is_help=True)
    searches.command("list")(list_searches)
    searches.command("result")(result)
    searches.command("cancel")(cancel)
    app.add_typer(searches, name="searches")


def list_searches(platform: PlatformOption = None, json: JsonOption = False) -> None:
    """List your searches that the platform still keeps."""
    with open_connection(platform) as opened:
        found = opened.searches()
    if json:
        print_json({"platform": opened.url, "searches": [search.model_dump(mode="json") for search in found]})
        return
    rows = [
        [one.id, one.status, shown(one.target), (one.created or "–")[:19].replace("T", " "), shown(one.progress.stage)]
        for one in found
    ]
    print_table(f"your searches at {opened.url}", ["id", "status", "target", "asked", "stage"], rows)


def result(
    id: Annotated[str, typer.Argument(help="The search's id.")],
    card: Annotated[Path | None, typer.Option(help="Card of the tables: which columns its keys and features are.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result here, for `saibot augment`.")] = None,
    shown: Annotated[int, typer.Option(help="Ranked candidates to show.", min=1)] = 10,
    report_to: ReportOption = None,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Wait for a search if need be, and show what it found."""
    from saibot.client import Requester

    check_outputs(report=report_to)
    with open_connection(platform) as opened, progress(quiet=json) as tell:
        requester = Requester(opened)
        job = requester.job(id)
        job.wait(tell)
        found = requester.result(job, card=card)
    if out is not None:
        found.save(out)
    if report_to is not None:
        found.report(report_to)
    if json:
        print_json(found.result.to_json())
        return
    show_result(found.result, sketches=None, shown=shown)
    if out is not None:
        say(f"wrote {out}")
        say(f"next: `saibot augment {out} TABLE --out FILE` joins the new columns to your rows.")


def cancel(
    id: Annotated[str, typer.Argument(help="The search's id.")],
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Stop a search; one that is over already is removed with its result."""
    with open_connection(platform) as opened:
        opened.job(id).cancel()
    if json:
        print_json({"platform": opened.url, "cancelled": id})
    else:
        say(f"cancelled {id}")
