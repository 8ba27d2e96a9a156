"""Bounds and components bought from the budget: the price is exact, and the goods are worth it."""

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

from saibot.errors import InvalidCard, InvalidInput, InvalidTable, UnsupportedPlan
from saibot.privacy import Budget, GaussianEvent, Neighbours, PureEvent, Spent
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Prepared, Released, ReleaseRequest, privatize
from saibot.privatize.bounds import COARSE, rank_scores, ranks
from saibot.privatize.noise import NoiseSource, OpenDPNoise

REPLACE_ONE = Neighbours.REPLACE_ONE


def card(**sections: Any) -> dict[str, Any]:
    base = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.25"}}, "y": {"bounds": [-10, 10]}}}
    return base | {"keys": {"k": {"domain": {"range": [1, 5]}}}} | sections


def buy(
    table: pd.DataFrame | Path,
    ledger: Ledger,
    document: dict[str, Any],
    budget: Budget,
    *,
    noise: NoiseSource | None = None,
    **options: Any,
) -> Released:
    terms = {"neighbours": REPLACE_ONE, "allocation": "equal"} | options
    return privatize(table, ReleaseRequest(Card.parse(document), budget, **terms), ledger, noise=noise)


def skewed(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.lognormal(3, 0.7, n), "y": rng.normal(0, 3, n), "k": rng.integers(1, 7, n)})


# ------------------------------------------------------------------------------------------------ bounds


@pytest.mark.parametrize("epsilon, share", [("1", "0.25"), ("0.3", "0.1"), ("0.7", "0.333"), ("10", "0.01")])
def test_the_cost_of_bounds_comes_off_epsilon_exactly(ready: Callable[..., Prepared], epsilon: str, share: str) -> None:
    features = {"x": {"bounds": {"buy": share}}, "y": {"bounds": {"buy": share}}, "z": {"bounds": [0, 1]}}
    table = pd.DataFrame({"x": [1.0], "y": [2.0], "z": [0.5]})
    checked = ready(table, card(features=features), budget=Budget(epsilon, "1e-6"))
    price = Decimal(epsilon) * Decimal(share)
    assert checked.bought == {"x": price, "y": price}
    assert checked.plan.request.budget == Budget(Decimal(epsilon) - 2 * price, "1e-6")
    *pure, gaussian = checked.events
    assert pure == [PureEvent(price), PureEvent(price)] and isinstance(gaussian, GaussianEvent)
    assert sum(event.epsilon for event in pure) + checked.plan.request.budget.epsilon == Decimal(epsilon)


def test_everything_together_is_what_was_asked_for_and_no_more(ledger: Ledger) -> None:
    """No cap in the card: the first release is the cap, and it fits exactly."""
    released = buy(skewed(500), ledger, card(), Budget("1", "1e-6"))
    account = ledger.account("t")
    assert account is not None and account.cap == Budget("1", "1e-6")
    assert Spent.of(released.entry.events).within(Budget("1", "1e-6"))
    assert not Spent.of(released.entry.events).within(Budget("0.99", "1e-6"))
    assert account.spent_epsilon == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_private_quantiles_are_close_to_the_true_ones(ledger: Ledger, backend: str) -> None:
    table = skewed(100_000)
    document = card(features={"x": {"bounds": {"buy": "0.5", "quantiles": [0.05, 0.9]}, "unit": "mile"}})
    header = buy(table, ledger, document, Budget("1", "1e-6"), backend=backend).sketch.header
    (feature,) = header.features
    for bound, quantile in ((feature.lower, 0.05), (feature.upper, 0.9)):
        below = (table.x < bound).mean()
        step = 2 * np.ptp([feature.lower, feature.upper]) / 128  # candidates are a grid
        near = ((table.x > bound - step) & (table.x < bound + step)).mean()
        assert abs(below - quantile) < near + 0.005
    assert feature.unit == "mile" and feature.missing == pytest.approx((feature.lower + feature.upper) / 2)
    assert header.preparation.kind == "bought" and header.preparation.steps == ("bounds of x bought for ε=0.5",)
    assert header.budget == {"epsilon": "1", "delta": "1e-6"}


def test_default_quantiles_of_twenty_thousand_rows_give_sane_bounds(ledger: Ledger) -> None:
    """A tenth of epsilon 1 each: all but the outer few rows are inside, and the box is not much wider than they are."""
    rng = np.random.default_rng(0)
    normal, skew = rng.normal(0, 1, 20_000), rng.lognormal(3, 0.7, 20_000)
    columns = {"around zero": 3 * normal, "far from it": 100 + 15 * normal, "skewed": skew}
    columns |= {"small": skew / 1000, "large": skew * 1e6, "negative": -skew}
    document = {"dataset": {"name": "t"}, "features": {name: {"bounds": {"buy": "0.1"}} for name in columns}}
    features = buy(pd.DataFrame(columns), ledger, document, Budget("1", "1e-6")).sketch.header.features
    assert len(features) == 6
    for feature in features:
        cells = columns[feature.name]
        assert ((feature.lower <= cells) & (cells <= feature.upper)).mean() > 0.75, feature
        assert feature.upper - feature.lower < 3 * np.ptp(np.quantile(cells, [0.01, 0.99])), feature


COLUMNS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(0, 100, n),
    "far from zero": lambda rng, n: rng.uniform(50, 60, n),
    "negative": lambda rng, n: rng.uniform(-7, 0, n),
    "skewed": lambda rng, n: rng.exponential(20, n),
    "heavy tail": lambda rng, n: rng.pareto(1.5, n),
    "two values": lambda rng, n: rng.choice([10.0, 21.0], n),
    "zero or one": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "constant": lambda rng, n: np.full(n, 5.0),
    "a third missing": lambda rng, n: np.where(rng.random(n) < 1 / 3, np.nan, rng.normal(40, 5, n)),
}


def test_columns_of_every_shape_get_sane_bounds(ledger: Ledger) -> None:
    """Between two candidates may lie all of a column. Scored by its own rank, no candidate is then much better than one that
    is a hundred times too large; where values were missing, the largest candidate of all was the best."""
    rng, n = np.random.default_rng(6), 20_000
    columns = {name: draw(rng, n) for name, draw in COLUMNS.items()}
    document = {"dataset": {"name": "t"}, "features": {name: {"bounds": {"buy": "0.1"}} for name in columns}}
    features = buy(pd.DataFrame(columns), ledger, document, Budget("1", "1e-6")).sketch.header.features
    for feature in features:
        cells = columns[feature.name][~np.isnan(columns[feature.name])]
        assert ((feature.lower <= cells) & (cells <= feature.upper)).mean() > 0.8, feature
        # No wider than the values and two intervals, which are at most a sixteenth of the largest value each.
        assert feature.upper - feature.lower < np.ptp(np.quantile(cells, [0.01, 0.99])) + np.abs(cells).max() / 8, feature


def test_a_quantile_that_costs_next_to_nothing_is_worth_next_to_nothing(ledger: Ledger) -> None:
    """The choice really is random: with no budget on it, bounds of ten rows land anywhere."""
    table = pd.DataFrame({"x": np.linspace(90, 110, 10)})
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.0000001"}}}}
    found = set()
    for number in range(4):
        released = buy(table, Ledger(ledger.home / str(number)), document, Budget("1", "1e-6"))
        found.add(released.sketch.header.features[0].upper)
    assert len(found) > 2


def test_ranks_count_what_lies_below_and_leave_missing_values_out(ready: Callable[..., Prepared]) -> None:
    table = pd.DataFrame({"x": [-5.0, 0.0, 1.0, 3.0, math.nan, math.inf]})
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.1"}}}}
    checked = ready(table, document)
    below, total = ranks(checked.rows, checked.rows.columns[0], (-10.0, 0.0, 0.5, 1.0, 100.0))
    assert below.tolist() == [0, 1, 2, 2, 4] and total == 5
    below, total = ranks(checked.rows, checked.rows.columns[0], (0.0, 0.5, 4.0, 100.0), magnitude=True)
    assert below.tolist() == [0, 1, 3, 4] and total == 5


def test_an_interval_scores_by_how_far_the_wanted_rank_lies_outside_of_it() -> None:
    below = np.array([0, 10, 10, 60, 100])  # of 100 values, 10 in the first interval, none in the second, 50, 40, none
    assert rank_scores(below, 100, Fraction(1, 2)).tolist() == [80, 80, 0, 20, 100]
    assert rank_scores(below, 100, Fraction(1, 10)).tolist() == [0, 0, 0, 500, 900]
    assert rank_scores(below, 100, Fraction(1)).tolist() == [90, 90, 40, 0, 0]
    assert rank_scores(below[:3], 100, Fraction(9, 10)).tolist() == [800, 800, 0]  # the last interval has no end


def test_one_row_moves_every_rank_score_by_no_more_than_the_sensitivity(ready: Callable[..., Prepared], full: bool) -> None:
    rng = np.random.default_rng(4)
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.1"}}}}
    quantiles = [Fraction(1, 100), Fraction(99, 100), Fraction(1, 3), Fraction(0), Fraction(1)]
    for _ in range(30 if full else 3):
        cells = rng.choice([0.0, 1.0, -3.0, 1e6, math.nan, 2**-16], 20)
        neighbours = [cells.copy(), cells[1:], np.append(cells, rng.normal())]
        neighbours[0][rng.integers(20)] = rng.choice([-1e9, 0.5, 1e9, math.nan])
        scores = []
        for table in (cells, *neighbours):
            checked = ready(pd.DataFrame({"x": table}), document)
            below, total = ranks(checked.rows, checked.rows.columns[0], COARSE if full else COARSE[::7])
            scores.append([rank_scores(below, total, q) for q in quantiles])
        for other in scores[1:]:
            for quantile, a, b in zip(quantiles, scores[0], other, strict=True):
                assert np.abs(a - b).max() <= quantile.denominator


def test_the_private_choice_costs_what_opendp_says_it_does(ledger: Ledger) -> None:
    """Three choices per feature: half of its share for the magnitude, a quarter for each bound, none above."""
    asked: list[float] = []

    class Watched(OpenDPNoise):
        def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
            asked.append(epsilon)
            return super().choose(scores, sensitivity, epsilon)

    request = ReleaseRequest(Card.parse(card()), Budget("1", "1e-6"), REPLACE_ONE, allocation="equal")
    privatize(skewed(100), request, ledger, noise=Watched())
    assert len(asked) == 3 and asked[0] == 2 * asked[1] == 2 * asked[2] and 0.2499999 < sum(asked) <= 0.25


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_private_choice_has_the_odds_of_its_epsilon(epsilon: float, full: bool) -> None:
    """Two candidates, scores 0 and s: permute and flip keeps the ratio of their odds within e^epsilon of a neighbour's."""
    noise = OpenDPNoise()
    n = 6000 if full else 1500
    zero = sum(noise.choose(np.array([0, 1]), 1, epsilon) for _ in range(n)) / n
    other = sum(noise.choose(np.array([1, 0]), 1, epsilon) for _ in range(n)) / n
    # index 1 is chosen with probability zero, then other: neighbours, so within a factor of e^epsilon
    slack = 6 * math.sqrt(0.25 / n)
    assert zero < other + slack and other - slack < math.exp(epsilon) * zero
    assert noise.choose(np.array([0, 10**9]), 1, epsilon) == 0


@pytest.mark.parametrize("missing", [-1000, 1000, 20])
def test_the_missing_value_of_a_bought_feature_moves_into_its_bounds(
    ledger: Ledger, no_noise: NoiseSource, missing: int
) -> None:
    """The card could not know the bounds. It used to be an error, after the budget had been spent."""
    document = card(features={"x": {"bounds": {"buy": "0.5"}, "missing": missing}})
    (feature,) = buy(skewed(300), ledger, document, Budget("1", "1e-6"), noise=no_noise).sketch.header.features
    assert 0 < feature.lower < 20 < feature.upper < 1000
    assert feature.missing == min(max(missing, feature.lower), feature.upper)


@pytest.mark.parametrize("cells", [[5.0] * 40, [0.0] * 40, [math.nan] * 40, [1e300] * 40, [-1e300] * 40, [math.inf] * 40])
def test_whatever_the_column_holds_bounds_come_out_in_order(ledger: Ledger, cells: list[float]) -> None:
    document = {"dataset": {"name": "t"}, "features": {"x": {"bounds": {"buy": "0.5"}}}}
    released = buy(pd.DataFrame({"x": cells}), ledger, document, Budget("5", "1e-6"))
    (feature,) = released.sketch.header.features
    assert feature.lower < feature.upper and np.isfinite(released.sketch.whole(1)).all()  # type: ignore[call-overload]


def test_buying_more_than_there_is_is_refused_before_anything_is_spent(ledger: Ledger) -> None:
    features = {name: {"bounds": {"buy": "0.5"}} for name in "xy"}
    with pytest.raises(InvalidInput, match="whole budget"):
        buy(skewed(10), ledger, card(features=features), Budget("1", "1e-6"))
    assert ledger.accounts() == []


def test_a_key_that_cannot_be_read_is_found_before_anything_is_spent(ledger: Ledger, tmp_path: Path) -> None:
    raw = pa.array([b"SECRET-4711\xff", b"a"])
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())  # not UTF-8, as a careless writer leaves it
    parquet.write_table(pa.table({"k": text, "x": [1.0, 2.0], "y": [1.0, 2.0]}), tmp_path / "t.parquet")
    document = card(keys={"k": {"domain": {"values": ["a"], "id": "k"}}})
    with pytest.raises(InvalidTable, match="cannot be read") as caught:
        buy(tmp_path / "t.parquet", ledger, document, Budget("1", "1e-6"), key="k")
    assert "SECRET" not in str(caught.value)
    assert ledger.accounts() == []


def test_a_column_of_texts_whose_bounds_are_bought_is_pointed_out_before_anything_is_spent(ledger: Ledger) -> None:
    table = pd.DataFrame({"x": ["SECRET-4711", "two"], "y": [1.0, 2.0]})
    request = ReleaseRequest(Card.parse(card()), Budget("1", "1e-6"), Neighbours.REPLACE_ONE)
    heard: list[str] = []
    with pytest.raises(InvalidInput, match="Nothing was charged"):
        privatize(table, request, ledger, ask=lambda doubt: heard.append(doubt.text) is not None)
    assert heard == ["no cell of column 'x' reads as a number; such cells count as missing."] and ledger.accounts() == []
    with pytest.raises(InvalidInput, match=r"reads as a number.*--yes") as caught:
        privatize(table, request, ledger)
    assert "4711" not in str(caught.value) and ledger.accounts() == []
    assert privatize(table, replace(request, yes=True), ledger).notes == tuple(heard)


# ------------------------------------------------------------------------------------------------ the component

COMPONENT = {"of": ["x", "y"], "buy": "0.2"}
LINE = {"x": {"bounds": [0, 10], "missing": 0}, "y": {"bounds": [-4, 4]}, "z": {"bounds": [0, 1]}}


def line(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    t = rng.normal(0, 1, n)
    return pd.DataFrame(
        {"x": 5 + 2 * t + rng.normal(0, 0.3, n), "y": -t + rng.normal(0, 0.3, n), "k": rng.integers(1, 7, n)}
    )


def true_direction(table: pd.DataFrame) -> np.ndarray:
    scaled = np.column_stack([(table.x.clip(0, 10) - 5) / 5, table.y.clip(-4, 4) / 4])
    direction = np.linalg.eigh(np.cov(scaled.T))[1][:, -1]
    return direction * np.sign(direction[np.abs(direction).argmax()])


@pytest.mark.parametrize("key", [None, "k"])
def test_the_direction_is_close_to_that_of_the_rows(ledger: Ledger, key: str | None) -> None:
    table = line(50_000)
    document = card(features=LINE, component=COMPONENT)
    sketch = buy(table, ledger, document, Budget("1", "1e-6"), key=key).sketch
    (feature,) = sketch.header.features
    assert feature.kind == "component" and feature.weights is not None and set(feature.weights) == {"x", "y"}
    found = np.array([feature.weights["x"], feature.weights["y"]])
    assert np.linalg.norm(found) == pytest.approx(1) and found @ true_direction(table) > math.cos(math.radians(2))
    scaled = np.column_stack([(table.x.clip(0, 10) - 5) / 5, table.y.clip(-4, 4) / 4]) @ found
    assert feature.lower == pytest.approx(scaled.mean() - 1.5 * scaled.std(), abs=0.05)
    assert feature.upper == pytest.approx(scaled.mean() + 1.5 * scaled.std(), abs=0.05)
    assert sketch.header.bound_squared == "1"
    assert sketch.header.preparation.steps == ("principal component of x, y bought for a share of 0.2",)


def test_with_next_to_no_budget_the_direction_is_next_to_random(ledger: Ledger) -> None:
    """What the test above would see if moments were not what the direction came from."""
    table, found = line(200), []
    document = card(features=LINE, component=COMPONENT | {"buy": "0.0001"})
    for number in range(6):
        sketch = buy(table, Ledger(ledger.home / str(number)), document, Budget("0.1", "1e-6")).sketch
        weights = sketch.header.features[0].weights
        assert weights is not None
        found.append(abs(np.array([weights["x"], weights["y"]]) @ true_direction(table)))
    assert min(found) < math.cos(math.radians(2))


@pytest.mark.parametrize("share", ["0.2", "0.5", "0.01"])
@pytest.mark.parametrize("options", [{}, {"key": "k"}, {"key": "k", "layout": "semiring"}, {"mechanism": "fpm"}])
def test_mu_squared_of_both_parts_adds_up_to_one_plans(
    ready: Callable[..., Prepared], share: str, options: dict[str, Any]
) -> None:
    checked = ready(line(100), card(features=LINE, component=COMPONENT | {"buy": share}), **options)
    moments, plan = checked.component_plan, checked.plan
    assert moments is not None and moments.mu is not None and plan.mu is not None
    assert moments.request.share + plan.request.share == 1
    assert moments.touched == plan.touched
    if plan.calibration == "analytic":
        assert plan.mu**2 / (plan.mu**2 + moments.mu**2) == pytest.approx(float(plan.request.share))
    assert Spent.of(checked.events).within(Budget("1", "1e-6"))


def test_a_component_at_exactly_the_cap_is_released(ledger: Ledger) -> None:
    """Both parts were planned for the coordinates of both; counting them twice would refuse what was planned."""
    document = card(features=LINE, component=COMPONENT, budget={"cap": {"epsilon": "1", "delta": "1e-6"}})
    buy(line(500), ledger, document, Budget("1", "1e-6"), key="k")
    account = ledger.account("t")
    assert account is not None and account.spent_epsilon == pytest.approx(1, abs=1e-4)


def test_pure_components_split_epsilon(ready: Callable[..., Prepared]) -> None:
    checked = ready(line(100), card(features=LINE, component=COMPONENT), budget=Budget("1"))
    assert checked.events == (PureEvent(Decimal("0.2")), PureEvent(Decimal("0.8")))


def test_a_component_of_bought_bounds_pays_for_both(ledger: Ledger) -> None:
    features = LINE | {"x": {"bounds": {"buy": "0.1"}}}
    released = buy(line(2000), ledger, card(features=features, component=COMPONENT), Budget("1", "1e-6"))
    kinds = [event.to_json()["kind"] for event in released.entry.events]
    assert kinds == ["pure", "gaussian", "gaussian"] and Spent.of(released.entry.events).within(Budget("1", "1e-6"))
    assert released.sketch.header.preparation.kind == "bought" and len(released.sketch.header.preparation.steps) == 2


def test_under_add_remove_the_component_does_without_the_row_count(ledger: Ledger) -> None:
    document = card(dataset={"name": "t", "max_rows": 100_000}, features=LINE, component=COMPONENT)
    sketch = buy(line(20_000), ledger, document, Budget("2", "1e-6"), neighbours=Neighbours.ADD_REMOVE).sketch
    weights = sketch.header.features[0].weights
    assert weights is not None and sketch.header.rows is None
    assert abs(np.array([weights["x"], weights["y"]]) @ true_direction(line(20_000))) > math.cos(math.radians(4))


@pytest.mark.parametrize("cells", [[5.0] * 30, [math.nan] * 30, [1e9] * 30])
def test_rows_without_any_direction_give_a_component_all_the_same(ledger: Ledger, cells: list[float]) -> None:
    table = pd.DataFrame({"x": cells, "y": cells})
    (feature,) = buy(table, ledger, card(features=LINE, component=COMPONENT), Budget("1", "1e-6")).sketch.header.features
    assert feature.lower < feature.upper


def test_what_a_component_cannot_do_is_refused_before_anything_is_spent(ledger: Ledger) -> None:
    one_hot = LINE | {"o": {"levels": ["a", "b"]}}
    table = line(50).assign(o="a")
    with pytest.raises(InvalidInput, match="numeric features"):
        buy(table, ledger, card(features=one_hot, component=COMPONENT | {"of": ["x", "o"]}), Budget("1", "1e-6"))
    with pytest.raises(InvalidCard, match="no feature"):
        buy(table, ledger, card(features=LINE, component=COMPONENT | {"of": ["x", "w"]}), Budget("1", "1e-6"))
    with pytest.raises(InvalidInput, match="local model"):
        buy(table[:1], ledger, card(features=LINE, component=COMPONENT), Budget("1", "1e-6"), model="local")
    with pytest.raises(InvalidInput, match="local model"):
        buy(skewed(1), ledger, card(), Budget("1", "1e-6"), model="local")
    with pytest.raises(UnsupportedPlan, match="at least two features"):
        buy(
            table,
            ledger,
            card(features=LINE, component=COMPONENT),
            Budget("1", "1e-6"),
            mechanism="fpm-opt",
            allocation=None,
        )
    assert ledger.accounts() == []


def test_a_key_called_like_a_helper_column_is_still_the_key(ledger: Ledger, no_noise: NoiseSource) -> None:
    table = line(300).rename(columns={"k": "component_value"})
    keys = {"k": {"column": "component_value", "domain": {"range": [1, 5]}}}
    document = card(features=LINE, component=COMPONENT, keys=keys)
    sketch = buy(table, ledger, document, Budget("1", "1e-6"), key="k", noise=no_noise).sketch
    counts = [(table.component_value == k).sum() for k in range(1, 6)]
    assert np.allclose(sketch.levels[0].values[:5, 0], counts)
