"""The ledger: charge first, refuse without a trace, never overspend, and survive races, kills and bad folders."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import signal
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saibot.errors import BudgetExceeded, InvalidInput, LedgerConflict, SaibotError
from saibot.privacy.account import MOST_COMBINATIONS, Charge, Share, epsilon_of
from saibot.privacy.budget import Budget
from saibot.privacy.calibration import analytic_mu
from saibot.privacy.events import GaussianEvent, PureEvent, Spent
from saibot.privacy.ledger import Ledger
from saibot.privacy.ledger_file import LedgerFile
from saibot.privacy.neighbours import Neighbours

CAP = Budget("1", "1e-6")
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "home")


def pure(epsilon: str, **other: Any) -> Charge:
    """A charge of so much epsilon against the cap, each for a release of its own unless said otherwise."""
    facts: dict[str, Any] = {
        "account": other.get("dataset", "taxi"),
        "dataset": "taxi",
        "neighbours": Neighbours.REPLACE_ONE,
        "unit": None,
        "cap": CAP,
        "asked": Budget(epsilon),
        "events": (PureEvent(Decimal(epsilon)),),
        "source": b"rows",
        "release": b"release " + epsilon.encode(),
    }
    return Charge(**(facts | other))


def gaussian(parts: int) -> Charge:
    """One of so many equal parts of the whole cap."""
    event = GaussianEvent(analytic_mu(CAP, touched=12 * parts) / parts**0.5, 12)
    return pure("0.5", asked=CAP, events=(event,))


def dump(ledger: Ledger) -> list[str]:
    """Everything that is in the ledger's file."""
    with sqlite3.connect(ledger.home / "ledger.sqlite") as db:
        return list(db.iterdump())


def in_a_process(work: Callable[[], None]) -> int:
    """Run in a forked process; its exit code, or minus the signal that ended it."""

    def run() -> NoReturn:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)

    child = FORK.Process(target=run)
    child.start()
    child.join(60)
    assert child.exitcode is not None
    return child.exitcode


# ------------------------------------------------------------------------------------------------ charge and receipt


def test_a_charge_is_on_disk_before_anything_is_released(ledger: Ledger):
    entry = ledger.charge(pure("0.3"))
    assert entry.digest is None and entry.number == 1
    account = Ledger(ledger.home).account("taxi")  # as another process would see it
    assert account is not None
    assert [e.asked for e in account.entries] == [Budget("0.3")]
    assert account.spent_epsilon == pytest.approx(0.3) and account.left_epsilon == pytest.approx(0.7)


def test_a_receipt_says_what_a_charge_bought(ledger: Ledger):
    first, second = ledger.charge(pure("0.3")), ledger.charge(pure("0.2"))
    ledger.receipt(second, "b" * 64)
    account = ledger.account("taxi")
    assert account is not None
    assert [e.digest for e in account.entries] == [None, "b" * 64]
    states = [release["state"] for release in account.to_json()["releases"]]
    assert states == ["spent, nothing released", "released"]
    assert first.number < second.number


def test_a_charge_has_one_receipt_and_a_receipt_needs_a_charge(ledger: Ledger):
    entry = ledger.charge(pure("0.3"))
    ledger.receipt(entry, "a" * 64)
    with pytest.raises(sqlite3.IntegrityError):
        ledger.receipt(entry, "b" * 64)
    with pytest.raises(sqlite3.IntegrityError):
        ledger.receipt(replace(entry, number=99), "b" * 64)
    assert ledger.account("taxi").entries[0].digest == "a" * 64  # type: ignore[union-attr]


def test_events_come_back_bit_by_bit(ledger: Ledger):
    events = (PureEvent(Decimal("0.1")), GaussianEvent(0.1234567890123456, 17, 8192))
    ledger.charge(pure("0.5", events=events))
    assert ledger.account("taxi").entries[0].events == events  # type: ignore[union-attr]


def test_datasets_are_accounted_for_apart(ledger: Ledger):
    ledger.charge(pure("0.9"))
    ledger.charge(pure("0.9", dataset="bikes", cap=Budget("2"), source=b"rows of bikes"))
    assert [(a.name, a.cap) for a in ledger.accounts()] == [("bikes", Budget("2")), ("taxi", CAP)]
    assert ledger.account("trains") is None


# ------------------------------------------------------------------------------------------------ refusals


def test_a_charge_beyond_the_cap_is_refused_with_what_was_asked_what_is_left_and_what_to_do(ledger: Ledger):
    ledger.charge(pure("0.9"))
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(pure("0.2", asked=Budget("0.2", "1e-7")))
    error = refusal.value
    assert (error.dataset, error.asked, error.left, error.cap) == ("taxi", "ε=0.2, δ=1e-7", "ε=0.1 at δ=1e-6", "ε=1, δ=1e-6")
    assert str(error) == (
        "Releasing 'taxi' asks for ε=0.2, δ=1e-7, but ε=0.1 at δ=1e-6 is left of its cap ε=1, δ=1e-6. "
        "Lower --epsilon, or see `saibot ledger taxi`."
    )


@pytest.mark.parametrize(
    "spent, left", [("0.7", "0.3"), ("0.0001", "0.9999"), ("0.00001", "0.9999"), ("0.99999", "0"), ("1", "0")]
)
def test_what_is_said_to_be_left_is_never_more_than_there_is(ledger: Ledger, spent: str, left: str):
    ledger.charge(pure(spent))
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(pure("5"))
    assert refusal.value.left == f"ε={left} at δ=1e-6"


def test_what_is_left_for_a_gaussian_release_can_be_spent_to_the_last_digit_shown(ledger: Ledger):
    ledger.charge(gaussian(parts=3))
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(gaussian(parts=1))
    left = refusal.value.left.removeprefix("ε=").split(" ")[0]
    assert 0.3 < float(left) < 0.6  # a third of mu^2 leaves less than two thirds of epsilon
    rest = Budget(left, "1e-6")
    ledger.charge(pure("0.5", asked=rest, events=(GaussianEvent(analytic_mu(rest, touched=24), 12),)))


def test_laplace_noise_after_gaussian_noise_is_refused_with_what_is_left_for_it(ledger: Ledger):
    """Whoever has seen Gaussian answers may not choose what suits them better by adding epsilons."""
    ledger.charge(gaussian(parts=3))
    with pytest.raises(BudgetExceeded, match="beside Gaussian noise is left") as refusal:
        ledger.charge(pure("0.4"))
    left = refusal.value.left.removeprefix("ε=").split(" ")[0]
    assert 0.1 < float(left) < 0.2
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure(str(Decimal(left) + Decimal("0.0002"))))
    ledger.charge(pure(left))
    account = ledger.account("taxi")
    assert account is not None and 0.999 < account.spent_epsilon <= 1


def test_gaussian_noise_after_laplace_noise_adds_up_as_long_as_no_more_of_that_follows(ledger: Ledger):
    """A first release that is pure and large is known before any answer: the rest is the Gaussian's."""
    ledger.charge(pure("0.5"))
    rest = GaussianEvent(analytic_mu(Budget("0.5", "1e-6"), touched=24) / 2**0.5, 12)
    ledger.charge(pure("0.5", events=(rest,), release=b"first half"))
    with pytest.raises(BudgetExceeded, match="beside Gaussian noise"):
        ledger.charge(pure("0.01"))
    ledger.charge(pure("0.5", events=(rest,), release=b"second half"))
    account = ledger.account("taxi")
    assert account is not None and account.left_epsilon < 1e-4


def refused_charges() -> list[tuple[Charge, type[SaibotError]]]:
    return [
        (pure("0.8"), BudgetExceeded),
        (gaussian(parts=1), BudgetExceeded),
        (pure("0.1", neighbours=Neighbours.ADD_REMOVE), LedgerConflict),
        (pure("0.1", cap=Budget("2", "1e-6")), LedgerConflict),
        (pure("0.8", source=b"other rows", new_version=True), BudgetExceeded),
        (pure("0.1", account="bikes"), LedgerConflict),
    ]


@pytest.mark.parametrize("charge, error", refused_charges())
def test_a_refused_charge_changes_nothing(ledger: Ledger, charge: Charge, error: type[SaibotError]):
    ledger.receipt(ledger.charge(pure("0.5")), "a" * 64)
    before = dump(ledger)
    with pytest.raises(error):
        ledger.charge(charge)
    with pytest.raises(error):
        ledger.check(charge)
    assert dump(ledger) == before


def test_a_first_charge_that_is_refused_leaves_no_dataset_behind(ledger: Ledger):
    with pytest.raises(BudgetExceeded, match="ε=1 at δ=1e-6 is left"):
        ledger.charge(pure("1.5"))
    assert ledger.account("taxi") is None and ledger.accounts() == []
    ledger.charge(pure("1.5", cap=Budget("2")))  # so that the cap is still free to be fixed


def test_a_check_takes_nothing(ledger: Ledger):
    for _ in range(5):
        ledger.check(pure("0.9"))
    assert ledger.account("taxi") is None


def test_a_pure_cap_refuses_gaussian_noise(ledger: Ledger):
    with pytest.raises(BudgetExceeded, match="δ=0"):
        ledger.charge(pure("1", cap=Budget("10"), events=(GaussianEvent(0.001, 1),)))


# ------------------------------------------------------------------------------------------------ terms


def test_without_a_cap_the_first_release_is_the_cap(ledger: Ledger):
    ledger.charge(pure("0.4", cap=None))
    assert ledger.account("taxi").cap == Budget("0.4")  # type: ignore[union-attr]
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure("0.1", cap=None))


def test_the_cap_is_fixed_at_first_use(ledger: Ledger):
    ledger.charge(pure("0.4"))
    for other in (Budget("2", "1e-6"), Budget("1", "1e-5"), Budget("0.5", "1e-6")):
        with pytest.raises(LedgerConflict, match=r"cap ε=1, δ=1e-6, fixed at its first release.*Write the ledger's cap"):
            ledger.charge(pure("0.1", cap=other))
    ledger.charge(pure("0.1", cap=Budget("1.0", "0.0000010")))  # the same cap, spelled otherwise
    ledger.charge(pure("0.2", cap=None))  # a card that names none goes by the ledger's


def test_the_neighbouring_relation_is_fixed_at_first_use(ledger: Ledger):
    ledger.charge(pure("0.4"))
    with pytest.raises(LedgerConflict, match="kept under replace-one; a release under add-remove would not add up"):
        ledger.charge(pure("0.1", neighbours=Neighbours.ADD_REMOVE))


def test_whether_rows_have_changed_decides_nothing_but_what_the_provider_is_told(ledger: Ledger):
    """Neighbouring histories, one in which a row has changed and one in which none has, get the same answers."""
    entries = [ledger.charge(pure("0.1")), ledger.charge(pure("0.2")), ledger.charge(pure("0.3", new_version=True))]
    other = Ledger(ledger.home.with_name("other"))
    rows = iter([b"rows", b"rows of May", b"rows of May"])
    changed = [
        other.charge(pure("0.1", source=next(rows))),
        other.charge(pure("0.2", source=next(rows))),
        other.charge(pure("0.3", source=next(rows), new_version=True)),
    ]
    assert [replace(e, created="") for e in entries] == [replace(e, created="") for e in changed]
    assert [entry.edition for entry in entries] == [1, 1, 2]
    assert not ledger.changed(b"rows", dataset="taxi") and other.changed(b"rows", dataset="taxi")
    assert not other.changed(b"rows", dataset="taxi", entry=changed[0])


def test_every_new_version_counts_and_is_charged(ledger: Ledger):
    assert [ledger.charge(pure("0.3", new_version=True)).edition for _ in range(3)] == [1, 2, 3]
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure("0.2", new_version=True))
    assert ledger.charge(pure("0.1")).edition == 3


# ------------------------------------------------------------------------------------------------ individuals


def test_datasets_on_one_account_share_its_cap(ledger: Ledger):
    ledger.charge(pure("0.7", dataset="taxi-by-day", account="drivers"))
    with pytest.raises(BudgetExceeded, match=r"left of the cap of the account 'drivers', .*saibot ledger drivers"):
        ledger.charge(pure("0.4", dataset="taxi-by-zone", account="drivers"))
    ledger.charge(pure("0.3", dataset="taxi-by-zone", account="drivers"))
    assert [account.name for account in ledger.accounts()] == ["drivers"]
    assert ledger.account_of("taxi-by-zone") == "drivers" and ledger.account_of("bikes") is None


def test_a_dataset_cannot_leave_its_account_for_a_fresh_cap(ledger: Ledger):
    ledger.charge(pure("1"))
    with pytest.raises(LedgerConflict, match="is on the account 'taxi'"):
        ledger.charge(pure("1", account="somebody-else"))


def test_of_a_split_the_part_that_cost_more_counts(ledger: Ledger):
    train, test = Share("s1", "train"), Share("s1", "test")
    ledger.charge(pure("0.6", share=train))
    ledger.charge(pure("1", share=test, release=b"test"))
    account = ledger.account("taxi")
    assert account is not None and account.spent_epsilon == pytest.approx(1)
    ledger.charge(pure("0.4", share=train))  # still nobody has more than 1
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure("0.01", share=train))
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure("0.01"))


def test_a_whole_table_a_second_split_and_unrecorded_parts_add(ledger: Ledger):
    """The case of the audit: a release of all rows and then of both parts came to 1.455 under a cap of 1."""
    ledger.charge(gaussian(parts=1))
    for share in (Share("s1", "train"), Share("s1", "test"), None):
        with pytest.raises(BudgetExceeded):
            ledger.charge(replace(gaussian(parts=1), share=share))
    other = Ledger(ledger.home.with_name("other"))
    wide = Budget("10", "1e-6")
    for share in (None, Share("s1", "train"), Share("s1", "test")):
        other.charge(replace(gaussian(parts=1), share=share, cap=wide))
    assert other.account("taxi").spent_epsilon == pytest.approx(1.455, abs=0.01)  # type: ignore[union-attr]
    before = other.account("taxi").spent_epsilon  # type: ignore[union-attr]
    other.charge(replace(gaussian(parts=1), share=Share("s2", "train"), cap=wide))
    assert other.account("taxi").spent_epsilon > before + 0.2  # type: ignore[union-attr]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["whole", "a.train", "a.test", "b.train", "b.test"]), st.integers(1, 9), st.booleans()),
        min_size=1,
        max_size=7,
    )
)
def test_an_account_comes_to_the_largest_total_of_any_individual(history: list[tuple[str, int, bool]]):
    """Individuals are enumerated one by one, in all combinations of parts that they can be in."""
    releases, cap = [], Budget("50", "1e-6")
    for place, tenths, gauss in history:
        split, _, part = place.partition(".")
        events = (GaussianEvent(tenths / 10, 12),) if gauss else (PureEvent(Decimal(tenths) / 10),)
        releases.append((Share(split, part) if part else None, events))
    totals = []
    for in_a in ("train", "test"):
        for in_b in ("train", "test"):
            seen = [e for share, e in releases if share is None or share.part == {"a": in_a, "b": in_b}[share.split]]
            totals.append(Spent.of_releases(seen, cap).epsilon_at(cap.delta))
    assert epsilon_of(releases, cap) == pytest.approx(max(totals))


def test_with_too_many_splits_to_enumerate_everybody_counts_as_in_all_parts():
    splits = MOST_COMBINATIONS.bit_length()
    releases = [(Share(f"s{i}", part), (PureEvent(Decimal("0.1")),)) for i in range(splits) for part in ("train", "test")]
    assert epsilon_of(releases, Budget("9")) == pytest.approx(0.2 * splits)
    assert epsilon_of(releases[:6], Budget("9")) == pytest.approx(0.3)


def test_several_charges_are_checked_together(ledger: Ledger):
    ledger.check(pure("0.6"))
    with pytest.raises(BudgetExceeded):
        ledger.check(pure("0.6"), pure("0.6", release=b"another"))
    ledger.check(pure("0.6", share=Share("s", "train")), pure("0.6", share=Share("s", "test")))
    assert ledger.accounts() == []


def test_a_release_by_row_never_enters_an_account_of_individuals(ledger: Ledger):
    ledger.charge(pure("0.3", unit="patient"))
    with pytest.raises(LedgerConflict, match="protects individuals, told apart by 'patient'"):
        ledger.charge(pure("0.3"))
    with pytest.raises(LedgerConflict, match="nothing shows that these are the same"):
        ledger.charge(pure("0.3", unit="ward"))
    ledger.charge(pure("0.3", unit="patient", release=b"another"))
    assert ledger.account("taxi").unit == "patient"  # type: ignore[union-attr]


def test_a_release_by_individual_may_enter_an_account_of_rows(ledger: Ledger):
    """At its own price if it keeps several rows of each; at twice that if one: a row may change hands, which moves two."""
    ledger.charge(pure("0.3"))
    ledger.charge(pure("0.3", unit="patient", rows_per_individual=2))
    account = ledger.account("taxi")
    assert account is not None and account.unit is None and account.spent_epsilon == pytest.approx(0.6)
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure("0.3", unit="patient"))
    ledger.charge(pure("0.1", unit="patient"))
    assert ledger.account("taxi").spent_epsilon == pytest.approx(0.8)  # type: ignore[union-attr]


def test_a_split_counts_once_its_parts_are_written_and_no_longer_than_they_stay(ledger: Ledger):
    first = ledger.begin_split(unit=None, train="/t/a.train.csv", test="/t/a.test.csv")
    assert ledger.share_of(place="/t/a.train.csv", part="train") is None  # a crash may come before the files
    ledger.split_written(first, train_source=b"1", test_source=b"2")
    assert ledger.share_of(place="/t/a.train.csv", part="train") == (Share(first, "train"), None, b"1")
    assert ledger.share_of(place="/t/a.test.csv", part="test") == (Share(first, "test"), None, b"2")
    assert ledger.share_of(place="/t/a.test.csv", part="train") is None  # a test part is no training part
    second = ledger.begin_split(unit="id", train="/t/a.train.csv", test="/t/a.test.csv")
    assert ledger.share_of(place="/t/a.train.csv", part="train") is None  # half of the files may be the new ones
    assert ledger.share_of(place="/elsewhere", part="train", split=first) == (Share(first, "train"), None, b"1")
    ledger.split_written(second, train_source=b"3", test_source=b"4")
    assert ledger.share_of(place="/t/a.train.csv", part="train") == (Share(second, "train"), "id", b"3")
    with pytest.raises(InvalidInput, match="no split 'nope'"):
        ledger.share_of(place="", part="train", split="nope")


# ------------------------------------------------------------------------------------------------ the same release again


def test_the_same_release_is_found_again_and_costs_nothing(ledger: Ledger):
    entry = ledger.charge(pure("0.6"))
    ledger.receipt(entry, "a" * 64)
    before = dump(ledger)
    found = ledger.find("taxi", pure("0.6").release)
    assert found is not None and found == replace(entry, digest="a" * 64)
    assert dump(ledger) == before


def test_only_a_finished_release_of_this_very_request_is_found(ledger: Ledger):
    release = pure("0.3").release
    assert ledger.find("taxi", release) is None
    ledger.charge(pure("0.3"))  # crashed: no receipt
    assert ledger.find("taxi", release) is None
    ledger.receipt(ledger.charge(pure("0.3")), "a" * 64)
    assert ledger.find("taxi", release).number == 2  # type: ignore[union-attr]
    assert ledger.find("taxi", b"another plan") is None
    assert ledger.find("bikes", release) is None


def test_every_purpose_has_a_secret_of_its_own(ledger: Ledger, tmp_path: Path):
    assert ledger.secret("a") == Ledger(ledger.home).secret("a") != ledger.secret("b")
    assert ledger.secret("a") != Ledger(tmp_path / "another").secret("a")


def test_a_fingerprint_depends_on_the_rows_and_on_nothing_else_that_changes(ledger: Ledger):
    rows = [b"12,3.5\n", b"7,1.0\n"]
    print_of = ledger.fingerprint(rows)
    assert print_of == Ledger(ledger.home).fingerprint([b"".join(rows)])
    assert print_of != ledger.fingerprint([b"12,3.5\n", b"7,1.1\n"])


def test_a_fingerprint_tells_nobody_else_anything(ledger: Ledger, tmp_path: Path):
    """With a plain hash, whoever reads the file could test guesses at the rows."""
    rows = [b"12,3.5\n"]
    assert ledger.fingerprint(rows) != hashlib.sha256(rows[0]).digest()
    assert ledger.fingerprint(rows) != Ledger(tmp_path / "another").fingerprint(rows)


# ------------------------------------------------------------------------------------------------ append-only


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charge SET events = '[]'",
        "UPDATE account SET cap_epsilon = '100'",
        "UPDATE receipt SET digest = 'x'",
        "UPDATE secret SET hash_key = x'00'",
        "DELETE FROM charge",
        "DELETE FROM account",
        "DELETE FROM receipt",
        "DELETE FROM secret",
        "INSERT OR REPLACE INTO charge SELECT id, account, dataset, edition, split, part, source, release, asked, '[]', "
        "created FROM charge",
        "REPLACE INTO account SELECT name, neighbours, unit, '100', cap_delta, created FROM account",
        "REPLACE INTO receipt SELECT charge, 'x', created FROM receipt",
        "REPLACE INTO secret VALUES (1, x'00')",
        "INSERT INTO account SELECT name, neighbours, unit, '9', '0', created FROM account WHERE 1 "
        "ON CONFLICT (name) DO UPDATE SET cap_epsilon = '9'",
    ],
)
def test_what_is_written_cannot_be_changed_or_removed(ledger: Ledger, statement: str):
    ledger.fingerprint([b"rows"])
    ledger.receipt(ledger.charge(pure("0.5")), "a" * 64)
    before = dump(ledger)
    db = sqlite3.connect(ledger.home / "ledger.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)
    db.rollback()
    db.close()
    assert dump(ledger) == before


def test_without_its_triggers_the_ledger_could_be_rewritten_so_the_test_above_can_fail(ledger: Ledger):
    ledger.charge(pure("0.5"))
    db = sqlite3.connect(ledger.home / "ledger.sqlite", isolation_level=None)
    db.execute("DROP TRIGGER charge_no_delete")
    db.execute("DELETE FROM charge")
    db.close()
    assert ledger.account("taxi").entries == ()  # type: ignore[union-attr]


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


# ------------------------------------------------------------------------------------------------ files and folders


def test_only_the_owner_can_read_the_ledger_whatever_the_umask(tmp_path: Path):
    before = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "home")
        ledger.charge(pure("0.3"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "home" / "ledger.sqlite").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_ledger_that_was_made_readable_is_closed_again_at_its_next_use(ledger: Ledger):
    ledger.charge(pure("0.3"))
    path = ledger.home / "ledger.sqlite"
    path.chmod(0o644)
    ledger.account("taxi")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def a_file_in_the_way(folder: Path) -> Path:
    (folder / "file").write_text("x")
    return folder / "file" / "home"


def a_folder_for_a_file(folder: Path) -> Path:
    (folder / "home" / "ledger.sqlite").mkdir(parents=True)
    return folder / "home"


def not_a_database(folder: Path) -> Path:
    (folder / "home").mkdir()
    (folder / "home" / "ledger.sqlite").write_bytes(b"not a ledger at all, but long enough to be read as one" * 100)
    return folder / "home"


@pytest.mark.parametrize("spoil", [a_file_in_the_way, a_folder_for_a_file, not_a_database])
def test_a_ledger_that_cannot_be_opened_says_where_and_what_to_do(tmp_path: Path, spoil: Callable[[Path], Path]):
    ledger = Ledger(spoil(tmp_path))
    attempts = (lambda: ledger.charge(pure("0.3")), lambda: ledger.account("taxi"), lambda: ledger.fingerprint([]))
    for attempt in attempts:
        with pytest.raises(SaibotError, match=r"ledger\.sqlite cannot be used .*SAIBOT_HOME"):
            attempt()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="saibot-test-"))
    folder.chmod(0o755)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.fault
@pytest.mark.parametrize("used_before", [False, True])
def test_an_unwritable_folder_gives_a_clear_error(open_folder: Path, used_before: bool):
    home, said = open_folder / "home", open_folder / "said"
    home.mkdir()
    if used_before:
        Ledger(home).charge(pure("0.3"))
    said.touch()
    if os.geteuid() == 0:  # root may write anywhere, so the attempt is made by nobody
        try:
            for path in (home, said, *home.iterdir()):
                os.chown(path, 65534, 65534)
        except PermissionError:
            pytest.skip("this root may not hand files to another user")
    home.chmod(0o555)

    def attempt() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        try:
            Ledger(home).charge(pure("0.2"))
        except SaibotError as error:
            said.write_text(str(error))

    assert in_a_process(attempt) == 0
    assert said.read_text().startswith(f"the ledger at {home}/ledger.sqlite cannot be used (")
    assert said.read_text().endswith("Check the folder, or set SAIBOT_HOME.")
    if used_before:
        home.chmod(0o755)
        assert len(Ledger(home).account("taxi").entries) == 1  # type: ignore[union-attr]


def test_an_event_that_a_newer_saibot_wrote_stops_every_further_charge(ledger: Ledger):
    """It cannot be priced, so nobody knows what is left."""
    ledger.charge(pure("0.1"))
    with sqlite3.connect(ledger.home / "ledger.sqlite") as db:
        db.execute(
            "INSERT INTO charge (account, dataset, edition, source, release, asked, events, created) "
            "SELECT account, dataset, edition, source, x'00', asked, '[{\"kind\": \"renyi\"}]', created FROM charge"
        )
    with pytest.raises(SaibotError, match="unknown kind 'renyi'"):
        ledger.charge(pure("0.1"))
