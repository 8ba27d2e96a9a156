"""`saibot backup` and `saibot restore`: everything a platform keeps, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.serve import DatabaseOption, DataOption, FilesOption, read_settings
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.format import plural

if TYPE_CHECKING:
    from saibot.platform.backup import BackedUp


def add_to(app: typer.Typer) -> None:
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write the backup, a tar file. Keep it as safe as the platform.")],
    data: DataOption = None,
    database: DatabaseOption = None,
    files: FilesOption = None,
    json: JsonOption = False,
) -> None:
    """Write everything that a platform keeps into FILE; it may be running. Searches and their results are not in it."""
    settings = read_settings(data=data, database=database, files=files)
    from saibot.platform.backup import backup as write

    done = write(settings, file)
    if json:
        print_json(done.to_json() | {"file": str(file)})
    else:
        say(f"wrote {file}: {_told(done)}")
        say("Tokens are in it as hashes only: they open the restored platform as they do this one.")


def restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    data: DataOption = None,
    database: DatabaseOption = None,
    files: FilesOption = None,
    json: JsonOption = False,
) -> None:
    """Fill a new, empty platform from FILE. Folder, database and file store may be of another kind than they were."""
    from saibot.errors import InvalidInput

    if not file.is_file():
        raise InvalidInput(f"there is no backup {file}.", hint="`saibot backup FILE` writes one.")
    settings = read_settings(data=data, database=database, files=files)
    from saibot.platform.backup import restore as read

    done = read(settings, file)
    if json:
        print_json(done.to_json() | {"data": str(settings.data)})
    else:
        say(f"restored {_told(done)}")
        say("next: `saibot serve` with the same options. Tokens open it as before, the admin's too: keep that file.")


def _told(done: BackedUp) -> str:
    counts = [(done.datasets, "dataset"), (done.domains, "key domain"), (done.tokens, "token")]
    return ", ".join(plural(count, thing) for count, thing in counts)
