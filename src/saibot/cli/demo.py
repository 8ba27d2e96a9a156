"""`saibot demo`: a whole story on real data, no questions asked."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from enum import StrEnum
from json import dumps, loads
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.show import JsonOption, print_json, progress, say
from saibot.extras import how_to_call
from saibot.report.format import fixed
from saibot.report.terminal import print_table, screen_width, show_path, show_ranking
from saibot.safe_file import write_safely

if TYPE_CHECKING:
    from saibot.demo.spending import SpendingStory
    from saibot.demo.story import Story


def add_to(app: typer.Typer) -> None:
    app.command("demo")(demo)


SERVED = "served.json"  # in a story's folder, once it was told: which story, and the requester's token


class DemoStory(StrEnum):
    """Which story is told."""

    HOUSEHOLDS = "households"
    FLIGHTS = "flights"


def demo(
    story: Annotated[
        DemoStory | None,
        typer.Option(
            help="households: spending in communes nobody has surveyed; flights: what airlines know about delays. "
            "[default: the one in the folder, or households]"
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the demo keeps its files; a second run there is quicker. [default: demo-output/STORY]"),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Keep the platform running afterwards, with its web pages. A story told before is served."
        ),
    ] = False,
    write_tables: Annotated[
        Path | None,
        typer.Option(help="Tell nothing, and only write the story's tables into this folder: to try commands on."),
    ] = None,
    port: Annotated[int, typer.Option(help="With --serve: the port to listen at; 0 for any free one.", min=0)] = 8642,
    json: JsonOption = False,
) -> None:
    """Tell a whole story on real data: providers publish privately, a requester searches, and a model gets better."""
    from saibot.cli.serve import listen

    if write_tables is not None:
        _write_tables(story or DemoStory.HOUSEHOLDS, write_tables, json=json)
        return
    place = folder or Path("demo-output") / (story or DemoStory.HOUSEHOLDS)
    chosen = _story_for(place, story)
    listening = listen("127.0.0.1", port) if serve else None  # a busy port is told before the story, not after
    served = place / SERVED
    if serve and served.is_file() and not json:
        say(f"The story of the {chosen} in {place} was told before; its report is {place / 'report.html'}.")
    else:
        tell = _households if chosen is DemoStory.HOUSEHOLDS else _flights
        token = tell(place, json=json, last=not serve)
        write_safely(served, dumps({"token": token, "story": chosen}).encode())
    if listening is not None:
        _serve(place, loads(served.read_text(encoding="utf-8"))["token"], listening, quiet=json)


def _write_tables(story: DemoStory, folder: Path, *, json: bool) -> None:
    from saibot.demo import flights, households

    made = (households if story is DemoStory.HOUSEHOLDS else flights).write_tables(folder)
    if json:
        print_json({"tables": [str(path) for path in made]})
        return
    for path in made:
        say(f"wrote {path}")


def _story_for(place: Path, asked: DemoStory | None) -> DemoStory:
    """The story to tell: the one that was asked for, or that the folder holds. One folder holds one story."""
    from saibot.errors import InvalidInput

    try:
        told = loads((place / SERVED).read_text(encoding="utf-8"))
        # Earlier versions did not write down which story it was; the requester's folder tells.
        held = DemoStory(told.get("story", DemoStory.HOUSEHOLDS if (place / "ministry").is_dir() else DemoStory.FLIGHTS))
    except FileNotFoundError:
        return asked or DemoStory.HOUSEHOLDS
    except (ValueError, AttributeError):
        raise InvalidInput(f"{place / SERVED} is damaged.", hint="Delete it, or choose another --folder.") from None
    if asked not in (None, held):
        raise InvalidInput(
            f"{place} holds the story of the {held}, not of the {asked}.",
            hint=f"Choose another --folder, or leave --story out to go on with the {held}.",
        )
    return held


def _households(folder: Path, *, json: bool, last: bool) -> str:
    from saibot.demo.households import read_households
    from saibot.demo.spending import tell_spending
    from saibot.demo.spending_report import write_spending

    with progress(quiet=json) as tell:
        story = tell_spending(folder, read_households(), progress=tell)
        tell("writing the report", None)
        write_spending(story, folder / "report.html")
    if json:
        print_json(story.to_json() | {"report": str(folder / "report.html")})
        sys.stdout.flush()
        return story.token
    _tell_spending(story)
    say(f"The whole story with pictures: {folder / 'report.html'}", "")
    if last:
        office = next(iter(story.spent))
        _show_next(folder, f"{folder}/offices/{office}/ledger", "ministry")
    return story.token


def _flights(folder: Path, *, json: bool, last: bool) -> str:
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
        return story.token
    _tell(story)
    say(f"The whole story with pictures: {report}", "")
    if last:
        _next(story)
    return story.token


def _tell_spending(story: SpendingStory) -> None:
    from saibot.demo.report import at_most
    from saibot.demo.spending_report import TYPICAL, choice_rows, choice_words, conclusion, known_rows, spending_rows

    say("A ministry has asked people in every other commune what they spend. Five offices each know one thing")
    say("about every household, and may hand out none of it. Each published one private sketch by commune,")
    say(
        f"bounds bought, at ε={at_most(max(story.spent.values()))} in its ledger. The ministry searched them at home.",
        "",
    )
    show_ranking(story.local.result, 5)
    # The three numbers: own features, own averages, private columns; on new keys and on known ones.
    numbers = [[label, fixed(new), fixed(known)] for label, new, known in known_rows(story)]
    print_table("R² of a linear model", ["", "new communes", "known communes"], numbers, right=(1, 2))
    say(conclusion(story), "")
    rows = [[row["label"], fixed(row["r2"]), "" if row["private"] else "NOT PRIVATE"] for row in spending_rows(story)]
    title = f"R² on {story.scores.test_rows:,} people in communes it has not surveyed"
    print_table(title, ["linear regression", "R²", ""], rows, right=(1,))
    say(f"Every new demo draws its own noise: {TYPICAL}.", "")
    heads = ["", *(choice.replace(", ", ",\n") for choice in story.follows)]
    print_table(
        "had offices chosen otherwise: R² of private averages against the true ones, which only a demo can tell",
        heads,
        choice_rows(story),
        right=(1, 2, 3),
    )
    say(choice_words(story), "")


def _tell(story: Story) -> None:
    from saibot.demo.flights import CAP
    from saibot.demo.report import at_most, score_rows
    from saibot.demo.story import DELTA, EPSILON

    most = max(publisher.spent for publisher in story.publishers)
    airlines = len(story.publishers) - 1  # the last is the weather office
    say(f"{airlines} airlines and the weather office published {story.sketches} sketches, each with ε={EPSILON}, δ={DELTA};")
    say(f"the four of one airline come to ε={at_most(most)} in its ledger (cap {CAP}). Their rows stayed where they were.")
    say("JetBlue fetched the sketches and searched at home: exact, nothing sent, nothing spent.", "")
    show_ranking(story.local.result, 10)
    show_path(story.local.result, "at home: R² of the linear model, step by step")
    say(f"Then JetBlue asked the platform itself, with two sketches of its own flights (ε={EPSILON} each):", "")
    show_path(story.private.result, "private request: R² as estimated through the noise of both sides")
    rows = [
        [row["label"], f"{row['r2']:.3f}", "" if row["private"] else "NOT PRIVATE: for comparison"]
        for row in score_rows(story)
    ]
    title = f"scikit-learn on JetBlue's rows: R² on {story.scores.test_rows:,} held-out flights"
    print_table(title, ["linear regression", "R²", ""], rows, right=(1,))
    say("What is not private joined the raw rows of all airlines, which only a demo with public flights may do.")


def _next(story: Story) -> None:
    _show_next(story.folder, f"{story.publishers[0].party.folder}/ledger", "requester", story="flights")


def _show_next(folder: Path, ledger: str, requester: str, *, story: str = "households") -> None:
    saibot, chosen = _this_command(), "" if story == DemoStory.HOUSEHOLDS else f" --story {story}"
    say("next:")
    lines = (
        (f"{saibot} demo{chosen} --folder {shlex.quote(str(folder))} --serve", "the platform with its web pages"),
        (f"SAIBOT_HOME={shlex.quote(ledger)} {saibot} ledger", "what a provider has spent, and what is left"),
        (f"less {shlex.quote(f'{folder}/{requester}/result.json')}", "what the search found, for other programs"),
    )
    for line in side_by_side(lines, screen_width()):
        say(line)


def side_by_side(lines: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Commands and what they show in two columns; below each other where the screen is too narrow for that."""
    longest = max(len(command) for command, _ in lines)
    if 2 + longest + 2 + max(len(why) for _, why in lines) <= width:
        return [f"  {command:<{longest}}  {why}" for command, why in lines]
    return [text for command, why in lines for text in (f"  # {why}", f"  {command}")]


def _serve(folder: Path, token: str, listening: socket, *, quiet: bool) -> None:
    """The platform of the story once more, now on a port."""
    from saibot.cli.serve import run
    from saibot.embedded import embedded_settings, make_app

    def ready(address: str) -> None:
        if not quiet:
            say(f"The platform listens at {address}. Sign in as the requester with the token", "", f"  {token}", "")
            say("Stop with ctrl-C.")

    run(make_app(embedded_settings(folder / "platform")), listening, ready)


def _this_command() -> str:
    """How this program was called, so that what it suggests can be typed as it stands."""
    path, passing = Path(sys.argv[0]), how_to_call()
    if passing is not None:
        return passing
    if path.name != "saibot" or shutil.which("saibot"):
        return "saibot"
    return os.path.relpath(path)
