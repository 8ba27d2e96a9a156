"""`saibot publish --open` and `saibot confirm`: public tables as exact sketches, and an admin's word for their sources."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.describe import describe_all
from saibot.cli.show import JsonOption, print_json, progress, say

if TYPE_CHECKING:
    from saibot.wire import Dataset


def add_to(app: typer.Typer) -> None:
    app.command("confirm")(confirm)


def publish_open(
    table: Path,
    card: Path | None,
    *,
    source: str | None,
    key: str | None,
    layout: str,
    yes: bool,
    expires: str | None,
    out: Path | None,
    said: dict[str, Any],
    platform: str | None,
    json: bool,
) -> None:
    """Make exact sketches of a public table; write them to `out`, a file or a folder, or else send them to the platform."""
    from saibot.client import Provider
    from saibot.client.open_tables import open_sketches
    from saibot.client.privatizing import open_ledger
    from saibot.errors import InvalidInput
    from saibot.safe_file import write_safely
    from saibot.sketch import SUFFIX, write_sketch

    if not table.exists():
        raise InvalidInput(f"there is no table {table}.", hint="Give the path of a CSV, Parquet or Arrow file.")
    if layout not in ("lookup", "semiring"):
        raise InvalidInput(f"an open table's layout is lookup or semiring, not {layout!r}.")
    described = card or table.with_name(table.name.split(".")[0] + ".toml")
    sure = yes or _said_yes(json)

    def note(sentence: str) -> None:
        say(f"note: {sentence}", err=True)

    with progress(quiet=json) as tell:
        made = open_sketches(
            table,
            described,
            open_ledger(),
            source=source or "",
            yes=sure,
            keys=[key] if key else [],
            layout="lookup" if layout == "lookup" else "semiring",
            progress=tell,
            note=note,
        )
    if out is not None:
        alone = out.suffix == SUFFIX
        if alone and len(made) > 1:
            raise InvalidInput(f"{out} is one file, and the card has several keys.", hint="Name a folder, or one --key.")
        written = []
        for sketch in made:
            header = sketch.header
            path = out if alone else out / f"{header.dataset.name}{f'-{header.key.name}' if header.key else ''}{SUFFIX}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_safely(path, write_sketch(sketch))
            written.append(str(path))
        if json:
            print_json({"sketches": written, "open": True, "source": made[0].header.source})
            return
        for place in written:
            say(f"wrote {place}: open, no privacy cost, source: {shown(made[0].header.source)}")
        say(f"next: `saibot pack CORPUS {out}` makes it searchable; `saibot publish {written[0]}` sends it.")
        return
    with open_connection(platform) as opened, progress(quiet=json) as tell:
        done = Provider(opened).publish_all(made, card=described, expires=expires, progress=tell)
        describe_all(Provider(opened), done, said)
    if json:
        print_json({"platform": opened.url, "datasets": [dataset.model_dump(mode="json") for dataset in done]})
        return
    for dataset in done:
        say(f"published {table} as {dataset.id} ({shown(dataset.name)}, version {dataset.version}): {_facts(dataset)}")
    say("An admin confirms its source (`saibot confirm ID`); before that it can be found, and teaches nothing.")


def confirm(
    id: Annotated[str, typer.Argument(help="Id of an open dataset, as `saibot datasets` shows it.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Confirm the source of an open dataset (admin): it exists, everybody may use it, and it has this very table.

    From then on the dataset helps to improve the values of all others with its key. A later version is confirmed anew.
    """
    with open_connection(platform) as opened:
        found = opened.dataset(id)
        if not yes and not json and sys.stdin.isatty():
            say(f"{shown(found.name)} of {shown(found.provider)} names this source: {shown(found.source)}", err=True)
            typer.confirm("Have you seen that it is so?", abort=True, err=True)
        done = opened.confirm(id, found.digest)
    if json:
        print_json({"platform": opened.url, "dataset": done.model_dump(mode="json")})
        return
    say(f"confirmed {done.id} ({shown(done.name)}): {_facts(done)}")
    say("What it has in common with other tables is learned within a few minutes.")


def _facts(dataset: Dataset) -> str:
    return f"open, no privacy cost, source: {shown(dataset.source)}"


def _said_yes(json: bool) -> bool:
    """Whether somebody at a terminal has typed yes; nobody there has not."""
    from saibot.privatize.open_table import QUESTION

    if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    answer: str = typer.prompt(f"{QUESTION} Type yes", err=True, default="no", show_default=False)
    return answer.strip().lower() == "yes"
