"""What processes do to a ledger in tests of races, kills and bad folders."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

from saibot.errors import BudgetExceeded, SaibotError
from saibot.privacy.account import Charge
from saibot.privacy.ledger import Ledger
from saibot.privacy.ledger_file import LedgerFile
from tests.support.charges import pure

REFUSED = 3  # the exit code of a process whose charge was refused


def charge_at_once(start: Barrier, make: Callable[[Path], Ledger], home: Path, charge: Charge, number: int) -> None:
    start.wait(60)
    try:
        make(home).charge(replace(charge, release=str(number).encode()))
    except BudgetExceeded:
        sys.exit(REFUSED)


class ChecksBeforeItLocks(Ledger):
    """The mistake that races are there to catch: what is left is read in one transaction and spent in another."""

    def __init__(self, home: Path, *, everybody_has_checked: Barrier) -> None:
        super().__init__(home)
        self._everybody_has_checked = everybody_has_checked

    def charge(self, charge: Charge) -> Any:
        self.check(charge)
        self._everybody_has_checked.wait(60)
        self._admit = lambda db, charge: 1  # type: ignore[method-assign,assignment]
        return super().charge(charge)


def fingerprint_at_once(start: Barrier, home: Path, answer: Path) -> None:
    start.wait(60)
    answer.write_bytes(Ledger(home).fingerprint([b"rows"]))


def open_accounts(home: Path) -> None:
    Ledger(home).accounts()


def charge_and_die(home: Path) -> None:
    Ledger(home).charge(pure("0.6"))
    os.kill(os.getpid(), signal.SIGKILL)


class DiesAtCommit(LedgerFile):
    def _connect(self) -> Any:
        connection = super()._connect()

        class Dying:
            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

            def execute(self, statement: str, *values: Any) -> Any:
                if statement == "COMMIT":
                    os.kill(os.getpid(), signal.SIGKILL)
                return connection.execute(statement, *values)

        return Dying()


def die_at_commit(home: Path) -> None:
    ledger = Ledger(home)
    ledger._file = DiesAtCommit(home / "ledger.sqlite")
    ledger.charge(pure("0.2"))


def die_while_moving(home: Path) -> None:
    """Killed when the tables of version 1 are renamed and their charges not yet moved."""

    class Killed(sqlite3.Connection):
        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:  # type: ignore[override]
            if "INSERT INTO charge" in statement:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().execute(statement, *values)

    real = sqlite3.connect
    sqlite3.connect = lambda *a, **k: real(*a, factory=Killed, **k)  # type: ignore[assignment]
    Ledger(home).accounts()


def charge_as_nobody(home: Path, said: Path) -> None:
    """A charge by a user who may not write; what the error says goes into a file. Root becomes nobody for it."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        Ledger(home).charge(pure("0.2"))
    except SaibotError as error:
        said.write_text(str(error))
