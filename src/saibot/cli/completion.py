"""`saibot completion`: what teaches a shell the commands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, print_json


def add_to(app: typer.Typer) -> None:
    app.command("completion")(completion)


class Shell(StrEnum):
    """A shell that can be taught."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="Whose script is printed.")],
    json: JsonOption = False,
) -> None:
    """Print the script by which a shell completes commands, options and names on the TAB key.

    For this shell alone: `source <(saibot completion bash)`, likewise in zsh; `saibot completion fish | source` in fish.
    `saibot --install-completion` does it for every new shell of the kind that it is typed in.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not exported, and nothing else is

    script = get_completion_script(prog_name="saibot", complete_var="_SAIBOT_COMPLETE", shell=shell)
    if json:
        print_json({"shell": shell, "script": script})
        return
    typer.echo(script)
