"""A private request is what its sketches say, on the key they were privatised with."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from saibot.client import Domains, SearchOptions, find_augmentation, local_request, private_request
from saibot.errors import InvalidInput, InvalidSketch
from saibot.privacy import Budget, Neighbours
from saibot.sketch import KeyDomain, write_sketch

from .conftest import SHOPS, card

FEATURES = {"price": {"bounds": [1980, 2020]}, "sales": {"bounds": [3900, 4100]}}


@pytest.fixture
def pair(rows, sketch_of):
    """pair(**options): training and test sketch of the requester's rows."""

    def build(key="shop", **options):
        return tuple(
            sketch_of(part, card(name, features=FEATURES), key, **options)
            for part, name in ((rows[:2000], "train"), (rows[2000:], "test"))
        )

    return build


def test_without_noise_a_private_request_finds_what_a_local_one_finds(rows, pair, corpus):
    train, test = pair()
    options = SearchOptions(engine="threads")
    private = find_augmentation(private_request(train, test=test, target="sales", domains=Domains(corpus)), corpus, options)
    local = find_augmentation(
        local_request(
            rows[:2000], test=rows[2000:], target="sales", features=["price"], keys=["shop"], domains=Domains(corpus)
        ),
        corpus,
        options,
    )
    assert private.columns == local.columns == ("shops-survey.level",)
    np.testing.assert_allclose(private.path().test_r2.astype(float), local.path().test_r2.astype(float), atol=2e-3)
    np.testing.assert_allclose(private.model().coef_, local.model().coef_, rtol=2e-2)
    np.testing.assert_allclose(private.model().predict(rows), local.model().predict(rows), atol=0.1)


def test_the_model_of_a_private_request_reads_raw_rows_as_they_were_privatised(rows, pair, corpus):
    found = find_augmentation(private_request(pair()[0], target="sales", domains=Domains(corpus)), corpus)
    far = rows.head(3).assign(price=[5000.0, 2020.0, np.nan])
    far["shop"] = rows.shop[0]
    predicted = found.model().predict(far)
    assert predicted[0] == pytest.approx(predicted[1])  # clipped to its public bound
    middle = found.model().predict(far.assign(price=2000.0))[2]
    assert predicted[2] == pytest.approx(middle)  # missing: the middle of the bounds


def test_a_days_key_reaches_months_without_any_file(pair, corpus):
    request = private_request(pair("day")[0], target="sales", domains=Domains(None))
    assert [name for name, _ in request.terms.keys[0].domains[0].parents] == ["month", "year", "week"]
    assert len(request.key) == len(request.terms.keys[0].domains[0]) + 1


def test_a_list_of_keys_is_rebuilt_from_the_sketch_and_a_file_adds_its_levels(pair):
    train, _ = pair()
    plain = private_request(train, target="sales")
    assert plain.terms.keys[0].domains[0].values == SHOPS and plain.terms.keys[0].domains[0].parents == ()
    town = KeyDomain.of("shops", SHOPS, parents={"town": ["a"] * 6 + ["b"] * 6})
    rich = private_request(train, target="sales", domains=Domains(None, [town]))
    assert rich.terms.keys[0].domains[0].parents[0][0] == "town"


def test_a_composite_key_is_joined_part_by_part(rows, sketch_of, corpus):
    keys = card("x")["keys"] | {"both": {"parts": ["shop", "day"]}}
    del keys["day"]["levels"]
    train = sketch_of(rows, card("train", features=FEATURES, keys=keys), "both")
    found = find_augmentation(private_request(train, target="sales", domains=Domains(corpus)), corpus)
    assert set(found.columns) == {"shops-survey.level", "day-weather.level"}
    wide = found.augment(rows)
    slow = LinearRegression().fit(wide[["price", *found.columns]].to_numpy(), wide.sales)
    np.testing.assert_allclose(found.model().coef_, slow.coef_, rtol=2e-2)


def test_own_features_may_be_chosen_or_left_out(pair):
    train, _ = pair()
    assert private_request(train, target="sales").train.features == ("price", "sales")
    assert private_request(train, target="sales", features=[]).train.features == ("sales",)


# ------------------------------------------------------------------------------------------------ bad input


def test_a_sketch_without_the_target_is_told(pair):
    train, _ = pair()
    with pytest.raises(InvalidInput, match="no feature 'profit', which is the target"):
        private_request(train, target="profit")
    with pytest.raises(InvalidInput, match="keyed by 'shop', not by 'day'"):
        private_request(train, target="sales", keys=["day"])
    with pytest.raises(InvalidInput, match="no feature 'weight'"):
        private_request(train, target="sales", features=["weight"])
    with pytest.raises(InvalidInput, match="are the same"):
        private_request(train, test=train, target="sales")


def test_training_and_test_sketch_must_fit_each_other(rows, pair, sketch_of):
    train, _ = pair()
    # Other rows each time: the ledger refuses the same ones under a second name.
    wider = FEATURES | {"price": {"bounds": [0, 5000]}}
    with pytest.raises(InvalidInput, match="'price' has other bounds in the test sketch"):
        private_request(train, test=sketch_of(rows[2001:], card("wider", features=wider), "shop"), target="sales")
    with pytest.raises(InvalidInput, match="do not have the same key"):
        private_request(train, test=sketch_of(rows[2002:], card("by-day", features=FEATURES), "day"), target="sales")
    only = {"sales": FEATURES["sales"]}
    with pytest.raises(InvalidInput, match="the test sketch has no feature 'price'"):
        private_request(train, test=sketch_of(rows[2003:], card("less", features=only), "shop"), target="sales")
    added = card("added", features=FEATURES)
    added["dataset"]["max_rows"] = 10_000
    other = sketch_of(rows[2004:], added, "shop", neighbours=Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidInput, match="private under replace-one, the test sketch under add-remove"):
        private_request(train, test=other, target="sales")


def test_different_budgets_are_told_and_searched_all_the_same(rows, pair, sketch_of):
    train, _ = pair()
    cheaper = sketch_of(rows[2001:], card("cheap", features=FEATURES), "shop", budget=Budget("10", "1e-6"))
    request = private_request(train, test=cheaper, target="sales")
    assert any("different budgets" in note and "ε=10," in note for note in request.terms.notes)
    assert any("not private" in note for note in request.terms.notes)  # the noise of these tests is simulated


def test_budget_spent_on_key_levels_of_a_request_is_told(rows, sketch_of):
    notes = private_request(sketch_of(rows, card("levels", features=FEATURES), "day"), target="sales").terms.notes
    assert any("--part" in note for note in notes)
    notes = private_request(sketch_of(rows[1:], card("none", features=FEATURES), "shop"), target="sales").terms.notes
    assert not any("--part" in note for note in notes)


def test_a_sketch_without_order_two_or_without_a_file_is_told(rows, sketch_of, tmp_path):
    flat = sketch_of(rows, card("flat", features=FEATURES), None, mechanism="fpm", layout="union", order=1, allocation=None,
                     budget=Budget("1", "1e-6"))  # fmt: skip
    with pytest.raises(InvalidInput, match="order 2"):
        private_request(flat, target="sales")
    with pytest.raises(InvalidSketch, match="there is no sketch"):
        private_request(tmp_path / "none.saibot", target="sales")


def test_a_keyless_request_says_that_nothing_can_be_joined(rows, sketch_of):
    keyless = sketch_of(rows, card("keyless", features=FEATURES), None, layout="union")
    request = private_request(keyless, target="sales")
    assert request.key is None and any("no key" in note for note in request.terms.notes)


def test_paths_are_read(pair, tmp_path):
    path = tmp_path / "train.saibot"
    path.write_bytes(write_sketch(pair()[0]))
    assert private_request(path, target="sales").name == "train"
