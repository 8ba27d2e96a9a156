"""The ledger: charge first, refuse without a trace, fix the terms at first use, hand out what was paid for."""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from saibot.errors import BudgetExceeded, LedgerConflict, SaibotError
from saibot.privacy.account import Charge
from saibot.privacy.budget import Budget
from saibot.privacy.calibration import analytic_mu
from saibot.privacy.events import GaussianEvent, PureEvent
from saibot.privacy.ledger import Ledger
from saibot.privacy.neighbours import Neighbours
from tests.support.charges import CAP, dump, gaussian, pure

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


def test_a_release_that_is_charged_once_is_refused_a_second_time_in_the_transaction(ledger: Ledger):
    first = pure("0.1", release=b"round", once_for="weights")
    assert ledger.answered_for(first.dataset, first.release) is None
    ledger.charge(first)
    assert ledger.answered_for(first.dataset, first.release) == "weights"
    for attempt in (ledger.check, ledger.charge):
        with pytest.raises(LedgerConflict, match="answered once"):
            attempt(pure("0.1", release=b"round", once_for="other weights"))
    ledger.charge(pure("0.1", release=b"round"))


def test_a_ledger_of_version_3_goes_on(ledger: Ledger):
    ledger.charge(pure("0.3"))
    with sqlite3.connect(ledger.home / "ledger.sqlite") as db:
        db.executescript("ALTER TABLE charge DROP COLUMN once_for; PRAGMA user_version = 3;")
    moved = Ledger(ledger.home)
    moved.charge(pure("0.2", once_for="weights"))
    (account,) = moved.accounts()
    assert [str(entry.asked.epsilon) for entry in account.entries] == ["0.3", "0.2"]
