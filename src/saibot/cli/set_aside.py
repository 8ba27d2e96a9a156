"""`saibot aside`: sketches and key domains in a platform's file store that its database does not know."""

from __future__ import annotations

from typing import Annotated

import typer

from saibot.cli.connection import shown
from saibot.cli.serve import DatabaseOption, DataOption, FilesOption, read_settings
from saibot.cli.show import JsonOption, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command("aside")(set_aside)


def set_aside(
    restore: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Publish this sketch, or register this key domain, again.")
    ] = None,
    provider: Annotated[str | None, typer.Option(help="The account that it is of.")] = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    files: FilesOption = None,
    json: JsonOption = False,
) -> None:
    """List the files that a start found without a row in the database, or publish one again. The platform must be stopped.

    Nothing is ever deleted because a database does not know it. A file comes back by itself when the platform is started
    with a database that names it. A sketch that is restored here is its provider's alone to see, until they say otherwise.
    Of a sketch and the key domain that it names, restore the domain first.
    """
    from saibot.errors import InvalidInput
    from saibot.report.format import plural
    from saibot.report.terminal import print_table

    if (restore is None) != (provider is None):
        raise InvalidInput(
            "--restore and --provider go together.",
            hint="Name the account that published the sketch, or registered the keys.",
        )
    settings = read_settings(data=data, database=database, files=files)
    from saibot.platform.service import open_platform
    from saibot.wire import Dataset

    platform = open_platform(settings, new=False)
    try:
        if restore is not None and provider is not None:
            found = platform.restore_set_aside(restore, provider)
            if isinstance(found, Dataset):
                told = f"{shown(found.name)} of {provider} is published again as {found.id}, to {provider} alone."
            else:
                told = f"the key domain {shown(found.id)} version {found.version} is registered again, by {provider}."
            print_json(found.to_json()) if json else say(told)
            return
        listed = platform.list_set_aside()
    finally:
        platform.close()
    if json:
        print_json({"set_aside": [one.to_json() for one in listed]})
        return
    rows = [[one.digest, shown(one.dataset or one.domain or "–"), f"{one.bytes:,}"] for one in listed]
    print_table(f"{plural(len(listed), 'file')} set aside", ["digest", "dataset or key domain", "bytes"], rows, whole=(0,))
