"""The part of an account's delta that finding keys may take: fixed at the first release, whatever comes after it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from decimal import Decimal

import pytest

from saibot.errors import BudgetExceeded, LedgerConflict
from saibot.privacy import Budget, GaussianEvent, Neighbours
from saibot.privacy.account import Charge
from saibot.privacy.calibration import analytic_mu
from saibot.privacy.events import KeysEvent
from saibot.privacy.ledger import Ledger

CAP = Budget("1", "1e-6")
KEYS = KeysEvent(0.05, 2, Decimal("9.5e-8"))


def charge(*events: KeysEvent | GaussianEvent, unit: str | None = None, **facts: object) -> Charge:
    return replace(
        Charge("a", "a", Neighbours.REPLACE_ONE, unit, CAP, CAP, events, b"rows", repr(events).encode()),
        **facts,  # type: ignore[arg-type]
    )


@pytest.fixture
def ledger(saibot_home) -> Ledger:
    return Ledger(saibot_home)


def test_the_first_release_sets_aside_what_it_takes(ledger: Ledger) -> None:
    ledger.charge(charge(KEYS))
    account = ledger.account("a")
    assert account is not None and account.aside == Decimal("9.5e-8") and account.to_json()["cap"]["keys"] == "9.5e-8"
    assert account.entries[0].events == (KEYS,)
    with pytest.raises(LedgerConflict, match="set aside for finding keys"):
        ledger.charge(charge(KEYS))
    ledger.charge(charge(GaussianEvent(0.05, 4)))


def test_an_account_that_began_without_keys_finds_none(ledger: Ledger) -> None:
    """Otherwise delta could go to keys or to numbers, whichever the first answer makes worse."""
    ledger.charge(charge(GaussianEvent(0.05, 4)))
    with pytest.raises(LedgerConflict, match="0 in all"):
        ledger.charge(charge(KEYS))


def test_a_card_sets_aside_more_for_later(ledger: Ledger) -> None:
    ledger.charge(charge(GaussianEvent(0.05, 4), aside=Decimal("2e-7")))
    ledger.charge(charge(KEYS))
    ledger.charge(charge(KeysEvent(0.05, 2, Decimal("9e-8"))))
    with pytest.raises(LedgerConflict, match="2e-7 in all"):
        ledger.check(charge(KEYS))
    with pytest.raises(LedgerConflict, match="the card says 3e-7"):
        ledger.check(charge(GaussianEvent(0.01, 1), aside=Decimal("3e-7")))


def test_what_is_set_aside_is_spent_whether_keys_are_found_or_not(ledger: Ledger) -> None:
    whole = analytic_mu(CAP, touched=4)
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge(GaussianEvent(whole, 4), aside=Decimal("5e-7")))
    ledger.charge(charge(GaussianEvent(analytic_mu(Budget("0.99999", "5e-7"), touched=4), 4), aside=Decimal("5e-7")))
    account = ledger.account("a")
    assert account is not None and 0.999 < account.spent_epsilon <= 1


def test_charges_that_are_checked_together_share_what_is_set_aside(ledger: Ledger) -> None:
    ledger.check(charge(KEYS), charge(GaussianEvent(0.05, 4)))
    with pytest.raises(LedgerConflict, match="set aside"):
        ledger.check(charge(KEYS), charge(KEYS))
    with pytest.raises(LedgerConflict, match="set aside"):
        ledger.check(charge(GaussianEvent(0.05, 4)), charge(KEYS))


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_keys_found_by_individual_do_not_enter_an_account_of_rows(ledger: Ledger, rows: int) -> None:
    ledger.charge(charge(GaussianEvent(0.05, 4), aside=Decimal("2e-7")))
    with pytest.raises(LedgerConflict, match="single rows"):
        ledger.charge(charge(KEYS, unit="person", rows_per_individual=rows))


def test_a_ledger_of_version_2_goes_on_without_anything_set_aside(ledger: Ledger) -> None:
    ledger.charge(charge(GaussianEvent(0.05, 4)))
    before = ledger.account("a")
    path = ledger.home / "ledger.sqlite"
    with sqlite3.connect(path) as db:  # as version 2 wrote it
        db.execute("ALTER TABLE account DROP COLUMN cap_keys")
        db.execute("ALTER TABLE charge DROP COLUMN once_for")
        db.execute("PRAGMA user_version = 2")
    reopened = Ledger(ledger.home)
    assert reopened.account("a") == before and before is not None and before.aside == 0
    reopened.charge(charge(GaussianEvent(0.05, 4)))
    with pytest.raises(LedgerConflict, match="0 in all"):
        reopened.charge(charge(KEYS))
    with sqlite3.connect(path) as db, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute("UPDATE account SET cap_keys = '1e-7'")
