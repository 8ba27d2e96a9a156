"""`saibot ledger`: budgets and releases of this machine's datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.home import open_ledger
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.format import number
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.privacy.account import LedgerAccount

NOTHING = 1e-6  # less of ε than this is shown as none


def add_to(app: typer.Typer) -> None:
    app.command("ledger")(ledger)


def ledger(
    account: Annotated[str | None, typer.Argument(help="Name of an account, or of a dataset on it. Default: all.")] = None,
    json: JsonOption = False,
) -> None:
    """Show what has been spent on whom and what is left, for every account or for one.

    An account is about individuals. Whatever is released about them, under whatever name, comes out of its one cap.
    """
    from saibot.errors import SaibotError

    book = open_ledger()
    if account is None:
        accounts = book.accounts()
    else:
        found = book.account(account) or book.account(book.account_of(account) or "")
        if found is None:
            raise SaibotError(f"the ledger has no account {account!r}.", hint="`saibot ledger` lists those it has.")
        accounts = [found]
    if json:
        print_json({"accounts": [one.to_json() for one in accounts]})
    elif not accounts:
        say("nothing has been released from this machine yet.")
    elif account is None:
        _show_all(accounts)
    else:
        _show_one(accounts[0])


def _show_all(accounts: list[LedgerAccount]) -> None:
    rows = [
        [a.name, _unit(a), str(a.neighbours), str(a.cap), number(a.spent_epsilon), _left(a), str(len(a.entries))]
        for a in accounts
    ]
    columns = ["account", "protects", "neighbours", "cap", "ε spent", "ε left", "charges"]
    print_table("ledger (ε at the cap's δ)", columns, rows, right=(4, 5, 6))


def _unit(account: LedgerAccount) -> str:
    return "one row" if account.unit is None else f"all rows of one {account.unit}"


def _left(account: LedgerAccount) -> str:
    """What rounding has left over buys nothing, and is nothing to a reader."""
    return number(account.left_epsilon if account.left_epsilon >= NOTHING else 0)


def _show_one(account: LedgerAccount) -> None:
    title = (
        f"{account.name}: {number(account.spent_epsilon)} of {account.cap} spent, "
        f"ε={_left(account)} left, {account.neighbours}, protects {_unit(account)}"
    )
    rows = [
        [
            str(entry.number),
            entry.created,
            entry.dataset + (f" ({entry.share.part} of split {entry.share.split})" if entry.share else ""),
            str(entry.edition),
            str(entry.asked),
            (entry.digest if "coverage" in entry.digest else entry.digest[:12]) if entry.digest else "nothing",
        ]
        for entry in account.entries
    ]
    print_table(title, ["charge", "when (UTC)", "dataset", "edition", "asked", "released"], rows)
    if any(entry.share for entry in account.entries):
        say("Nobody is in two parts of one split: of each split, the part that has cost more counts.")
    if any(entry.digest is None for entry in account.entries):
        say("A charge that released nothing was cut short after it was taken: it stays spent.")
