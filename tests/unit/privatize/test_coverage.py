"""Key coverage is bought first, for a hundredth of the budget, and decides whether the rest is spent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from research.seeded import Seeded
from saibot.errors import BudgetExceeded, InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.events import GaussianEvent, PureEvent, Spent
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Released, ReleaseRequest, dry_run, privatize
from saibot.privatize.coverage import KeyCoverage, coverage_event, coverage_price, noisy_count
from saibot.privatize.noise import OpenDPNoise
from tests.support.noise import NoNoise

ONE = Budget("1", "1e-6")


def table(rows: int = 6000, inside: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    ward = np.where(rng.random(rows) < inside, rng.integers(1, 11, rows), 99)
    return pd.DataFrame({"ward": ward, "x": rng.uniform(0, 10, rows), "who": np.arange(rows) // 2})


def asked(budget: Budget = ONE, card: dict[str, Any] | None = None, **options: Any) -> ReleaseRequest:
    document = {
        "dataset": {"name": "t"},
        "features": {"x": {"bounds": [0, 10]}},
        "keys": {"ward": {"domain": "range:ward:1:10"}},
    }
    terms = {"key": "ward", "coverage": "0.01", "allocation": "equal"} | options
    return ReleaseRequest(Card.parse(document | (card or {})), budget, Neighbours.REPLACE_ONE, **terms)


def released(ledger: Ledger, frame: pd.DataFrame, request: ReleaseRequest, seed: int = 1) -> Released:
    return privatize(frame, request, ledger, noise=Seeded(seed))


def test_the_count_and_the_release_come_to_the_budget_together(ledger: Ledger) -> None:
    done = released(ledger, table(), asked())
    account = ledger.account("t")
    assert account is not None and len(account.entries) == 2
    first, second = account.entries
    assert first.events == (coverage_event(Decimal("0.01"), ONE),) and second.events == done.entry.events
    together = Spent.of_releases([first.events, second.events], ONE)
    assert together.within(ONE) and not Spent.of([*first.events, *second.events, *first.events]).within(ONE)
    assert account.spent_epsilon == pytest.approx(1, abs=1e-6)


def test_the_number_stands_in_the_header_as_something_bought(ledger: Ledger) -> None:
    preparation = released(ledger, table(inside=0.7), asked()).sketch.header.preparation
    assert preparation.kind == "bought"
    assert any(
        "key coverage bought for μ=0.0125: about" in step and "of all rows (± 1.3 %)" in step for step in preparation.steps
    )


def test_a_low_count_ends_the_release_and_costs_a_hundredth(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match=r"about \d % of all rows .* That count alone was charged") as told:
        released(ledger, table(inside=0.03), asked())
    assert "--yes" in (told.value.hint or "")
    account = ledger.account("t")
    assert account is not None and len(account.entries) == 1 and account.spent_epsilon < 0.06
    assert account.cap == ONE  # of a new account: for the whole release, not for the count


def test_whoever_says_yes_goes_on_with_the_count_that_was_bought(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput):
        released(ledger, table(inside=0.03), asked())
    done = released(ledger, table(inside=0.03), asked(yes=True), seed=2)
    account = ledger.account("t")
    assert account is not None and len(account.entries) == 2  # not a second count
    assert account.entries[0].digest is not None
    number = float(account.entries[0].digest.partition(":")[2].partition("±")[0])
    assert f"{100 * number / 6000:.0f} %" in " ".join(done.sketch.header.preparation.steps)


def test_a_cap_that_cannot_pay_both_pays_neither(ledger: Ledger) -> None:
    request = asked(card={"budget": {"cap": {"epsilon": "0.9", "delta": "1e-6"}}})
    with pytest.raises(BudgetExceeded):
        released(ledger, table(), request)
    with pytest.raises(BudgetExceeded):
        dry_run(table(), request, ledger)
    assert ledger.accounts() == []


def test_with_too_few_rows_it_is_not_bought(ledger: Ledger) -> None:
    assert coverage_price("0.01", ONE, most_rows=1999, rows_per_individual=1) is None
    assert coverage_price("0.01", ONE, most_rows=2000, rows_per_individual=1) == Decimal("0.01")
    assert coverage_price("0.01", ONE, most_rows=2000, rows_per_individual=2) is None
    assert coverage_price(None, ONE, most_rows=10**9, rows_per_individual=1) is None
    released(ledger, table(100), asked())
    account = ledger.account("t")
    assert account is not None and len(account.entries) == 1


def test_individuals_with_several_rows_get_as_much_more_noise() -> None:
    event = coverage_event(Decimal("0.01"), ONE)
    assert isinstance(event, GaussianEvent) and event.touched == 1
    deviations = [noisy_count(5000, event, rows, OpenDPNoise())[1] for rows in (1, 3)]
    assert deviations[1] == pytest.approx(3 * deviations[0]) and deviations[0] == pytest.approx(1 / event.mu)


def test_without_delta_the_count_has_laplace_noise(ledger: Ledger) -> None:
    pure = Budget("1")
    assert coverage_event(Decimal("0.01"), pure) == PureEvent(Decimal("0.01"))
    released(ledger, table(), asked(pure))
    account = ledger.account("t")
    assert account is not None and account.spent_epsilon <= 1
    assert sum(event.epsilon for entry in account.entries for event in entry.events) <= 1  # type: ignore[union-attr]


def test_the_count_is_of_rows_that_are_kept_and_in_the_domain(ledger: Ledger) -> None:
    dataset = {"dataset": {"name": "t", "id": "who", "rows_per_individual": 1, "max_rows": 10_000}}
    noise = NoNoise()
    done = privatize(table(inside=0.5), asked(card=dataset), ledger, noise=noise)
    (step,) = [step for step in done.sketch.header.preparation.steps if "coverage" in step]
    told = int(step.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert 1350 < told < 1650  # of 3,000 individuals


def test_low_is_a_tenth_of_the_rows_or_what_noise_alone_may_show() -> None:
    assert KeyCoverage(500, 80, 6000).low and not KeyCoverage(700, 80, 6000).low
    assert KeyCoverage(150, 80, None).low and not KeyCoverage(170, 80, None).low


def test_the_same_request_hands_out_the_same_sketch_and_charges_nothing(ledger: Ledger) -> None:
    one, again = (released(ledger, table(), asked(), seed=seed) for seed in (1, 2))
    assert again.repeated and again.sketch.digest == one.sketch.digest
    account = ledger.account("t")
    assert account is not None and len(account.entries) == 2
