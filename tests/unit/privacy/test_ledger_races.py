"""The ledger is never overspent: exact sums, processes that race, and processes that are killed half-way."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saibot.errors import BudgetExceeded
from saibot.privacy.account import Charge
from saibot.privacy.budget import Budget
from saibot.privacy.ledger import Ledger
from saibot.privacy.ledger_file import LedgerFile
from tests.support.charges import dump, gaussian, pure
from tests.support.processes import FORK, in_a_process

# ------------------------------------------------------------------------------------------------ never overspent


@settings(max_examples=25)
@given(st.lists(st.decimals("0.01", "0.6", places=2), min_size=1, max_size=12))
def test_charges_are_taken_exactly_as_long_as_their_exact_sum_fits(amounts: list[Decimal]):
    with tempfile.TemporaryDirectory() as folder:
        ledger, spent = Ledger(Path(folder)), Decimal(0)
        for number, amount in enumerate(amounts):
            charge = pure(str(amount), cap=Budget("1"), release=str(number).encode())
            if spent + amount <= 1:
                ledger.charge(charge)
                spent += amount
            else:
                with pytest.raises(BudgetExceeded):
                    ledger.charge(charge)
        account = ledger.account("taxi")
        assert account is not None and sum(e.asked.epsilon for e in account.entries) == spent


def race(make: Callable[[Path], Ledger], home: Path, charge: Charge, *, processes: int = 8) -> int:
    """How many of so many processes, all starting at once, get their charge taken."""
    barrier = FORK.Barrier(processes)

    def run(number: int) -> NoReturn:
        code = 1
        try:
            barrier.wait(60)
            make(home).charge(replace(charge, release=str(number).encode()))
            code = 0
        except BudgetExceeded:
            code = 3
        finally:
            os._exit(code)

    children = [FORK.Process(target=run, args=(number,)) for number in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    codes = [child.exitcode for child in children]
    assert set(codes) <= {0, 3}, codes  # taken or refused, nothing else: no lock error, no crash
    return codes.count(0)


@pytest.mark.fault
@pytest.mark.parametrize("charge", [pure("0.3"), gaussian(parts=3)], ids=["pure", "gaussian"])
def test_processes_that_race_for_a_cap_of_three_get_exactly_three(tmp_path: Path, charge: Charge, full: bool):
    for round_number in range(30 if full else 4):
        home = tmp_path / str(round_number)
        assert race(Ledger, home, charge) == 3
        account = Ledger(home).account("taxi")
        assert account is not None and len(account.entries) == 3 and account.spent_epsilon <= 1


@pytest.mark.fault
def test_the_race_would_catch_a_ledger_that_checks_before_it_locks(tmp_path: Path):
    everybody_has_checked = FORK.Barrier(8)

    class ChecksBeforeItLocks(Ledger):
        """The mistake that the race is there to catch: what is left is read in one transaction and spent in another."""

        def charge(self, charge: Charge) -> Any:
            self.check(charge)
            everybody_has_checked.wait(60)
            self._admit = lambda db, charge: 1  # type: ignore[method-assign,assignment]
            return super().charge(charge)

    assert race(ChecksBeforeItLocks, tmp_path / "home", pure("0.3")) == 8


@pytest.mark.fault
def test_processes_that_open_a_new_ledger_at_once_agree_on_one_secret(tmp_path: Path):
    home, results = tmp_path / "home", FORK.Queue()
    barrier = FORK.Barrier(6)

    def run() -> None:
        barrier.wait(60)
        results.put(Ledger(home).fingerprint([b"rows"]))

    children = [FORK.Process(target=run) for _ in range(6)]
    for child in children:
        child.start()
    prints = {results.get(timeout=60) for _ in children}
    for child in children:
        child.join(60)
    assert len(prints) == 1


# ------------------------------------------------------------------------------------------------ kills


@pytest.mark.fault
def test_a_kill_between_charge_and_receipt_leaves_the_charge_and_the_account_says_so(ledger: Ledger):
    def charge_and_die() -> None:
        ledger.charge(pure("0.6"))
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_process(charge_and_die) == -signal.SIGKILL
    account = ledger.account("taxi")
    assert account is not None
    (release,) = account.to_json()["releases"]
    assert release["digest"] is None and release["state"] == "spent, nothing released"
    assert account.spent_epsilon == pytest.approx(0.6)
    assert ledger.find("taxi", pure("0.6").release) is None  # nothing to hand out again
    with pytest.raises(BudgetExceeded, match=r"ε=0\.4 at"):  # and nothing is refunded
        ledger.charge(pure("0.6"))


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


@pytest.mark.fault
def test_a_kill_in_the_middle_of_a_charge_leaves_a_ledger_that_works_and_holds_all_of_it_or_nothing(ledger: Ledger):
    ledger.charge(pure("0.3"))
    before = dump(ledger)

    def die_at_commit() -> None:
        dying = Ledger(ledger.home)
        dying._file = DiesAtCommit(ledger.home / "ledger.sqlite")
        dying.charge(pure("0.2"))

    assert in_a_process(die_at_commit) == -signal.SIGKILL
    assert dump(ledger) == before
    ledger.charge(pure("0.7"))


def test_an_interrupted_charge_takes_nothing_and_releases_the_lock(ledger: Ledger, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_admit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(pure("0.3"))
    assert ledger.account("taxi") is None
    ledger.charge(pure("1"))
