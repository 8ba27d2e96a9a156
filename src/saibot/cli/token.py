"""`saibot token`: who may come in. An admin says so for everybody; an account makes itself tokens that can do less."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.connection import PlatformOption, at_home, day, open_connection, shown
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.client import Token

ROLES = ("provider", "requester", "admin")


def add_to(app: typer.Typer) -> None:
    help = "Tokens of a platform: make, list and revoke them. An admin for everybody, everybody else for their own account."
    tokens = typer.Typer(help=help, no_args_is_help=True)
    tokens.command("create")(create)
    tokens.command("list")(list_tokens)
    tokens.command("revoke")(revoke)
    app.add_typer(tokens, name="token")


def create(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The account that the token acts for (admin). Left out: yourself. Several tokens may act for one."
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(ROLES[:-1])} or {ROLES[-1]}. Repeatable. For yourself: some of yours; default all."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(help="The day from which on it is refused, YYYY-MM-DD. Default: none; for yourself, when yours is."),
    ] = None,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token: for an account by its name as an admin, or for yourself, which can do and last no more than yours.

    Its text is shown now and never again: the platform keeps only a hash. One for yourself ends with the one you made it
    with: for a program or a machine that should not hold all that you may do.
    """
    from saibot.errors import InvalidInput

    if name is not None and not role:
        raise InvalidInput(f"it is not said what {name} may do.", hint="Say --role provider, requester or admin.")
    wrong = next((one for one in role or () if one not in ROLES), None)
    if wrong is not None:
        raise InvalidInput(f"a role is {', '.join(ROLES[:-1])} or {ROLES[-1]}, not {wrong!r}.")
    if name is not None and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}", name) is None:
        raise InvalidInput(
            f"an account cannot be called {name!r}.",
            hint="Up to 100 letters, digits and . _ @ - make a name; the first is a letter or a digit.",
        )
    if expires is not None and re.fullmatch(r"\d{4}-\d{2}-\d{2}", expires) is None:
        raise InvalidInput(f"--expires is a day, YYYY-MM-DD, not {expires!r}.", hint="Leave it out for a token that stays.")
    with open_connection(platform) as opened:
        made = opened.create_token(name, list(dict.fromkeys(role)) if role else None, expires=expires)
    if json:
        print_json(made.model_dump(mode="json"))
        return
    say(f"token {made.id} for {made.name} ({', '.join(made.roles)}), shown this once:", err=True)
    say(made.token)
    if name is None:
        say("It acts for you, and ends with the token that you use now.", err=True)
        say(f"To end it sooner: saibot token revoke {made.id}", err=True)
        return
    address = "ADDRESS, as they reach this platform" if at_home(opened.url) else opened.url
    say(f"They type: saibot login {address}", err=True)


def list_tokens(
    mine: Annotated[bool, typer.Option("--mine", help="Only those of your own account.")] = False,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """List the tokens of your account, or as an admin all, without their texts."""
    with open_connection(platform) as opened:
        found = list(opened.tokens(mine=mine))
    if json:
        print_json({"tokens": [token.model_dump(mode="json") for token in found]})
        return
    rows = [
        [
            token.id,
            shown(token.name),
            ", ".join(token.roles),
            day(token.created),
            day(token.last_used),
            shown(token.made_with or ""),
            _state(token),
        ]
        for token in found
    ]
    with_others = any(token.made_with for token in found)  # else the column says nothing
    heads = ["id", "account", "roles", "made", "last used", "made with", "state"]
    kept = [number for number, head in enumerate(heads) if head != "made with" or with_others]
    print_table("tokens", [heads[at] for at in kept], [[row[at] for at in kept] for row in rows], whole=(0,))


def _state(token: Token) -> str:
    """Whether it opens anything, and until when. The day of its end, in UTC, is the first on which it does not."""
    if token.revoked:
        return f"revoked {day(token.revoked)}"
    if token.expires:
        today = datetime.now(UTC).date().isoformat()
        return f"{'expired' if day(token.expires) <= today else 'until'} {day(token.expires)}"
    return "valid"


def revoke(
    id: Annotated[str, typer.Argument(help="The token's id, as `saibot token list` shows it.")],
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """End a token at once, and those that were made with it. What its account has published stays.

    A token that was made with another ends itself and those, and no others of your account.
    """
    with open_connection(platform) as opened:
        opened.revoke_token(id)
    if json:
        print_json({"revoked": id})
    else:
        say(f"revoked {id}")
