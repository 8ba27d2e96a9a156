"""A principal component bought from the budget: the price is exact, and the direction is worth it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.audit.cases import Case
from saibot.audit.cells import KEYS, NUMERIC
from saibot.audit.measuring import FAR, compare, measure
from saibot.audit.sources import SOURCES
from saibot.errors import InvalidCard, InvalidInput, UnsupportedPlan
from saibot.privacy import Budget, Neighbours, PureEvent, Spent
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Prepared, ReleaseRequest
from saibot.privatize.charging import _as_it_always_was, release_identity
from saibot.privatize.checking import resolve
from saibot.privatize.noise import NoiseSource
from tests.support.buying import REPLACE_ONE, buy, card, skewed

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


# ------------------------------------------------------------------------------------------------ several directions


def plane(n: int) -> pd.DataFrame:
    """Three columns that lie near a plane: two directions of spread 0.4 and 0.2, and next to none."""
    rng = np.random.default_rng(2)
    one, two = 0.4 * rng.normal(size=n), 0.2 * rng.normal(size=n)
    return pd.DataFrame({"x": (one + two) / 2**0.5, "y": (one - two) / 2**0.5, "z": 0.01 * rng.normal(size=n)}).assign(
        k=rng.integers(1, 7, n)
    )


PLANE = {name: {"bounds": [-1, 1]} for name in ("x", "y", "z")}
TWO = {"of": ["x", "y", "z"], "buy": "0.2", "keep": 2}


def test_several_directions_are_features_of_their_own(ledger: Ledger) -> None:
    sketch = buy(plane(50_000), ledger, card(features=PLANE, component=TWO), Budget("2", "1e-6"), key="k").sketch
    one, two = sketch.header.features
    assert (one.name, two.name, one.kind, two.kind) == ("component1", "component2", "component", "component")
    weights = np.array([list((feature.weights or {}).values()) for feature in (one, two)])
    assert np.allclose(weights @ weights.T, np.eye(2), atol=1e-9)
    assert np.abs(np.abs(weights) - [[0.707, 0.707, 0], [0.707, 0.707, 0]]).max() < 0.05
    assert one.upper - one.lower == pytest.approx(3 * 0.4, rel=0.1) and two.upper - two.lower == pytest.approx(
        3 * 0.2, rel=0.1
    )
    assert sketch.header.bound_squared == "2" and sketch.header.read_plan().request.features == 2
    assert sketch.header.preparation.steps == ("2 principal components of x, y, z bought for a share of 0.2",)


def test_their_sums_are_those_of_the_projected_rows(ledger: Ledger, no_noise: NoiseSource) -> None:
    table = plane(2000)
    sketch = buy(table, ledger, card(features=PLANE, component=TWO), Budget("2", "1e-6"), key="k", noise=no_noise).sketch
    scaled = np.clip(table[["x", "y", "z"]].to_numpy(), -1, 1)
    for place, feature in enumerate(sketch.header.features):
        along = np.clip(scaled @ np.array(list((feature.weights or {}).values())), feature.lower, feature.upper)
        values = (along - feature.offset) / feature.scale
        sums = [values[table.k == key].sum() for key in range(1, 6)]
        assert np.allclose(sketch.levels[0].values[:5, 1 + place], sums, atol=0.2)


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_more_directions_cost_no_more_and_share_the_noise(ready: Callable[..., Prepared], keep: int) -> None:
    checked = ready(plane(100), card(features=PLANE, component=TWO | {"keep": keep}), key="k")
    moments, plan = checked.component_plan, checked.plan
    assert moments is not None and moments.request.features == 3 and moments.request.share == Decimal("0.2")
    assert plan.request.features == keep and plan.request.bound_squared == keep
    assert Spent.of(checked.events).within(Budget("1", "1e-6")) and moments.touched == plan.touched


def test_more_directions_than_features_are_refused() -> None:
    with pytest.raises(InvalidCard, match="3 directions to keep"):
        Card.parse(card(features=PLANE, component=TWO | {"keep": 4}))


def test_a_release_with_a_field_that_says_nothing_new_is_the_release_it_was(ledger: Ledger) -> None:
    """Cards are part of what a release is recognised by: fields that came later must not make it another one."""
    document = card(features=LINE, component=COMPONENT)
    resolved = resolve(ReleaseRequest(Card.parse(document), Budget("1", "1e-6"), REPLACE_ONE, key="k"))
    same = card(features=LINE, component=COMPONENT | {"keep": 1})
    again = resolve(ReleaseRequest(Card.parse(same), Budget("1", "1e-6"), REPLACE_ONE, key="k"))
    assert release_identity(ledger, resolved) == release_identity(ledger, again)
    known = _as_it_always_was(Card.parse(document))
    assert "keep" not in known["component"] and set(known["keys"]["k"]["domain"]) == {
        "file", "values", "dates", "range", "of", "id", "version"
    }  # fmt: skip
    assert not any("log" in facts for facts in known["features"].values())


@pytest.mark.parametrize("keep", [1, 2])
def test_the_audit_sees_thirty_per_cent_too_little_noise(keep: int, tmp_path: Path) -> None:
    """In the moments that are bought, and in the release of the components."""
    corners: list[dict[str, Any]] = [{"x": x, "y": y, "k": k} for x in (0, 10) for y in (-4, 4) for k in (1, 5)]
    features = {"x": {"bounds": [0, 10]}, "y": {"bounds": [-4, 4]}}
    document = card(features=features, component=COMPONENT | {"keep": keep})
    document["dataset"] = {"name": "audited", "neighbours": "replace-one"}
    asked = {"mechanism": "joint", "layout": "lookup", "order": 2, "key": "k", "allocation": "alg2"}
    columns = {"x": NUMERIC[1], "y": NUMERIC[1], "k": KEYS[0]}
    others = ({"x": 5, "y": 0, "k": 2},) * 9
    case = Case("corners", columns, document, asked, Budget("1", "1e-6"), others, tuple((row,) for row in corners))
    source = next(one for one in SOURCES if one.name == "csv")
    for factor in (1.0, 0.7):
        tables = []
        for version in range(len(corners)):
            folder = tmp_path / f"{factor}-{version}"
            folder.mkdir()
            table = source.table(case.rows(version), columns, folder)
            tables.append(measure(table, case, source, Ledger(tmp_path / "ledger"), noise_factor=factor))
        for part in (0, 1):
            only = [replace(one, parts=one.parts[part : part + 1]) for one in tables]  # type: ignore[type-var, union-attr]
            found = [compare(only[i], only[j]).broken for i in range(len(only)) for j in range(i)]  # type: ignore[arg-type]
            assert (FAR in found) == (factor < 1)
