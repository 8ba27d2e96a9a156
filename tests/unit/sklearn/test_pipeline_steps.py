"""The search as a step of a scikit-learn pipeline: its own checks, and what a data scientist does with any transformer."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from saibot.client import Corpus
from saibot.errors import InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sklearn import PrivateAugmenter, PrivateRegressor
from tests.support.noise import NoNoise

WARDS = [f"W{i:02d}" for i in range(40)]
NEW = "stays.nights"
# scikit-learn runs 46 and 50 checks on arrays of random numbers, none of whose rows has a listed key. All pass; the one that
# needs SCIPY_ARRAY_API set when scipy is first loaded is skipped, as it is for scikit-learn's own estimators.
CHECKS = {"transformer": 46, "regressor": 50}


def stays() -> tuple[pd.DataFrame, dict[str, float]]:
    """A provider's rows, 100 of every ward, and the level of each ward."""
    rng = np.random.default_rng(3)
    level = dict(zip(WARDS, rng.uniform(2, 18, len(WARDS)), strict=True))
    ward = np.repeat(WARDS, 100)
    nights = np.clip([level[w] for w in ward] + rng.normal(0, 1, len(ward)), 0, 20)
    return pd.DataFrame({"ward": ward, "nights": nights}), level


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with one sketch that has a signal and one that has none."""
    home = tmp_path_factory.mktemp("sklearn")
    rows, _ = stays()
    noise = rows.assign(ward=np.random.default_rng(5).permutation(rows.ward))
    made = []
    for name, table in (("stays", rows), ("noise", noise)):
        facts = {
            "dataset": {"name": name},
            "budget": {"cap": {"epsilon": "100", "delta": "1e-6"}},
            "features": {"nights": {"bounds": [0, 20], "unit": "night"}},
            "keys": {"ward": {"domain": {"values": WARDS, "id": "wards"}}},
        }
        request = ReleaseRequest(Card.parse(facts), Budget("50", "1e-6"), key="ward", neighbours=Neighbours.REPLACE_ONE)
        made.append(privatize(table, request, Ledger(home / "ledger"), noise=NoNoise()).sketch)
    assert Corpus.create(home / "corpus").add(made, {}) == []
    return home / "corpus"


@pytest.fixture(scope="module")
def bills() -> tuple[pd.DataFrame, pd.Series]:
    """A requester's rows: cost follows the ward's level and the patient's age."""
    _, level = stays()
    rng = np.random.default_rng(4)
    n = 1500
    table = pd.DataFrame({"ward": rng.choice(WARDS, n), "age": rng.uniform(20, 90, n), "sex": rng.choice(["f", "m"], n)})
    cost = pd.Series(10 * table.ward.map(level) + table.age + rng.normal(0, 20, len(table)), name="cost")
    return table, cost


@pytest.mark.parametrize("kind", CHECKS)
def test_scikit_learns_own_checks_pass(kind, folder):
    estimator = PrivateAugmenter(folder, key={"x0": "wards"})
    if kind == "regressor":
        estimator = PrivateRegressor(estimator)
    with pytest.warns():  # that a check was skipped
        outcome = check_estimator(estimator, on_fail=None)
    said = {status: sorted({o["check_name"] for o in outcome if o["status"] == status}) for status in ("failed", "skipped")}
    assert said == {"failed": [], "skipped": ["check_array_api_input"]}
    assert sum(o["status"] == "passed" for o in outcome) >= CHECKS[kind]


def test_the_signal_is_joined_and_the_key_is_left_out(folder, bills):
    rows, cost = bills
    search = PrivateAugmenter(folder, key="ward").fit(rows, cost)
    wide = search.transform(rows)
    assert search.new_columns_ == (NEW,)
    assert list(wide.columns) == list(search.get_feature_names_out()) == ["age", "sex", NEW]
    assert wide.index.equals(rows.index)
    truth = stays()[0].groupby("ward").nights.mean()
    assert (wide[NEW] - rows.ward.map(truth)).abs().max() < 0.3
    assert "ward" in PrivateAugmenter(folder, key="ward", keep_keys=True).fit(rows, cost).get_feature_names_out()


def test_every_kind_of_table_goes_in_and_comes_out(folder, bills):
    rows, cost = bills
    numeric = rows[["ward", "age"]]
    asked = PrivateAugmenter(folder, key="ward")
    expected = asked.fit(numeric, cost).transform(numeric)
    polars = pl.from_pandas(numeric)
    found = {
        "polars": clone(asked).fit(polars, cost.to_numpy()).transform(polars),
        "pandas to polars": clone(asked).set_output(transform="polars").fit(numeric, cost).transform(numeric),
        "polars to pandas": clone(asked).set_output(transform="pandas").fit(polars, cost.to_numpy()).transform(polars),
    }
    assert {name: type(table).__module__.split(".")[0] for name, table in found.items()} == {
        "polars": "polars",
        "pandas to polars": "polars",
        "polars to pandas": "pandas",
    }
    for table in found.values():
        assert list(table.columns) == list(expected.columns)
        np.testing.assert_allclose(np.asarray(table[NEW]), expected[NEW])


def test_an_array_is_joined_by_the_name_of_its_column(folder, tmp_path):
    codes = {"values": [str(i) for i in range(40)], "id": "codes"}
    rows, _ = stays()
    facts = {
        "dataset": {"name": "coded"},
        "budget": {"cap": {"epsilon": "100", "delta": "1e-6"}},
        "features": {"nights": {"bounds": [0, 20]}},
        "keys": {"ward": {"domain": codes}},
    }
    coded = rows.assign(ward=rows.ward.str[1:].astype(int))
    request = ReleaseRequest(Card.parse(facts), Budget("50", "1e-6"), key="ward", neighbours=Neighbours.REPLACE_ONE)
    sketch = privatize(coded, request, Ledger(tmp_path / "ledger"), noise=NoNoise()).sketch
    Corpus.create(tmp_path / "corpus").add([sketch], {})
    X = np.column_stack([coded.ward, np.random.default_rng(0).normal(size=len(coded))]).astype(float)
    wide = PrivateAugmenter(tmp_path / "corpus", key="x0").fit(X, coded.nights).transform(X)
    assert wide.shape == (len(coded), 2)
    assert np.corrcoef(wide[:, 1], coded.nights)[0, 1] > 0.9


def test_unseen_keys_are_predicted_in_cross_validation(folder, bills):
    rows, cost = bills
    split = GroupKFold(4)
    alone = cross_val_score(LinearRegression(), rows[["age"]], cost, groups=rows.ward, cv=split)
    search = PrivateAugmenter(folder, key="ward")
    linear = cross_val_score(PrivateRegressor(search), rows, cost, groups=rows.ward, cv=split)
    numeric = rows.drop(columns="sex")
    boosted = cross_val_score(
        make_pipeline(search, HistGradientBoostingRegressor(max_iter=30)), numeric, cost, groups=rows.ward, cv=split
    )
    assert alone.mean() < 0.2 < 0.7 < min(linear.mean(), boosted.mean())


def test_a_grid_search_reaches_the_searchs_own_options(folder, bills):
    rows, cost = bills
    grid = GridSearchCV(
        PrivateRegressor(PrivateAugmenter(folder, key="ward")),
        {"augmenter__steps": [1, 2], "augmenter__rank": ["usable", None], "estimator": [LinearRegression()]},
        cv=2,
    ).fit(rows.drop(columns="sex"), cost)
    assert grid.best_score_ > 0.7
    assert grid.best_estimator_.augmenter_.steps in (1, 2)


def test_a_clone_shares_the_source_and_a_fitted_one_survives_pickling(folder, bills):
    rows, cost = bills
    corpus = Corpus(folder)
    search = PrivateAugmenter(corpus, key="ward").set_output(transform="pandas")
    assert clone(search).source is corpus
    assert clone(search)._sklearn_output_config == {"transform": "pandas"}
    fitted = search.fit(rows, cost)
    again = pickle.loads(pickle.dumps(fitted))
    assert fitted.augmented_.request is not None and again.augmented_.request is None  # rows stay where they are
    pd.testing.assert_frame_equal(again.transform(rows[:20]), fitted.transform(rows[:20]))


def test_without_a_key_nothing_is_searched(folder, bills):
    with pytest.raises(InvalidInput, match="key names no column"):
        PrivateAugmenter(folder).fit(*bills)


def test_other_columns_than_fitted_are_refused(folder, bills):
    rows, cost = bills
    fitted = PrivateAugmenter(folder, key="ward").fit(rows, cost)
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(rows.rename(columns={"age": "years"}))
