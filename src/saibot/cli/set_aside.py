"""`saibot aside`: sketches in a platform's file store that its database does not know."""

from __future__ import annotations

from typing import Annotated

import typer

from saibot.cli.connection import shown
from saibot.cli.serve import DatabaseOption, DataOption, FilesOption, read_settings
from saibot.cli.show import JsonOption, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command("aside")(set_aside)


def set_aside(
    restore: Annotated[str | None, typer.Option(metavar="DIGEST", help="Publish this one again.")] = None,
    provider: Annotated[str | None, typer.Option(help="The account that it is published for.")] = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    files: FilesOption = None,
    json: JsonOption = False,
) -> None:
    """List the files that a start found without a row in the database, or publish one again. The platform must be stopped.

    Nothing is ever deleted because a database does not know it. A file comes back by itself when the platform is started
    with a database that names it. One that is restored here is its provider's alone to see, until they say otherwise.
    """
    from saibot.errors import InvalidInput
    from saibot.report.format import plural
    from saibot.report.terminal import print_table

    if (restore is None) != (provider is None):
        raise InvalidInput("--restore and --provider go together.", hint="Name the account that published the sketch.")
    settings = read_settings(data=data, database=database, files=files)
    from saibot.platform.service import open_platform

    platform = open_platform(settings, new=False)
    try:
        if restore is not None and provider is not None:
            dataset = platform.restore_set_aside(restore, provider)
            told = f"{shown(dataset.name)} of {provider} is published again as {dataset.id}, to {provider} alone."
            print_json(dataset.to_json()) if json else say(told)
            return
        found = platform.list_set_aside()
    finally:
        platform.close()
    if json:
        print_json({"set_aside": [one.to_json() for one in found]})
        return
    rows = [[one.digest, shown(one.dataset or "–"), f"{one.bytes:,}"] for one in found]
    print_table(f"{plural(len(found), 'file')} set aside", ["digest", "dataset", "bytes"], rows, whole=(0,))
