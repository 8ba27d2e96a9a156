"""`saibot demo`: the story on real flight data, no questions asked."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, number, print_json, print_table, progress


def add_to(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    airline: Annotated[str, typer.Option(help="Carrier code of the airline that plays the provider.")] = "ua",
    folder: Annotated[Path, typer.Option(help="Where the demo keeps its files.")] = Path("demo-output"),
    json: JsonOption = False,
) -> None:
    """Privatise one airline's real flights of 2013 and look at what its sketch tells a stranger."""
    from saibot.demo.story import tell_story

    with progress(quiet=json) as tell:
        story = tell_story(folder, airline.lower(), progress=tell)
    if json:
        print_json(story.to_json())
        return
    sketch = story.released.sketch
    typer.echo(f"{sketch.header.dataset.title}: {sketch.header.rows:,} flights stay on this machine, in {story.table}.")
    if story.released.repeated:
        typer.echo("This very sketch had been bought before, so it is handed out again: the ledger was not charged.")
    else:
        typer.echo("The ledger was charged ε=1, δ=1e-6 before any noise was drawn.")
    typer.echo(f"What may leave is the sketch {story.sketch}: arrivals and departures per day, each number with noise.\n")
    rows = [
        [f.name, f"{number(story.truth[f.name])}", f"{number(f.mean.value)} ± {number(f.mean.error, 2)}", f.unit]
        for f in story.profile.features
    ]
    print_table("mean delay", ["feature", "truth (airline only)", "from the sketch (anyone)", "unit"], rows, right=(1, 2))
    saibot = _this_command()
    typer.echo("next:")
    for command, why in (
        (f"{saibot} inspect {story.sketch}", "what the sketch says about itself"),
        (f"SAIBOT_HOME={folder}/home {saibot} ledger", "what was spent, and what is left"),
        (f"{saibot} privatize {story.table} --key day --dry-run", "the plan, without spending anything"),
    ):
        typer.echo(f"  {command:<66} {why}")


def _this_command() -> str:
    """How this program was called, so that what it suggests can be typed as it stands."""
    path = Path(sys.argv[0])
    if path.name != "saibot" or shutil.which("saibot"):
        return "saibot"
    return os.path.relpath(path)
