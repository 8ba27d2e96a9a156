"""Logarithms by a public rule: near log2, the same on every engine, and in a release what the card says."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.errors import InvalidCard, InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, make_card, privatize
from saibot.privatize.logarithms import LEAST, MOST, log2_in, log2_of
from saibot.privatize.read import open_table
from tests.support.noise import NoNoise

CARD = {
    "dataset": {"name": "t"},
    "features": {
        "pay": {"bounds": [1, 1024], "log": True, "unit": "euro", "missing": 2},
        "plain": {"column": "pay", "bounds": [0, 9]},
    },
    "keys": {"k": {"domain": {"range": [1, 2]}}},
}


def request(card: dict = CARD, **options: object) -> ReleaseRequest:
    terms = {"key": "k", "allocation": "equal", "yes": True} | options
    return ReleaseRequest(Card.parse(card), Budget("1", "1e-6"), Neighbours.REPLACE_ONE, **terms)  # type: ignore[arg-type]


@given(st.floats(2.0**LEAST, 2.0**MOST))
def test_the_rule_is_near_the_logarithm(number: float) -> None:
    assert 0 <= math.log2(number) - log2_of(number) + 1e-12 < 0.0861


@given(st.lists(st.floats(1e-9, 1e15), min_size=2, max_size=2))
def test_the_rule_keeps_the_order(pair: list[float]) -> None:
    low, high = sorted(pair)
    assert log2_of(low) <= log2_of(high)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_engines_compute_what_the_rule_says_to_the_last_bit(backend) -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([np.exp(rng.normal(0, 12, 3000)), 2.0 ** np.arange(-25, 45), [1e300]])
    source = open_table(pd.DataFrame({"x": numbers}), backend=backend)
    found = source.fetch(source.table.select(y=log2_in(source.table.x))).column("y").to_numpy()
    assert found.tolist() == [log2_of(number) for number in numbers]


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_what_is_not_above_0_has_none(backend) -> None:
    source = open_table(pd.DataFrame({"x": [0.0, -1.0, np.nan, 4.0]}), backend=backend)
    found = source.fetch(source.table.select(y=log2_in(source.table.x))).column("y").to_pylist()
    assert found == [None, None, None, 2.0]


def test_a_release_holds_logarithms_in_their_own_units(ledger: Ledger) -> None:
    table = pd.DataFrame({"k": [1, 1, 1, 2], "pay": [4.0, 16.0, -3.0, 1e9]})
    sketch = privatize(table, request(), ledger, noise=NoNoise()).sketch
    pay, plain = sketch.header.features
    assert (pay.lower, pay.upper, pay.missing, pay.unit) == (0.0, 10.0, 1.0, "log2 euro") and plain.upper == 9
    sums = sketch.levels[0].values[:2, 1] * pay.scale + sketch.levels[0].values[:2, 0] * pay.offset
    assert sums == pytest.approx([2 + 4 + 1, 10], abs=1e-2)  # one missing, one clipped


def test_bounds_of_logarithms_are_bought_among_logarithms(ledger: Ledger) -> None:
    rng = np.random.default_rng(1)
    pay = np.exp2(rng.normal(10, 1, 6000))
    card = {**CARD, "features": {"pay": {"bounds": {"buy": "0.1"}, "log": True}}}
    feature = privatize(pd.DataFrame({"k": 1, "pay": pay}), request(card), ledger, noise=NoNoise()).sketch.header.features[0]
    exact = np.quantile([log2_of(one) for one in pay], [0.25, 0.75])
    assert (feature.lower, feature.upper) == pytest.approx(tuple(exact), abs=0.05)


def test_a_feature_is_said_to_be_a_logarithm_in_one_word() -> None:
    table = pd.DataFrame({"k": [1], "pay": [2.0]})
    said = {"name": "t", "individual": "one", "key": "k", "domain": "range:k:1:2"}
    card = make_card(table, **said, features=["log:pay"])
    assert card.document()["features"] == {"pay": {"log": True, "bounds": {"buy": "auto"}}}
    assert make_card(table, **said, features=["log:pay=1:9"]).features["pay"].bounds == (1, 9)


@pytest.mark.parametrize(
    "facts", [{"bounds": [0, 9]}, {"levels": ["a"]}, {"bounds": [1, 9], "missing": 0}, {"bounds": [1, 1e13]}]
)
def test_logarithms_go_with_numbers_above_0(facts: dict) -> None:
    with pytest.raises(InvalidCard, match="numbers above 0"):
        Card.parse({**CARD, "features": {"pay": facts | {"log": True}}})


def test_a_request_has_none(ledger: Ledger) -> None:
    part = Card.parse(CARD).for_request("train")
    asked = ReleaseRequest(part, Budget("1", "1e-6"), Neighbours.REPLACE_ONE, key="k", part="train")
    with pytest.raises(InvalidInput, match="not for requests"):
        privatize(pd.DataFrame({"k": [1], "pay": [1.0]}), asked, ledger, noise=NoNoise())
