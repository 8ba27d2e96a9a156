"""Bounds bought from the budget: the price is exact, and the goods are worth it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from research.seeded import Seeded
from saibot.errors import InvalidInput, InvalidTable
from saibot.privacy import Budget, ChoiceEvent, GaussianEvent, Neighbours, PureEvent, Spent
from saibot.privacy.events import bounded_range_mu
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Prepared, ReleaseRequest, privatize
from saibot.privatize.bounds import (
    COARSE,
    QUARTILES,
    WAYS,
    WIDE,
    Bought,
    Choices,
    Ranks,
    bounds_event,
    choice_unit,
    feature_by_ranks,
    rank_scores,
    rank_sensitivity,
    ranks,
    side_scores,
    with_quantiles,
)
from saibot.privatize.checking import resolve
from saibot.privatize.grid import Grid, check_bounds
from saibot.privatize.noise import NoiseSource, OpenDPNoise
from saibot.privatize.release import MAX_BITS
from saibot.privatize.schema import resolve_features
from tests.support.buying import AMPLE, REPLACE_ONE, buy, card, skewed

# ------------------------------------------------------------------------------------------------ the price

TERMS = [("1", "0.25"), ("0.3", "0.1"), ("0.7", "0.333"), ("10", "0.01"), ("8", "0.5")]


def enough(price: float) -> pd.DataFrame:
    """As many rows as bounds at this epsilon take."""
    return skewed(math.ceil(500 / price)).assign(z=0.5)


@pytest.mark.parametrize("options", [{}, {"key": "k"}, {"mechanism": "fpm", "calibration": "analytic", "allocation": None}])
@pytest.mark.parametrize("epsilon, share", TERMS)
def test_mu_squared_of_bounds_and_release_is_that_of_the_budget(
    ready: Callable[..., Prepared], epsilon: str, share: str, options: dict[str, Any]
) -> None:
    features = {"x": {"bounds": {"buy": share}}, "z": {"bounds": [0, 1]}}
    price, budget = Decimal(epsilon) * Decimal(share), Budget(epsilon, "1e-6")
    checked = ready(enough(float(price)), card(features=features), budget=budget, **options)
    assert checked.bought == {"x": price} and checked.plan.request.budget == budget
    choices, gaussian = checked.events
    assert isinstance(choices, ChoiceEvent) and isinstance(gaussian, GaussianEvent)
    dearer = 2 * bounded_range_mu(price / 6) ** 2 + 2 * bounded_range_mu(price / 3) ** 2
    assert choices.mu**2 == pytest.approx(dearer, rel=1e-12)
    spent = Spent.of(checked.events)
    assert spent.within(budget) and not spent.within(Budget(Decimal(epsilon) * Decimal("0.999"), "1e-6"))


def test_the_dearer_way_through_the_choices_is_charged_whatever_epsilon_is() -> None:
    for price in ("0.001", "0.1", "1", "5", "20"):
        event = bounds_event(Decimal(price), Budget("100", "1e-6"))
        assert isinstance(event, ChoiceEvent)
        for way in WAYS:
            assert math.fsum(bounded_range_mu(Decimal(price) * Decimal(share)) ** 2 for share in way) <= event.mu**2 * (
                1 + 1e-12
            )


def test_without_delta_the_epsilons_of_the_choices_add_up_to_the_price(
    ready: Callable[..., Prepared], ledger: Ledger
) -> None:
    """Also on the longer way, where the quantiles are one value and all seven choices are made."""
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.25"}}, "y": {"bounds": [-10, 10]}}}
    table = skewed(24_000).assign(x=5.0)
    assert ready(table, document, budget=Budget("1")).events == (PureEvent(Decimal("0.25")), PureEvent(Decimal("0.75")))
    asked = watched(table, document, Budget("1"), ledger)
    assert len(asked) == 7 and 0.2499 < sum(asked) <= 0.25
    assert sum(watched(skewed(2400), document, Budget("1"), Ledger(ledger.home / "b"))) <= 0.25


def test_four_columns_at_a_tenth_leave_nine_tenths_of_mu_squared(ready: Callable[..., Prepared]) -> None:
    columns = {name: {"bounds": {"buy": "0.1"}} for name in "abcd"}
    checked = ready(pd.DataFrame(dict.fromkeys("abcd", np.zeros(6000)) | {"k": 1}), card(features=columns), key="k")
    assert float(checked.plan.request.share) == pytest.approx(0.922, abs=0.001)


def test_an_automatic_share_is_a_tenth_and_less_for_many_columns(ready: Callable[..., Prepared]) -> None:
    for count, share in ((1, "0.1"), (10, "0.1"), (40, "0.05")):
        columns = {f"c{i}": {"bounds": {"buy": "auto"}} for i in range(count)}
        table = pd.DataFrame(dict.fromkeys(columns, np.zeros(12_000)))
        checked = ready(table, {"dataset": {"name": "t"}, "features": columns})
        assert set(checked.bought.values()) == {Decimal(share)} and checked.plan.request.share > Decimal("0.79")


def test_everything_together_is_what_was_asked_for_and_no_more(ledger: Ledger) -> None:
    """No cap in the card: the first release is the cap, and it fits exactly."""
    released = buy(skewed(2400), ledger, card(), Budget("1", "1e-6"))
    account = ledger.account("t")
    assert account is not None and account.cap == Budget("1", "1e-6")
    assert Spent.of(released.entry.events).within(Budget("1", "1e-6"))
    assert not Spent.of(released.entry.events).within(Budget("0.99", "1e-6"))
    assert account.spent_epsilon == pytest.approx(1, abs=1e-5)


def test_buying_more_than_there_is_is_refused_before_anything_is_spent(ledger: Ledger) -> None:
    for budget in (Budget("1", "1e-6"), Budget("1")):
        features = {name: {"bounds": {"buy": "0.5"}} for name in "xy"}
        with pytest.raises(InvalidInput, match="whole budget"):
            buy(skewed(2000), ledger, card(features=features), budget)
    assert ledger.accounts() == []


@pytest.mark.parametrize(
    "rows, facts, least",
    [
        (1999, {}, "0.251"),
        (10, {}, "50"),
        (2400, {"neighbours": "add-remove", "max_rows": 1600}, "0.313"),
        (100, {"id": "y", "rows_per_individual": 5, "max_rows": 9_000}, "0.278"),
    ],
)
def test_bounds_that_so_few_rows_cannot_place_are_refused_and_it_is_said_what_would_do(
    ledger: Ledger, rows: int, facts: dict[str, Any], least: str
) -> None:
    document = card(dataset={"name": "t"} | facts, features={"x": {"bounds": {"buy": "0.25"}}})
    relation = Neighbours(facts.get("neighbours", "replace-one"))
    with pytest.raises(InvalidInput, match=r"'x' are not worth buying") as caught:
        buy(skewed(rows), ledger, document, Budget("1", "1e-6"), neighbours=relation)
    assert caught.value.hint is not None and f"ε={least} or more" in caught.value.hint
    assert ledger.accounts() == []


# ------------------------------------------------------------------------------------------------ the bounds

SHAPES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "around zero": lambda rng, n: rng.normal(0, 3, n),
    "far from it": lambda rng, n: rng.normal(100, 15, n),
    "a logarithm": lambda rng, n: rng.normal(9.34, 0.68, n),
    "skewed": lambda rng, n: rng.lognormal(3, 0.7, n),
    "very skewed": lambda rng, n: rng.lognormal(0, 2, n),
    "large": lambda rng, n: 1e6 * rng.lognormal(3, 0.7, n),
    "negative": lambda rng, n: -rng.exponential(20, n),
    "years": lambda rng, n: 1980 + 40 * rng.random(n),
    "time stamps": lambda rng, n: rng.uniform(1.5e9, 1.53e9, n),
    "a third missing": lambda rng, n: np.where(rng.random(n) < 1 / 3, np.nan, rng.normal(40, 5, n)),
}
OFFSETS = {"years", "time stamps"}  # placed by the longer way, with less for each choice


def by_numpy(cells: np.ndarray) -> Ranks:
    present = np.sort(cells[~np.isnan(cells)])
    return lambda candidates: (np.searchsorted(present, candidates, side="left"), len(present))


def bought(cells: np.ndarray, noise: NoiseSource, facts: dict[str, Any] | None = None, **more: Any) -> Bought:
    """What a tenth of epsilon 1 buys."""
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.1"} | (facts or {})} | more}}
    (column,) = with_quantiles(resolve_features(Card.parse(document), ()), QUARTILES)
    unit = choice_unit(Decimal("0.1"), Budget("1", "1e-6"))
    return feature_by_ranks(column, Choices(by_numpy(cells), unit, REPLACE_ONE, 1, noise))


@pytest.mark.statistical
@pytest.mark.parametrize("shape", SHAPES)
def test_quartiles_of_six_thousand_rows_land_near_theirs(shape: str) -> None:
    """Nine of ten purchases within 0.055 of their ranks; 0.085 for offsets. A third of the rows missing leave fewer."""
    rng, found = np.random.default_rng(3), []
    for seed in range(200):
        cells = SHAPES[shape](rng, 9000 if "missing" in shape else 6000)
        feature = bought(cells, Seeded(seed)).feature
        present = cells[~np.isnan(cells)]
        found.append([(present < feature.lower).mean(), (present < feature.upper).mean()])
    off = np.abs(np.array(found) - [0.25, 0.75]).max(axis=1)
    usual, nine_of_ten = (0.045, 0.085) if shape in OFFSETS else (0.03, 0.055)
    assert np.median(off) < usual and np.quantile(off, 0.9) < nine_of_ten


@pytest.mark.parametrize("share, above", [(0.2, True), (0.2, False), (0.05, True)])
def test_a_column_of_mostly_one_value_says_which_rows_lie_beyond_it(share: float, above: bool) -> None:
    rng, right = np.random.default_rng(5), []
    for seed in range(100):
        apart = rng.random(6000) < share
        cells = np.where(apart, rng.lognormal(3, 1, 6000) * (1 if above else -1), 0.0)
        found = bought(cells, Seeded(seed))
        clipped = np.clip(cells, found.feature.lower, found.feature.upper)
        right.append(np.ptp(clipped) > 0 and abs(np.corrcoef(clipped, apart)[0, 1]) > 0.8)
        assert not found.told or "'x' are one and the same" in found.told
    assert np.mean(right) > 0.85


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_private_quantiles_are_close_to_the_true_ones(ledger: Ledger, backend: str) -> None:
    """By the real noise and a whole release: for lookup the quartiles, elsewhere 5 and 95 %, or what the card says."""
    table = skewed(60_000)
    more = {"unit": "mile"}
    cases = [(None, "k", (0.25, 0.75)), (None, None, (0.05, 0.95)), ([0.1, 0.6], "k", (0.1, 0.6))]
    for number, (asked, key, wanted) in enumerate(cases):
        facts = {"buy": "0.1"} | ({"quantiles": asked} if asked else {})
        document = card(features={"x": {"bounds": facts} | more})
        home = Ledger(ledger.home / str(number))
        header = buy(table, home, document, Budget("1", "1e-6"), backend=backend, key=key).sketch.header
        (feature,) = header.features
        for bound, quantile in zip((feature.lower, feature.upper), wanted, strict=True):
            assert abs((table.x < bound).mean() - quantile) < 0.03
        assert feature.unit == "mile" and feature.missing == pytest.approx((feature.lower + feature.upper) / 2)
        assert header.preparation.kind == "bought" and header.preparation.steps == ("bounds of x bought for μ=0.033",)
        assert header.budget == {"epsilon": "1", "delta": "1e-6"}


@pytest.mark.parametrize(
    "options, wanted",
    [
        ({"key": "k"}, QUARTILES),
        ({}, WIDE),
        ({"key": "k", "layout": "semiring"}, WIDE),
        ({"key": "k", "part": "train"}, WIDE),
    ],
)
def test_quartiles_are_for_what_is_looked_up_and_not_for_requests_or_unions(
    options: dict[str, Any], wanted: tuple[float, float]
) -> None:
    request = ReleaseRequest(Card.parse(card()), Budget("1", "1e-6"), REPLACE_ONE, **options)
    facts = resolve(request).columns[0].to_buy
    assert facts is not None and facts.quantiles == wanted


def test_a_public_range_is_where_quantiles_are_looked_for_and_no_clip() -> None:
    cells = np.random.default_rng(0).normal(1e9 + 5000, 1000, 6000)
    without, within = bought(cells, Seeded(0)), bought(cells, Seeded(0), {"range": [1e9 - 6e4, 1e9 + 6e4]})
    assert without.told and not within.told
    assert (cells < within.feature.lower).mean() == pytest.approx(0.25, abs=0.1)
    assert (cells < within.feature.upper).mean() == pytest.approx(0.75, abs=0.1)


def test_a_quantile_that_costs_next_to_nothing_is_worth_next_to_nothing() -> None:
    """The choice really is random: with no budget on it, bounds of ten rows land anywhere."""
    found = {bought(np.linspace(90, 110, 10), OpenDPNoise()).feature.upper for _ in range(4)}
    assert len(found) > 2


def test_ranks_count_what_lies_below_and_leave_missing_values_out(ready: Callable[..., Prepared]) -> None:
    table = pd.DataFrame({"x": [-5.0, 0.0, 1.0, 3.0, math.nan, math.inf]})
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.1"}}}}
    for backend in ("duckdb", "polars"):
        checked = ready(table, document, budget=Budget("1000", "1e-6"), backend=backend)
        below, total = ranks(checked.rows, checked.rows.columns[0], (-10.0, 0.0, 0.5, 1.0, 100.0))
        assert below.tolist() == [0, 1, 2, 2, 4] and total == 5


def test_a_cell_scores_by_how_far_the_wanted_rank_lies_outside_of_it() -> None:
    below = np.array([3, 10, 10, 60, 90])  # of 100 values; those beyond the ends count in the outermost cells
    assert rank_scores(below, 100, Fraction(1, 2)).tolist() == [80, 80, 0, 20]
    assert rank_scores(below, 100, Fraction(1, 10)).tolist() == [0, 0, 0, 500]
    assert rank_scores(below, 100, Fraction(1)).tolist() == [90, 90, 40, 0]
    assert side_scores(10, 60, 100).tolist() == [90, 60]


@pytest.mark.parametrize("relation", Neighbours)
def test_one_row_moves_every_score_by_no_more_than_the_sensitivity(relation: Neighbours) -> None:
    rng, closest = np.random.default_rng(4), 0.0
    edges = np.array([*COARSE[::37], 1.0])
    edges.sort()
    for _ in range(300):
        cells = rng.choice([0.0, 1.0, -3.0, 1e6, math.nan, 2**-16, 1e15], 20)
        if relation is Neighbours.REPLACE_ONE:
            other = cells.copy()
            other[rng.integers(20)] = rng.choice([-1e9, 0.5, 1e9, math.nan, -1e15])
        else:
            other = np.append(cells, rng.choice([-1e9, 0.5, 1e9, math.nan, -1e15]))
        (one, total), (two, more) = by_numpy(cells)(edges), by_numpy(other)(edges)
        for quantile in (Fraction(1, 4), Fraction(3, 4), Fraction(1, 20), Fraction(1, 3), Fraction(0), Fraction(1)):
            moved = np.abs(rank_scores(one, total, quantile) - rank_scores(two, more, quantile)).max()
            assert moved <= rank_sensitivity(quantile, relation)
            closest = max(closest, moved / rank_sensitivity(quantile, relation))
        assert np.abs(side_scores(one[3], one[5], total) - side_scores(two[3], two[5], more)).max() <= 1
    assert closest == 1  # less would do nowhere


def watched(table: pd.DataFrame, document: dict[str, Any], budget: Budget, ledger: Ledger) -> list[float]:
    """The epsilons of all choices of a release."""
    asked: list[float] = []

    class Watched(Seeded):
        def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
            asked.append(epsilon)
            return super().choose(scores, sensitivity, epsilon)

    buy(table, ledger, document, budget, noise=Watched(0))
    return asked


def test_the_choices_of_a_release_cost_no_more_than_the_ledger_was_charged(ledger: Ledger) -> None:
    for number, cells in enumerate([skewed(2400).x, 1.5e9 + skewed(2400).x, np.full(2400, 7.0)]):
        home = Ledger(ledger.home / str(number))
        asked = watched(skewed(2400).assign(x=cells), card(), Budget("1", "1e-6"), home)
        account = home.account("t")
        assert account is not None and len(asked) in (4, 6, 7)
        paid = account.entries[0].events[0]
        assert isinstance(paid, ChoiceEvent)
        cost = math.fsum(bounded_range_mu(Decimal(epsilon)) ** 2 for epsilon in asked)
        assert 0.7 * paid.mu**2 < cost <= paid.mu**2


@pytest.mark.parametrize("missing", [-1000, 1000, 20])
def test_the_missing_value_of_a_bought_feature_moves_into_its_bounds(no_noise: NoiseSource, missing: int) -> None:
    """The card could not know the bounds. It used to be an error, after the budget had been spent."""
    feature = bought(skewed(6000).x.to_numpy(), no_noise, missing=missing).feature
    assert 0 < feature.lower < 20 < feature.upper < 1000
    assert feature.missing == min(max(missing, feature.lower), feature.upper)


CELLS_OF_ONE_KIND = [5.0, 0.0, math.nan, 1e300, -1e300, math.inf, -0.0, 5e-324, 2.0**40, -(2.0**40), 1.5e9]


@pytest.mark.parametrize("facts", [{}, {"range": [-1e15, 1e15]}, {"range": [1e6 - 60, 1e6 + 60]}])
@pytest.mark.parametrize("cell", CELLS_OF_ONE_KIND)
def test_whatever_the_column_holds_bounds_come_out_in_order(cell: float, facts: dict[str, Any]) -> None:
    """After payment nothing may fail: noise may land anywhere, and bounds must still be bounds that a grid can have."""
    for seed in range(25):
        for count in (1, 40, 6000):
            feature = bought(np.full(count, cell), Seeded(seed), facts).feature
            assert feature.lower < feature.upper
            check_bounds(feature, Grid(MAX_BITS, Decimal(1)))


def test_a_release_of_bounds_that_noise_has_placed_is_a_release_all_the_same(ledger: Ledger) -> None:
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.05"}}}}
    released = buy(pd.DataFrame({"x": [math.inf] * 40}), ledger, document, Budget("300", "1e-6"))
    (feature,) = released.sketch.header.features
    assert feature.lower < feature.upper and np.isfinite(released.sketch.whole(1)).all()  # type: ignore[call-overload]


def test_what_the_provider_is_told_about_a_bought_column_is_on_its_screen_alone(ledger: Ledger) -> None:
    released = buy(skewed(9000).assign(x=7.0), ledger, card(), Budget("1", "1e-6"), noise=Seeded(0))
    assert any("'x' are one and the same" in note for note in released.notes)
    assert b"one and the same" not in released.content


def test_a_key_that_cannot_be_read_is_found_before_anything_is_spent(ledger: Ledger, tmp_path: Path) -> None:
    raw = pa.array([b"SECRET-4711\xff", b"a"])
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())  # not UTF-8, as a careless writer leaves it
    parquet.write_table(pa.table({"k": text, "x": [1.0, 2.0], "y": [1.0, 2.0]}), tmp_path / "t.parquet")
    document = card(keys={"k": {"domain": {"values": ["a"], "id": "k"}}})
    with pytest.raises(InvalidTable, match="cannot be read") as caught:
        buy(tmp_path / "t.parquet", ledger, document, AMPLE, key="k")
    assert "SECRET" not in str(caught.value)
    assert ledger.accounts() == []


def test_a_column_of_texts_whose_bounds_are_bought_is_pointed_out_before_anything_is_spent(ledger: Ledger) -> None:
    table = pd.DataFrame({"x": ["SECRET-4711", "two"], "y": [1.0, 2.0]})
    request = ReleaseRequest(Card.parse(card()), AMPLE, Neighbours.REPLACE_ONE)
    heard: list[str] = []
    with pytest.raises(InvalidInput, match="Nothing was charged"):
        privatize(table, request, ledger, ask=lambda doubt: heard.append(doubt.text) is not None)
    assert heard == ["no cell of column 'x' reads as a number; such cells count as missing."] and ledger.accounts() == []
    with pytest.raises(InvalidInput, match=r"reads as a number.*--yes") as caught:
        privatize(table, request, ledger)
    assert "4711" not in str(caught.value) and ledger.accounts() == []
    assert privatize(table, replace(request, yes=True), ledger).notes == tuple(heard)
