"""A principal component bought from the budget: the price is exact, and the direction is worth it."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.errors import InvalidCard, InvalidInput, UnsupportedPlan
from saibot.privacy import Budget, Neighbours, PureEvent, Spent
from saibot.privacy.ledger import Ledger
from saibot.privatize import Prepared
from saibot.privatize.noise import NoiseSource
from tests.support.buying import buy, card, skewed

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
    released = buy(line(6000), ledger, card(features=features, component=COMPONENT), Budget("1", "1e-6"))
    kinds = [event.to_json()["kind"] for event in released.entry.events]
    assert kinds == ["choice", "gaussian", "gaussian"] and Spent.of(released.entry.events).within(Budget("1", "1e-6"))
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
