"""Accounts of individuals: what several datasets, splits and units come to for the one who has most at stake."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saibot.errors import BudgetExceeded, InvalidInput, LedgerConflict
from saibot.privacy.account import MOST_COMBINATIONS, Share, epsilon_of
from saibot.privacy.budget import Budget
from saibot.privacy.events import GaussianEvent, PureEvent, Spent
from saibot.privacy.ledger import Ledger
from tests.support.charges import gaussian, pure


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
