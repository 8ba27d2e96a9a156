"""The ledger is never overspent: exact sums, processes that race, and processes that are killed half-way."""

from __future__ import annotations

import signal
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saibot.errors import BudgetExceeded
from saibot.privacy.account import Charge
from saibot.privacy.budget import Budget
from saibot.privacy.ledger import Ledger
from tests.support.charges import dump, gaussian, pure
from tests.support.ledger_workers import (
    REFUSED,
    ChecksBeforeItLocks,
    charge_and_die,
    charge_at_once,
    die_at_commit,
    fingerprint_at_once,
    open_accounts,
)
from tests.support.processes import CONTEXT, at_once, in_a_process

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
    start = CONTEXT.Barrier(processes)
    codes = at_once(charge_at_once, [(start, make, home, charge, number) for number in range(processes)])
    assert set(codes) <= {0, REFUSED}, codes  # taken or refused, nothing else: no lock error, no crash
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
    careless = partial(ChecksBeforeItLocks, everybody_has_checked=CONTEXT.Barrier(8))
    assert race(careless, tmp_path / "home", pure("0.3")) == 8


@pytest.mark.fault
def test_processes_that_open_a_new_ledger_at_once_agree_on_one_secret(tmp_path: Path):
    answers, start = [tmp_path / str(number) for number in range(6)], CONTEXT.Barrier(6)
    assert at_once(fingerprint_at_once, [(start, tmp_path / "home", answer) for answer in answers]) == [0] * 6
    assert len({answer.read_bytes() for answer in answers}) == 1


@pytest.mark.fault
def test_a_thread_inside_sqlite_does_not_hold_up_processes_that_are_started_meanwhile(tmp_path: Path):
    """Forked from here, one of ten used to inherit SQLite's locked mutex, and to wait for it for ever."""
    stop = threading.Event()

    def keep_sqlite_busy() -> None:
        while not stop.is_set():
            with closing(sqlite3.connect(tmp_path / "busy.sqlite")) as db:
                db.execute("CREATE TABLE IF NOT EXISTS t (a)")

    threads = [threading.Thread(target=keep_sqlite_busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        homes = [tmp_path / f"home{number}" for number in range(20)]
        assert at_once(open_accounts, [(home,) for home in homes]) == [0] * 20
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# ------------------------------------------------------------------------------------------------ kills


@pytest.mark.fault
def test_a_kill_between_charge_and_receipt_leaves_the_charge_and_the_account_says_so(ledger: Ledger):
    assert in_a_process(charge_and_die, ledger.home) == -signal.SIGKILL
    account = ledger.account("taxi")
    assert account is not None
    (release,) = account.to_json()["releases"]
    assert release["digest"] is None and release["state"] == "spent, nothing released"
    assert account.spent_epsilon == pytest.approx(0.6)
    assert ledger.find("taxi", pure("0.6").release) is None  # nothing to hand out again
    with pytest.raises(BudgetExceeded, match=r"ε=0\.4 at"):  # and nothing is refunded
        ledger.charge(pure("0.6"))


@pytest.mark.fault
def test_a_kill_in_the_middle_of_a_charge_leaves_a_ledger_that_works_and_holds_all_of_it_or_nothing(ledger: Ledger):
    ledger.charge(pure("0.3"))
    before = dump(ledger)
    assert in_a_process(die_at_commit, ledger.home) == -signal.SIGKILL
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
