"""A ledger that version 0.1 wrote goes on: nothing is lost, and parts of a request come to the account of the whole."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path

import pytest

from saibot.errors import BudgetExceeded, LedgerConflict
from saibot.privacy.account import Charge
from saibot.privacy.budget import Budget
from saibot.privacy.events import PureEvent
from saibot.privacy.ledger import Ledger
from saibot.privacy.neighbours import Neighbours
from tests.support.ledger_workers import die_while_moving, open_accounts
from tests.support.processes import at_once, in_a_process

SCHEMA = """
CREATE TABLE secret (id INTEGER PRIMARY KEY CHECK (id = 1), hash_key BLOB NOT NULL);
CREATE TABLE dataset (name TEXT PRIMARY KEY, neighbours TEXT NOT NULL, cap_epsilon TEXT NOT NULL, cap_delta TEXT NOT NULL,
    created TEXT NOT NULL);
CREATE TABLE charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL REFERENCES dataset(name), edition INTEGER NOT NULL,
    source BLOB NOT NULL, release BLOB NOT NULL, asked TEXT NOT NULL, events TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE receipt (charge INTEGER PRIMARY KEY REFERENCES charge(id), digest TEXT NOT NULL, created TEXT NOT NULL);
CREATE INDEX charge_by_dataset ON charge(dataset);
CREATE TRIGGER charge_no_update BEFORE UPDATE ON charge BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER charge_no_delete BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dataset_no_replace BEFORE INSERT ON dataset WHEN EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name)
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
PRAGMA user_version = 1;
"""
SPENT = [("stays", "0.5"), ("stays-train", "0.75"), ("stays-test", "0.25"), ("lone-test", "0.5"), ("odd-train", "1")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The ledger of a provider who released a table, both parts of it, a test part alone, and one under another relation."""
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        db.executescript(SCHEMA)
        db.execute("INSERT INTO secret VALUES (1, x'0102')")
        for name, _ in (*SPENT, ("odd", "0")):
            relation = "add-remove" if name == "odd" else "replace-one"
            db.execute("INSERT INTO dataset VALUES (?, ?, '1', '1e-6', '2026-01-01')", (name, relation))
        for number, (name, epsilon) in enumerate(SPENT, start=1):
            asked, events = {"epsilon": epsilon, "delta": "0"}, [{"kind": "pure", "epsilon": epsilon}]
            db.execute(
                "INSERT INTO charge VALUES (?, ?, 1, ?, x'01', ?, ?, '2026-01-02')",
                (number, name, name.encode(), json.dumps(asked), json.dumps(events)),
            )
            db.execute("INSERT INTO receipt VALUES (?, ?, '2026-01-02')", (number, f"{number:064x}"))
    return tmp_path


def charge(dataset: str, epsilon: str, account: str | None = None) -> Charge:
    budget = Budget(epsilon)
    events = (PureEvent(budget.epsilon),)
    return Charge(account or dataset, dataset, Neighbours.REPLACE_ONE, None, None, budget, events, b"rows", b"new")


def test_nothing_is_lost_and_parts_add_to_the_whole(home: Path) -> None:
    ledger = Ledger(home)
    accounts = {account.name: account for account in ledger.accounts()}
    assert {name: account.spent_epsilon for name, account in accounts.items()} == pytest.approx(
        {"stays": 1.5, "lone": 0.5, "odd": 0.0, "odd-train": 1.0}
    )
    assert [entry.digest for account in accounts.values() for entry in account.entries if account.name == "stays"] == [
        f"{number:064x}" for number in (1, 2, 3)
    ]
    assert accounts["stays"].cap == Budget("1", "1e-6") and accounts["stays"].unit is None
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge("stays", "0.01"))
    with pytest.raises(LedgerConflict, match="account 'stays'"):
        ledger.charge(charge("stays-train", "0.1"))
    assert ledger.charge(charge("lone-test", "0.25", "lone")).number == 6
    assert Ledger(home).secret("a") == ledger.secret("a")


def test_the_old_records_stay_in_the_file(home: Path) -> None:
    Ledger(home).accounts()
    with sqlite3.connect(home / "ledger.sqlite") as db:
        assert db.execute("SELECT count(*) FROM charge_1").fetchone() == (len(SPENT),)
        assert db.execute("SELECT count(*) FROM dataset_1").fetchone() == (len(SPENT) + 1,)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute("DELETE FROM charge")


@pytest.mark.fault
def test_a_kill_half_way_leaves_the_old_ledger_whole(home: Path) -> None:
    assert in_a_process(die_while_moving, home) == -signal.SIGKILL
    assert sum(len(account.entries) for account in Ledger(home).accounts()) == len(SPENT)


def test_two_processes_that_open_it_at_once_bring_it_up_to_date_once(home: Path) -> None:
    assert at_once(open_accounts, [(home,)] * 4) == [0] * 4
    assert sum(len(account.entries) for account in Ledger(home).accounts()) == len(SPENT)
