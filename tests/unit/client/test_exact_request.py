"""A local request says exactly what its table says, whatever the table is made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from saibot.client import Corpus, Domains, local_request
from saibot.errors import InvalidInput, InvalidTable, SaibotError
from saibot.privatize import Card
from saibot.sketch import KeyDomain

from .conftest import SHOPS, card, provider_rows

KEYS = {"shop": KeyDomain.of("shops", SHOPS)}


def original(request, name):
    """Counts, sums and squares per key in original units."""
    moments, unit = request.train, request.terms.units[name]
    i = moments.position(name)
    sums = unit.offset * moments.counts + unit.scale * moments.sums[:, i]
    squares = moments.key_products[:, i, i]
    squares = unit.offset**2 * moments.counts + 2 * unit.offset * unit.scale * moments.sums[:, i] + unit.scale**2 * squares
    return moments.counts, sums, squares


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "csv", "parquet"])
def test_moments_equal_what_pandas_groups(rows, kind, tmp_path):
    table = {
        "pandas": lambda: rows,
        "polars": lambda: pl.from_pandas(rows),
        "arrow": lambda: pa.Table.from_pandas(rows),
        "csv": lambda: rows.to_csv(tmp_path / "t.csv", index=False) or tmp_path / "t.csv",
        "parquet": lambda: rows.to_parquet(tmp_path / "t.parquet") or tmp_path / "t.parquet",
    }[kind]()
    request = local_request(table, target="sales", features=["price"], keys=KEYS)
    groups = rows.groupby("shop")
    shops = list(SHOPS)
    np.testing.assert_array_equal(request.key.places[:, 0], np.arange(len(shops) + 1))
    for name in ("price", "sales"):
        counts, sums, squares = (values[:-1] for values in original(request, name))
        np.testing.assert_allclose(counts, groups[name].count()[shops])
        np.testing.assert_allclose(sums, groups[name].sum()[shops], rtol=1e-10)
        np.testing.assert_allclose(squares, groups[name].agg(lambda x: (x**2).sum())[shops], rtol=1e-10)
    assert request.train.exact and not request.private


def test_two_keys_give_the_observed_combinations_and_no_others(rows, corpus):
    request = local_request(rows, target="sales", keys=["shop", "day"], domains=Domains(corpus))
    assert len(request.key) == len(rows[["shop", "day"]].drop_duplicates())
    assert request.train.counts.sum() == len(rows)


def test_a_combination_that_only_the_test_table_has_is_there_too(rows):
    train, test = rows[rows.shop != "03"], rows[rows.shop == "03"]
    request = local_request(train, test=test, target="sales", keys=KEYS)
    place = SHOPS.index("03")
    row = int(np.flatnonzero(request.key.places[:, 0] == place)[0])
    assert request.train.counts[row] == 0
    assert request.test.counts[row] == len(test)


def test_several_keys_hold_a_combination_that_only_the_test_table_has(rows, corpus):
    first = (rows.shop == rows.shop[0]) & (rows.day == rows.day[0])
    request = local_request(rows[~first], test=rows[first], target="sales", keys=["shop", "day"], domains=Domains(corpus))
    held_out = request.test.counts
    assert held_out.max() == first.sum() and request.train.counts[held_out.argmax()] == 0


def test_the_test_table_is_measured_around_the_training_tables_origin(rows):
    train, test = rows[:2000], rows[2000:]
    request = local_request(train, test=test, target="sales", features=["price"], keys=KEYS)
    unit = request.terms.units["price"]
    assert unit.offset == pytest.approx(train.price.mean())
    mean = unit.offset + unit.scale * request.test.means[0]
    assert mean == pytest.approx(test.price.mean())


def test_rows_without_a_target_are_left_out_and_missing_features_take_the_mean(rows):
    holed = rows.copy()
    holed.loc[:99, "sales"] = np.nan
    holed.loc[200:299, "price"] = np.nan
    holed.loc[300, "price"] = np.inf
    request = local_request(holed, target="sales", features=["price"], keys=KEYS)
    kept = holed[holed.sales.notna()]
    finite = kept.price.replace(np.inf, np.nan)
    assert request.train.count == len(kept)
    assert any("100 rows of the training table have no target" in note for note in request.terms.notes)
    _, sums, _ = original(request, "price")
    assert sums.sum() == pytest.approx(finite.fillna(finite.mean()).sum())


def test_keys_outside_their_domain_and_missing_ones_share_the_place_outside(rows):
    strange = rows.copy()
    strange.loc[:9, "shop"] = "99"
    strange.loc[10:19, "shop"] = None
    request = local_request(strange, target="sales", keys=KEYS)
    outside = request.key.places[:, 0] == len(SHOPS)
    assert outside.sum() == 1
    assert request.train.counts[outside] == 20


def test_times_belong_to_their_days(rows, corpus):
    timed = rows.assign(day=pd.to_datetime(rows.day) + pd.Timedelta(hours=7))
    by_time = local_request(timed, target="sales", keys=["day"], domains=Domains(corpus))
    by_day = local_request(rows, target="sales", keys=["day"], domains=Domains(corpus))
    np.testing.assert_array_equal(by_time.train.counts, by_day.train.counts)
    assert by_time.train.counts[-1] == 0  # none of them outside


def test_the_card_says_which_columns_and_domains_are_meant(rows):
    facts = card("mine") | {"features": {"cost": {"column": "price", "bounds": [0, 5000]}, "sales": {"bounds": [0, 9999]}}}
    facts["keys"]["both"] = {"parts": ["shop", "day"]}
    request = local_request(rows, target="sales", keys=["both"], card=Card.parse(facts))
    assert request.train.features == ("cost", "sales")
    assert [key.name for key in request.terms.keys] == ["shop", "day"]
    assert request.terms.units["cost"].offset == pytest.approx(rows.price.mean())


# ------------------------------------------------------------------------------------------------ domains of a corpus


def test_a_columns_domain_is_found_in_the_corpus_and_its_coverage_told(rows, corpus):
    strange = rows.copy()
    strange.loc[: len(rows) // 4 - 1, "shop"] = "elsewhere"
    request = local_request(strange, target="sales", keys=["shop"], domains=Domains(corpus))
    assert request.terms.keys[0].domains[0].id == "shops"
    assert "key shop: shops (12 keys) covers 75 % of the rows" in request.terms.notes


def test_days_found_in_the_corpus_bring_their_months_and_weeks(rows, corpus):
    request = local_request(rows, target="sales", keys=["day"], domains=Domains(corpus))
    assert [name for name, _ in request.terms.keys[0].domains[0].parents] == ["month", "year", "week"]


def test_a_column_is_looked_up_in_every_domain_that_holds_its_values(rows, corpus, sketch_of, levels):
    longer = card("longer", keys={"day": {"domain": {"dates": ["2012-01-01", "2013-12-31"]}}})
    assert corpus.add([sketch_of(provider_rows(levels["day"], "day"), longer, "day")]) == []
    request = local_request(rows, target="sales", keys=["day"], domains=Domains(corpus))
    assert len(request.terms.keys[0].domains) == 2
    assert len(request.key) == rows.day.nunique()


def test_a_key_in_no_domain_is_told_by_name_and_the_others_are_still_used(rows, corpus):
    strange = rows.assign(color="mauve")
    with pytest.raises(InvalidInput, match="column 'color' are in no key domain") as caught:
        local_request(strange, target="sales", keys=["color"], domains=Domains(corpus))
    assert "mauve" not in str(caught.value)
    request = local_request(strange, target="sales", keys=["color", "shop"], domains=Domains(corpus))
    assert [key.name for key in request.terms.keys] == ["shop"]
    assert any("'color'" in note for note in request.terms.notes)


def test_a_key_coarser_than_all_providers_keys_is_explained(rows, tmp_path, sketches):
    corpus = Corpus.create(tmp_path / "days-only")
    corpus.add(sketches[1:])
    with pytest.raises(InvalidInput, match="coarser than every key"):
        local_request(rows.assign(month=rows.day.str[:7]), target="sales", keys=["month"], domains=Domains(corpus))


def test_a_domain_can_be_named(rows, corpus):
    request = local_request(rows, target="sales", keys={"shop": "shops"}, domains=Domains(corpus))
    assert request.terms.keys[0].domains[0].id == "shops"
    with pytest.raises(SaibotError, match="no key domain 'shps'"):
        local_request(rows, target="sales", keys={"shop": "shps"}, domains=Domains(corpus))


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        ({}, {"target": "profit"}, "no column 'profit'"),
        ({}, {"target": "sales", "features": ["weight"]}, "no column 'weight'"),
        ({}, {"target": "sales", "features": ["sales"]}, "cannot be one of the features"),
        ({}, {"target": "sales", "features": ["price", "price"]}, "named twice"),
        ({"price": "secret"}, {"target": "sales", "features": ["price"]}, "column 'price' holds text"),
        ({"sales": "secret"}, {"target": "sales"}, "column 'sales' holds text"),
        ({"sales": np.nan}, {"target": "sales"}, "no row of the training table has a target"),
        ({"sales": 1.5}, {"target": "sales"}, "the same in every row"),
        ({"price": np.nan}, {"target": "sales", "features": ["price"]}, "no value"),
    ],
)
def test_bad_input_is_told_by_column_and_never_by_cell(rows, change, arguments, said):
    with pytest.raises(SaibotError, match=said) as caught:
        local_request(rows.assign(**change), keys=KEYS, **arguments)
    assert "secret" not in str(caught.value)


def test_a_column_of_several_types_is_refused_without_a_cell(rows):
    mixed = rows.assign(price=[1.5, "secret"] * (len(rows) // 2)).astype({"price": object})
    with pytest.raises(InvalidTable, match="'price'") as caught:
        local_request(mixed, target="sales", features=["price"], keys=KEYS)
    assert "secret" not in str(caught.value)


def test_an_offset_of_a_billion_does_not_cancel(rows):
    far = rows.assign(sales=rows.sales + 1e9)
    near, there = (local_request(frame, target="sales", keys=KEYS).train for frame in (rows, far))
    np.testing.assert_allclose(there.sums, near.sums, atol=1e-5)


@pytest.mark.parametrize("factor", [1e290, 1e-290, 1e9])
def test_units_of_any_size_give_the_same_scaled_moments(rows, factor):
    near, there = (
        local_request(frame, target="sales", features=["price"], keys=KEYS).train
        for frame in (rows, rows.assign(price=rows.price * factor))
    )
    np.testing.assert_allclose(there.products, near.products, rtol=1e-9)


def test_a_feature_whose_mean_is_no_number_is_refused():
    table = pd.DataFrame({"y": [1.0, 2.0, 3.0], "x": [1.7e308, 1.7e308, 1.0]})
    with pytest.raises(InvalidTable, match="'x' has a value beyond 1e\\+300"):
        local_request(table, target="y", features=["x"])


@pytest.mark.parametrize("features", [None, ["price"]])
@pytest.mark.parametrize("which", ["training", "test"])
def test_a_file_with_a_header_alone_is_told_to_have_no_rows(rows, tmp_path, which, features):
    """Not that its columns hold text, which is what a column without cells is read as."""
    (tmp_path / "header.csv").write_text(",".join(rows.columns) + "\n")
    tables = {"training": (tmp_path / "header.csv", None), "test": (rows, tmp_path / "header.csv")}[which]
    with pytest.raises(InvalidTable, match=f"the {which} table has columns and no rows"):
        local_request(tables[0], test=tables[1], target="sales", features=features, keys=KEYS)
