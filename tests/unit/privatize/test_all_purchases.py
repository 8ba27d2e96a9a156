"""Everything that can be bought, bought for one release by several keys: each thing is charged once, and all of it fits."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.audit.cases import Case
from saibot.audit.cells import KEYS, NUMERIC
from saibot.audit.comparing import Bench
from saibot.audit.measuring import FAR, MeasuredTable, compare
from saibot.audit.sources import SOURCES
from saibot.errors import BudgetExceeded, InvalidInput
from saibot.privacy import Budget, Neighbours, Spent
from saibot.privacy.events import Event
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Released, ReleaseRequest, dry_run_by_keys, look_at, privatize_by_keys
from saibot.privatize.bounds import bounds_event
from saibot.privatize.coverage import coverage_event
from saibot.privatize.noise import NoiseSource
from saibot.privatize.tuning import note_look

ONE = Budget("1", "1e-6")
KEY_FACTS: dict[str, Any] = {
    "ward": {"domain": "range:ward:1:12"},
    "sex": {"domain": {"values": ["f", "m"], "id": "sex"}},
    "town": {"domain": {"find": "town"}},
}
BOUGHT = {"x": {"bounds": {"buy": "0.1"}}, "y": {"bounds": [-1, 1]}}
COMPONENT = {"of": ["x", "y"], "buy": "0.2", "keep": 2}


def table(rows: int = 8000, *, inside: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = {"ward": rng.integers(1, 13, rows), "sex": rng.choice(["f", "m"], rows), "town": rng.choice(["A", "B"], rows)}
    frame["sex"] = np.where(rng.random(rows) < inside, frame["sex"], "unknown")
    return pd.DataFrame(frame | {"x": rng.uniform(0, 10, rows), "y": rng.uniform(-1, 1, rows)})


def asked(budget: Budget = ONE, sections: dict[str, Any] | None = None, **options: Any) -> ReleaseRequest:
    document = {"dataset": {"name": "t"}, "features": BOUGHT, "keys": KEY_FACTS} | (sections or {})
    terms = {"coverage": "0.01", "allocation": "equal"} | options
    return ReleaseRequest(Card.parse(document), budget, Neighbours.REPLACE_ONE, **terms)


def released(ledger: Ledger, keys: list[str], request: ReleaseRequest, **options: Any) -> tuple[Released, ...]:
    return privatize_by_keys(options.pop("frame", table()), request, keys, ledger, **options)


def charged(ledger: Ledger) -> list[tuple[Event, ...]]:
    account = ledger.account("t")
    assert account is not None
    return [entry.events for entry in account.entries]


@pytest.mark.parametrize("sections", [{}, {"component": COMPONENT}], ids=["bounds", "bounds and components"])
def test_counts_bounds_and_statistics_are_charged_once_each_and_come_to_the_budget(
    ledger: Ledger, sections: dict[str, Any]
) -> None:
    request = asked(sections=sections)
    rehearsed = dry_run_by_keys(table(), request, ["ward", "sex"], ledger)
    ward, sex = released(ledger, ["ward", "sex"], request)
    count = coverage_event(Decimal("0.01"), ONE)
    releases = charged(ledger)
    assert releases == [(count,), (count,), ward.entry.events]
    moments = 1 if sections else 0
    assert ward.entry.events[0] == bounds_event(Decimal("0.1"), ONE) and len(ward.entry.events) == 1 + moments + 2
    together = Spent.of([event for events in releases for event in events])
    assert together.within(ONE) and not together.within(Budget("0.999", "1e-6"))
    assert [event.to_json() for events in releases for event in events] == rehearsed.to_json()["events"]
    for one in (ward, sex):
        plan = one.sketch.header.read_plan()
        assert plan.touched == together.touched, "each plan knows what all others and the counts touch"
    assert ward.sketch.header.features == sex.sketch.header.features


def test_a_pure_budget_is_divided_to_the_last_part(ledger: Ledger) -> None:
    pure = Budget("1")
    released(ledger, ["ward", "sex"], asked(pure))
    total = Spent.of([event for events in charged(ledger) for event in events])
    assert total.mu_squared == 0 and Decimal("0.999") < total.pure_epsilon <= 1


def test_keys_that_are_found_have_no_count_and_the_account_sets_their_delta_aside_from_the_start(ledger: Ledger) -> None:
    town, ward = released(ledger, ["town", "ward"], asked())
    releases = charged(ledger)
    assert releases[0] == (coverage_event(Decimal("0.01"), ONE),) and len(releases) == 2
    assert [event.to_json()["kind"] for event in releases[1]] == ["keys", "choice", "gaussian", "gaussian"]
    account = ledger.account("t")
    assert account is not None and account.cap == ONE and account.aside == Spent.of(releases[1]).delta > 0
    together = Spent.of([event for events in releases for event in events])
    assert together.within(ONE, account.aside) and account.spent_epsilon <= 1
    assert "key coverage" not in " ".join(town.sketch.header.preparation.steps)
    assert "key coverage" in " ".join(ward.sketch.header.preparation.steps)


def test_every_step_stands_in_the_header_and_tuned_is_the_kind_of_it_all(ledger: Ledger) -> None:
    looked_at = Card.parse({"dataset": {"name": "t"}, "features": BOUGHT | {"y": {"bounds": [-2, 2]}}, "keys": KEY_FACTS})
    note_look(looked_at, "t", ledger)
    _, town = released(ledger, ["ward", "town"], asked(sections={"component": COMPONENT}, yes=True))
    preparation = town.sketch.header.preparation
    words = ["keys of town found", "bounds of x bought", "2 principal components", "card changed after", "in one go with"]
    assert preparation.kind == "tuned" and len(preparation.steps) == len(words)
    assert all(word in step for word, step in zip(words, preparation.steps, strict=True))


def test_how_many_components_are_kept_is_not_bought(ledger: Ledger) -> None:
    before = asked(sections={"component": COMPONENT | {"keep": 1}})
    note_look(before.card, "t", ledger)
    (ward,) = released(ledger, ["ward"], asked(sections={"component": COMPONENT}, yes=True))
    assert ward.sketch.header.preparation.kind == "tuned"
    assert "component.keep" in " ".join(ward.sketch.header.preparation.steps)


def test_the_second_list_that_matches_nothing_ends_the_release_after_two_counts(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match=r"by sex, about \d % .* 2 such counts were charged \(μ=0.0125 each\)"):
        released(ledger, ["ward", "sex"], asked(), frame=table(inside=0.03))
    account = ledger.account("t")
    assert account is not None and len(account.entries) == 2 and account.spent_epsilon < 0.08 and account.cap == ONE
    released(ledger, ["ward", "sex"], asked(yes=True), frame=table(inside=0.03))
    assert len(charged(ledger)) == 3, "the counts are not bought again"


def test_a_cap_that_cannot_pay_all_of_it_pays_nothing(ledger: Ledger) -> None:
    request = asked(sections={"budget": {"cap": {"epsilon": "0.99", "delta": "1e-6"}}})
    with pytest.raises(BudgetExceeded):
        released(ledger, ["ward", "sex"], request)
    with pytest.raises(BudgetExceeded):
        dry_run_by_keys(table(), request, ["ward", "sex"], ledger)
    assert ledger.accounts() == []


def test_the_counts_are_those_of_each_key(ledger: Ledger, no_noise: NoiseSource) -> None:
    frame = table(inside=0.6)
    steps = [
        " ".join(one.sketch.header.preparation.steps)
        for one in released(ledger, ["ward", "sex"], asked(), frame=frame, noise=no_noise)
    ]
    assert (
        "about 100 % of all rows" in steps[0]
        and f"about {100 * (frame['sex'] != 'unknown').mean():.0f} % of all rows" in steps[1]
    )


def test_a_look_shows_the_keys_that_a_search_would_find(ledger: Ledger) -> None:
    request = asked(key="town", sections={"component": COMPONENT})
    look = look_at(table(), request, ledger)
    assert (look.keys, look.empty_keys, look.inside) == (2, 0, 1) and [c.name for c in look.columns] == [
        "component1",
        "component2",
    ]
    assert not (ledger.home / "domains").exists() and ledger.accounts() == []
    lonely = table().assign(town=np.arange(8000))
    assert look_at(lonely, request, ledger).wasteful == "no row has a key of the domain"


# ------------------------------------------------------------------------------------------------ neighbouring tables


def pairs(delta: str) -> Case:
    """One individual at both ends of two keys, and outside of them."""
    number = NUMERIC[1]
    usual = {"f0": 2.25, "f1": 7.75, "k0": 2, "k1": "002"}
    versions = [
        ({"f0": x, "f1": y, "k0": one, "k1": other},)
        for x, y, one, other in [(0.0, 0.0, 1, "001"), (10.0, 10.0, 5, "100"), (10.0, 0.0, 77, "x"), (0.0, 10.0, 1, "x")]
    ]
    card = {
        "dataset": {"name": "audited", "neighbours": "replace-one"},
        "features": {"f0": {"bounds": {"buy": "0.1"}}, "f1": dict(number.facts)},
        "keys": {"k0": dict(KEYS[0].facts), "k1": dict(KEYS[1].facts)},
    }
    columns = {"f0": number, "f1": number, "k0": KEYS[0], "k1": KEYS[1]}
    wanted = {"mechanism": "joint", "layout": "lookup", "allocation": "equal", "coverage": "0.01"}
    budget = Budget("2000", delta)
    return Case("all", columns, card, wanted, budget, (usual,) * 9, tuple(versions), keys=("k0", "k1"))  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_no_pair_of_tables_moves_any_part_further_than_is_charged(delta: str, tmp_path: Any) -> None:
    case, source = pairs(delta), SOURCES[0]
    measured = [Bench(tmp_path).measure(case, version, source) for version in range(4)]
    assert all(isinstance(one, MeasuredTable) for one in measured), measured
    found = [compare(measured[one], measured[other]) for one, other in case.pairs()]  # type: ignore[arg-type]
    assert [one.broken for one in found] == [None] * 6 and max(one.ratio for one in found) == pytest.approx(1, abs=1e-6)
    short = [Bench(tmp_path, 0.7).measure(case, version, source) for version in range(4)]
    assert FAR in {compare(short[one], short[other]).broken for one, other in case.pairs()}  # type: ignore[arg-type]


def test_what_the_pairs_are_held_against_is_what_the_ledger_is_charged_with(tmp_path: Any, ledger: Ledger) -> None:
    case, source = pairs("1e-6"), SOURCES[0]
    measured = Bench(tmp_path).measure(case, 0, source)
    assert isinstance(measured, MeasuredTable)
    noisy = [part.claim**2 for part in measured.parts if "bounds" not in part.name]
    assert len(noisy) == 4 and sum("scores" in part.name for part in measured.parts) == 4, "bounds are bought once"
    frame = source.table(case.rows(0), case.columns, tmp_path)
    events = dry_run_by_keys(frame, case.request(), case.keys, ledger).to_json()["events"]
    assert math.fsum(noisy) == pytest.approx(math.fsum(e["mu"] ** 2 for e in events if e["kind"] == "gaussian"), rel=1e-9)
