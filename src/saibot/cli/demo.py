"""`saibot demo`: the whole story on real flight data, no questions asked."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.show import JsonOption, print_json, progress
from saibot.report.terminal import print_table, screen_width, show_path, show_ranking

if TYPE_CHECKING:
    from saibot.demo.story import Story


def add_to(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    folder: Annotated[Path, typer.Option(help="Where the demo keeps its files. A second run there is quicker.")] = Path(
        "demo-output"
    ),
    serve: Annotated[
        bool, typer.Option("--serve", help="Keep the platform running afterwards, with its web pages.")
    ] = False,
    port: Annotated[int, typer.Option(help="With --serve: the port to listen at; 0 for any free one.", min=0)] = 8642,
    json: JsonOption = False,
) -> None:
    """Publish fifteen airlines' real flights of 2013 privately, and find out what they tell JetBlue about its delays."""
    from saibot.demo.report import write_report
    from saibot.demo.story import tell_story

    with progress(quiet=json) as tell:
        story = tell_story(folder, progress=tell)
        tell("writing the report", None)
        report = folder / "report.html"
        write_report(story, report)
    if json:
        print_json(story.to_json() | {"report": str(report)})
        sys.stdout.flush()
    else:
        _tell(story)
        typer.echo(f"The whole story with pictures: {report}\n")
    if serve:
        _serve(story, port, quiet=json)
    elif not json:
        _next(story)


def _tell(story: Story) -> None:
    from saibot.demo.flights import CAP
    from saibot.demo.report import at_most, score_rows
    from saibot.demo.story import DELTA, EPSILON

    most = max(publisher.spent for publisher in story.publishers)
    airlines = len(story.publishers) - 1  # the last is the weather office
    typer.echo(
        f"{airlines} airlines and the weather office published {story.sketches} sketches, each with ε={EPSILON}, δ={DELTA};"
    )
    typer.echo(
        f"the four of one airline come to ε={at_most(most)} in its ledger (cap {CAP}). Their rows stayed where they were."
    )
    typer.echo("JetBlue fetched the sketches and searched at home: exact, nothing sent, nothing spent.\n")
    show_ranking(story.local.result, 10)
    show_path(story.local.result, "at home: R² of the linear model, step by step")
    typer.echo(f"Then JetBlue asked the platform itself, with two sketches of its own flights (ε={EPSILON} each):\n")
    show_path(story.private.result, "private request: R² as estimated through the noise of both sides")
    rows = [
        [row["label"], f"{row['r2']:.3f}", "" if row["private"] else "NOT PRIVATE: for comparison"]
        for row in score_rows(story)
    ]
    title = f"scikit-learn on JetBlue's rows: R² on {story.scores.test_rows:,} held-out flights"
    print_table(title, ["linear regression", "R²", ""], rows, right=(1,))
    typer.echo("What is not private joined the raw rows of all airlines, which only a demo with public flights may do.")


def _next(story: Story) -> None:
    saibot, folder = _this_command(), story.folder
    airline = story.publishers[0].party
    typer.echo("next:")
    lines = (
        (f"{saibot} demo --folder {shlex.quote(str(folder))} --serve", "the platform with its web pages"),
        (
            f"SAIBOT_HOME={shlex.quote(f'{airline.folder}/ledger')} {saibot} ledger",
            "what an airline has spent, and what is left",
        ),
        (f"less {shlex.quote(str(airline.card))}", "what an airline has to say before it publishes"),
        (f"less {shlex.quote(f'{folder}/requester/result.json')}", "what the search found, for other programs"),
    )
    for line in side_by_side(lines, screen_width()):
        typer.echo(line)


def side_by_side(lines: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Commands and what they show in two columns; below each other where the screen is too narrow for that."""
    longest = max(len(command) for command, _ in lines)
    if 2 + longest + 2 + max(len(why) for _, why in lines) <= width:
        return [f"  {command:<{longest}}  {why}" for command, why in lines]
    return [text for command, why in lines for text in (f"  # {why}", f"  {command}")]


def _serve(story: Story, port: int, *, quiet: bool) -> None:
    """The platform of the story once more, now on a port."""
    from saibot.cli.serve import listen, run
    from saibot.embedded import embedded_settings, make_app

    settings = embedded_settings(story.platform_folder)
    listening = listen("127.0.0.1", port)

    def ready(address: str) -> None:
        if not quiet:
            typer.echo(f"The platform listens at {address}. Sign in as JetBlue with the token\n\n  {story.token}\n")
            typer.echo("Stop with ctrl-C.")

    run(make_app(settings), listening, ready)


def _this_command() -> str:
    """How this program was called, so that what it suggests can be typed as it stands."""
    path = Path(sys.argv[0])
    if path.name != "saibot" or shutil.which("saibot"):
        return "saibot"
    return os.path.relpath(path)
