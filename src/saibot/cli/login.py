"""`saibot login` and `saibot logout`: which platform to speak to, and the token that opens it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.connection import at_home
from saibot.cli.show import JsonOption, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command("login")(login)
    app.command("logout")(logout)


def login(
    address: Annotated[str, typer.Argument(help="The platform's address, such as https://saibot.example.org")],
    token_file: Annotated[
        Path | None,
        typer.Option(help="File that holds the token. Default: SAIBOT_TOKEN, or it is asked for, or read from a pipe."),
    ] = None,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="No token: what is public can be read.")] = False,
    json: JsonOption = False,
) -> None:
    """Make ADDRESS the platform of later commands. The token is tried, then kept in a file that only you can read."""
    from saibot.client import Config, Platform
    from saibot.client.transport import checked_url

    url = checked_url(address)
    token = None if anonymous else _token(token_file)
    with Platform(url, token) as platform:
        account = None if token is None else platform.me()
        if account is None:
            platform.healthy()
    path = Config.read().logged_in(url, token).write()
    key = _signing_key() if account is not None and "provider" in account.roles else None
    if json:
        print_json({
            "platform": url,
            "name": account.name if account else None,
            "roles": list(account.roles) if account else [],
            "config": str(path),
            "key": key,
        })  # fmt: skip
        return
    who = f"as {account.name} ({', '.join(account.roles)})" if account else "without a token"
    say(f"logged in to {url} {who}; kept in {path}")
    if key is not None:
        say(f"what you publish is signed with the key {key}: `saibot key show`")
    if token is not None and url.startswith("http://") and not at_home(url):
        say("note: this address is not encrypted: on the way there, others can read the token. Prefer https.")


def logout(
    address: Annotated[str | None, typer.Argument(help="Default: the platform of later commands.")] = None,
    json: JsonOption = False,
) -> None:
    """Forget a platform's token on this machine. The token itself stays valid until an admin revokes it."""
    from saibot.client import Config
    from saibot.errors import InvalidInput

    config = Config.read()
    url = address or config.platform
    if url is None:
        raise InvalidInput("you are logged in nowhere.")
    path = config.logged_out(url).write()
    if json:
        print_json({"platform": url, "config": str(path)})
    else:
        say(f"forgot the token for {url}")


def _signing_key() -> str | None:
    """The fingerprint of the key that a provider signs with, made now; none where the extra that publishes is missing."""
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:  # it is made at the first `saibot publish`
        return None
    from saibot.client import SigningKeys

    return SigningKeys().current().public.fingerprint


def _token(file: Path | None) -> str:
    """Never from the command line, where other users of the machine could see it."""
    from saibot.errors import InvalidInput

    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            hint = "It is a text file with a token in it, which the platform's admin gives out."
            raise InvalidInput(f"the token file {file} cannot be read.", hint=hint) from None
    elif os.environ.get("SAIBOT_TOKEN"):
        text = os.environ["SAIBOT_TOKEN"]
    elif sys.stdin.isatty():
        text = typer.prompt("token", hide_input=True, err=True)
    else:
        text = sys.stdin.readline()
    if not text.strip():
        raise InvalidInput(
            "no token was given.", hint="The platform's admin makes one: `saibot token create NAME --role ROLE`."
        )
    return str(text).strip()
