"""`saibot ledger`: budgets and releases of this machine's datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.home import open_ledger
from saibot.cli.show import JsonOption, number, print_json, print_table

if TYPE_CHECKING:
    from saibot.privacy.account import Account

NOTHING = 1e-6  # less of ε than this is shown as none


def add_to(app: typer.Typer) -> None:
    app.command("ledger")(ledger)


def ledger(
    dataset: Annotated[str | None, typer.Argument(help="Name of one dataset. Default: all of them.")] = None,
    json: JsonOption = False,
) -> None:
    """Show what has been spent and what is left, for every dataset or for one."""
    from saibot.errors import SaibotError

    book = open_ledger()
    if dataset is None:
        accounts = book.accounts()
    else:
        account = book.account(dataset)
        if account is None:
            raise SaibotError(f"the ledger has no dataset {dataset!r}.", hint="`saibot ledger` lists those it has.")
        accounts = [account]
    if json:
        print_json({"datasets": [account.to_json() for account in accounts]})
    elif not accounts:
        typer.echo("nothing has been released from this machine yet.")
    elif dataset is None:
        _show_all(accounts)
    else:
        _show_one(accounts[0])


def _show_all(accounts: list[Account]) -> None:
    rows = [
        [a.dataset, str(a.neighbours), str(a.cap), number(a.spent_epsilon), _left(a), str(len(a.entries))] for a in accounts
    ]
    columns = ["dataset", "neighbours", "cap", "ε spent", "ε left", "charges"]
    print_table("ledger (ε at the cap's δ)", columns, rows, right=(3, 4, 5))


def _left(account: Account) -> str:
    """What rounding has left over buys nothing, and is nothing to a reader."""
    return number(account.left_epsilon if account.left_epsilon >= NOTHING else 0)


def _show_one(account: Account) -> None:
    title = (
        f"{account.dataset}: {number(account.spent_epsilon)} of {account.cap} spent, "
        f"ε={_left(account)} left, {account.neighbours}"
    )
    rows = [
        [
            str(entry.number),
            entry.created,
            str(entry.edition),
            str(entry.asked),
            entry.digest[:12] if entry.digest else "nothing",
        ]
        for entry in account.entries
    ]
    print_table(title, ["charge", "when (UTC)", "edition", "asked", "released"], rows)
    if any(entry.digest is None for entry in account.entries):
        typer.echo("A charge that released nothing was cut short after it was taken: it stays spent.")
