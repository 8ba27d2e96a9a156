"""Own features that nobody named: all that can explain something, categories as columns, and what was left out is told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

from saibot.client import Augmented, Domains, SearchOptions, find_augmentation, local_request
from saibot.client.own_columns import MOST_COLUMNS, all_usable, most_columns
from saibot.errors import InvalidTable


@pytest.fixture
def mixed(rows: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return rows.assign(
        city=rng.choice(["Bonn", "Köln", "Trier"], len(rows), p=[0.5, 0.3, 0.2]),
        open=rng.random(len(rows)) < 0.5,
        ticket=[f"t{i}" for i in range(len(rows))],
        country="DE",
        when=pd.Timestamp("2013-01-01"),
        zone=7,
    )


def test_all_usable_columns_are_own_features_and_the_note_says_which(mixed, corpus):
    request = local_request(mixed, target="sales", keys=["shop", "day"], domains=Domains(corpus))
    assert request.train.features == ("price", "city=Köln", "city=Trier", "open", "sales")
    note = next(note for note in request.terms.notes if "none were named" in note)
    assert "price, city, open; left out: ticket (no value of it is frequent)" in note
    assert "when (no number and no category)" in note and "country, zone (the same in every row)" in note


def test_a_model_with_categories_predicts_as_dummies_do(mixed, corpus):
    features = ["price", "city"]
    request = local_request(mixed, target="sales", features=features, keys=["shop", "day"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads"))
    wide = found.augment(mixed)
    X = pd.get_dummies(wide[[*features, *found.columns]], columns=["city"]).astype(float).drop(columns="city_Bonn")
    slow = LinearRegression().fit(X, mixed.sales).predict(X)
    np.testing.assert_allclose(found.model().predict(mixed), slow, rtol=1e-7)


def test_named_features_are_taken_alone_and_no_features_can_be_asked_for(mixed, corpus):
    asked = {"target": "sales", "keys": ["shop"], "domains": Domains(corpus)}
    assert local_request(mixed, features=["price"], **asked).train.features == ("price", "sales")
    assert local_request(mixed, features=[], **asked).train.features == ("sales",)
    with pytest.raises(InvalidTable, match="'ticket' holds text of which no value is frequent") as caught:
        local_request(mixed, features=["ticket"], **asked)
    assert "t17" not in str(caught.value)


def test_columns_that_only_one_part_has_are_no_features(mixed, corpus):
    train, test = mixed[:2000], mixed[2000:].drop(columns="city")
    request = local_request(train, test=test, target="sales", keys=["shop"], domains=Domains(corpus))
    assert not any(name.startswith("city") for name in request.train.features)


def test_a_wide_table_gives_no_more_features_than_moments_can_hold(rows, corpus):
    wide = rows.assign(**{f"c{i}": np.random.default_rng(i).normal(size=len(rows)) for i in range(60)})
    request = local_request(wide, target="sales", keys=["shop"], domains=Domains(corpus))
    assert len(request.train.features) <= MOST_COLUMNS + 1
    assert any(f"beyond {MOST_COLUMNS} columns" in note for note in request.terms.notes)


def test_a_result_of_a_search_at_home_says_what_it_is_worth_and_keeps_it(rows, corpus, tmp_path):
    request = local_request(rows, target="sales", keys=["shop", "day"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads"))
    assert found.worth is not None and found.worth.key == "shop and day"
    assert found.worth.new.gain.clear
    found.save(tmp_path / "result.json")
    assert Augmented.load(tmp_path / "result.json").worth == found.worth
    found.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert found.worth.sentence in page and "your own average per shop and day" in page


def test_the_more_keys_the_fewer_columns_are_taken_unasked() -> None:
    assert [most_columns(keys) for keys in (1, 10_000, 10**9)] == [MOST_COLUMNS, MOST_COLUMNS, 1]
    assert 1 < most_columns(10**6) < most_columns(10**5) < MOST_COLUMNS
    table = pa.table({f"c{i}": [1.0, 2.0, i] for i in range(6)})
    found, told = all_usable(table, 4)
    assert [one.name for one in found] == ["c0", "c1", "c2", "c3"] and "c4, c5 (beyond 4 columns)" in told


def test_the_target_in_another_unit_and_what_the_test_table_lacks_are_left_out() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=50)
    train = pa.table({"x": rng.normal(size=50), "euro": 1.1 * y + 3, "note": rng.normal(size=50), "zone": [1, 2] * 25})
    test = pa.table({"x": [0.5], "euro": [1.0], "note": pa.array([None], pa.float64()), "zone": [1]})
    found, told = all_usable(train, target=y, test=test)
    assert [one.name for one in found] == ["x", "zone"]
    assert "euro (the target in other words)" in told and "note (no cell of it is filled, in the test table)" in told
