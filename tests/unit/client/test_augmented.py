"""What was found, used: as a frame, a picture, new columns, a model, a file. Held against pandas and scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from sklearn.linear_model import LinearRegression

from saibot.client import Augmented, Corpus, Domains, SearchOptions, find_augmentation, local_request
from saibot.domains import generated_domain
from saibot.errors import InvalidInput
from saibot.estimate.lookup import lookup_values
from saibot.privacy import Budget

from .conftest import SHOPS, card, provider_rows

SMALL = Budget("1", "1e-6")  # the test's noise is none, but values are shrunk as if it were of this size


@pytest.fixture
def found(rows, corpus) -> Augmented:
    return search(rows, corpus)


def search(rows, corpus, **options) -> Augmented:
    request = local_request(
        rows[:2000], test=rows[2000:], target="sales", features=["price"], keys=["shop", "day"], domains=Domains(corpus)
    )
    return find_augmentation(request, corpus, SearchOptions(engine="threads", **options))


def provider_values(sketch) -> pd.Series:
    """What the provider's sketch says of every key, in original units: the table that a person would join.

    A corpus holds deviations from the mean as float32, so they are rounded to that here as well.
    """
    parents = []
    if sketch.header.key.levels:
        from saibot.domains import generated_domain

        domain = generated_domain(sketch.header.key.parts[0].domain).with_levels(sketch.header.key.levels)
        parents = [domain.parent_index(i + 1) for i in range(len(domain.level_names))]
    feature = sketch.header.features[0]
    found = lookup_values(sketch, parents)
    held = found.prior_mean[0] + (found.values[0] - found.prior_mean[0]).astype(np.float32).astype(np.float64)
    return pd.Series(feature.offset + feature.scale * held, index=sketch.levels[0].keys[0])


def test_both_tables_are_found_and_the_held_out_error_falls(found):
    assert set(found.columns) == {"shops-survey.level", "day-weather.level"}
    path = found.path()
    assert path.test_r2.iloc[-1] > path.test_r2.iloc[0] + 0.3
    assert path.train_r2.is_monotonic_increasing


def test_augment_is_a_left_join_of_the_providers_values(found, rows, sketches):
    shuffled = rows.sample(frac=1, random_state=1)
    wide = found.augment(shuffled)
    assert list(wide.columns) == [*rows.columns, *found.columns]
    pd.testing.assert_frame_equal(wide[rows.columns], shuffled)
    for sketch, key in zip(sketches, ("shop", "day"), strict=True):
        joined = shuffled[[key]].join(provider_values(sketch).rename("value"), on=key)
        np.testing.assert_allclose(wide[f"{sketch.header.dataset.name}.level"], joined.value, rtol=1e-9)


def test_without_noise_the_values_are_the_providers_means(found, rows, levels):
    wide = found.augment(rows)
    error = wide["shops-survey.level"] - wide.shop.map(levels["shop"])
    assert error.abs().max() < 1.5  # 40 rows of spread 2 behind each mean


def test_keys_outside_get_one_value_and_no_row_is_lost(found, rows):
    strange = pd.concat([rows.head(3), rows.head(2).assign(shop=["99", None])])
    wide = found.augment(strange)
    assert len(wide) == 5
    outside = wide["shops-survey.level"].iloc[3:]
    assert outside.notna().all() and outside.nunique() == 1
    mean = next(column.mean for column in found.result.columns if column.dataset == "shops-survey")
    assert outside.iloc[0] == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "kind"),
    [(lambda f: f, pd.DataFrame), (pl.from_pandas, pl.DataFrame), (pa.Table.from_pandas, pa.Table)],
)
def test_the_same_kind_of_frame_comes_back(found, rows, make, kind):
    wide = found.augment(make(rows))
    assert isinstance(wide, kind)
    assert len(wide) == len(rows)
    values = wide["shops-survey.level"]
    np.testing.assert_allclose(np.asarray(values), found.augment(rows)["shops-survey.level"])


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "arrow"])
def test_files_are_augmented_to_files_and_old_cells_stay_what_they_were(found, rows, tmp_path, ending):
    source, out = tmp_path / "rows.csv", tmp_path / f"wide.{ending}"
    rows.assign(code="007", text='a "b", c').to_csv(source, index=False)
    found.augment(source, out=out)
    if ending == "parquet":
        wide = parquet.read_table(out).to_pandas()
    elif ending == "arrow":
        wide = pa.ipc.open_file(out).read_all().to_pandas()
    else:
        wide = pd.read_csv(out, dtype={"shop": str, "code": str}, sep="\t" if ending == "tsv" else ",")
        assert set(wide.code) == {"007"}
    assert set(wide.text) == {'a "b", c'}
    np.testing.assert_allclose(wide["day-weather.level"], found.augment(rows)["day-weather.level"])
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_the_model_is_least_squares_on_the_augmented_rows(found, rows):
    train, test = rows[:2000], rows[2000:]
    wide = found.augment(train)
    names = ["price", *found.columns]
    slow = LinearRegression().fit(wide[names].to_numpy(), wide.sales)
    model = found.model()
    assert list(model.feature_names_in_) == names
    np.testing.assert_allclose(model.coef_, slow.coef_, rtol=1e-7)
    np.testing.assert_allclose(
        model.predict(test), slow.predict(found.augment(test)[names].to_numpy()), rtol=1e-9, atol=1e-6
    )
    np.testing.assert_allclose(model.predict(found.augment(test)), model.predict(test), rtol=1e-12)
    assert model.score(test) == pytest.approx(found.path().test_r2.iloc[-1], abs=1e-8)
    assert model.score(train) == pytest.approx(found.path().train_r2.iloc[-1], abs=1e-8)


def test_predicting_fills_missing_features_with_the_training_mean(found, rows):
    holed = rows.head(5).assign(price=np.nan)
    full = rows.head(5).assign(price=rows.price[:2000].mean())
    np.testing.assert_allclose(found.model().predict(holed), found.model().predict(full))


def test_coefficients_are_told_in_original_units(found, rows):
    wide = found.augment(rows[:2000])
    first = found.to_frame().iloc[0]
    column = f"{first.dataset}.{first.feature}"
    slow = LinearRegression().fit(wide[["price", column]].to_numpy(), wide.sales)
    assert first.coefficient == pytest.approx(slow.coef_[1], rel=1e-6)


def test_a_saved_result_does_the_same_with_the_corpus_it_names(found, rows, corpus, tmp_path):
    found.save(tmp_path / "result.json")
    again = Augmented.load(tmp_path / "result.json", Corpus(corpus.folder))
    pd.testing.assert_frame_equal(again.augment(rows), found.augment(rows))
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())
    np.testing.assert_allclose(again.model().predict(rows), found.model().predict(rows))
    assert repr(again) == repr(found)


def test_a_result_of_another_corpus_is_refused(found, rows, tmp_path):
    found.save(tmp_path / "result.json")
    other = Corpus.create(tmp_path / "other")
    with pytest.raises(InvalidInput, match="does not hold the sketch"):
        Augmented.load(tmp_path / "result.json", other).augment(rows)
    with pytest.raises(InvalidInput, match="come from its corpus"):
        Augmented.load(tmp_path / "result.json").augment(rows)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: "{", "damaged"),
        (lambda d: "[]", "no result"),
        (lambda d: json.dumps(d | {"version": 2}), "another format version"),
        (lambda d: json.dumps({k: v for k, v in d.items() if k != "steps"}), "its steps"),
        (lambda d: json.dumps(d | {"columns": [{"name": "x"}]}), "its columns"),
        (lambda d: json.dumps(d | {"keys": []}), "its columns"),
    ],
)
def test_a_damaged_result_is_refused(found, tmp_path, damage, said):
    path = tmp_path / "result.json"
    path.write_text(damage(found.result.to_json()))
    with pytest.raises(InvalidInput, match=said):
        Augmented.load(path)


def test_renamed_key_columns_are_named_at_augmenting(found, rows):
    renamed = rows.rename(columns={"shop": "store"})
    with pytest.raises(InvalidInput, match="no column 'shop'"):
        found.augment(renamed)
    wide = found.augment(renamed, columns={"shop": "store"})
    np.testing.assert_allclose(wide["shops-survey.level"], found.augment(rows)["shops-survey.level"])
    with pytest.raises(InvalidInput, match="no key 'sjop'"):
        found.augment(renamed, columns={"sjop": "store"})


def test_augmenting_twice_is_noticed(found, rows):
    with pytest.raises(InvalidInput, match="already"):
        found.augment(found.augment(rows))


def test_two_editions_of_a_dataset_get_columns_of_their_own(rows, corpus, sketch_of, levels):
    rng = np.random.default_rng(3)
    home = {shop: float(np.clip(level + rng.normal(0, 9), 0, 100)) for shop, level in levels["shop"].items()}
    again = sketch_of(provider_rows(home, "shop", seed=1), card("shops-survey"), "shop")
    corpus.add([again])
    request = local_request(rows, target="sales", features=["price"], keys=["shop"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads"))
    assert len(set(found.columns)) == len(found.columns)
    wide = found.augment(rows)
    slow = LinearRegression().fit(wide[["price", *found.columns]].to_numpy(), wide.sales)
    np.testing.assert_allclose(
        found.model().predict(rows), slow.predict(wide[["price", *found.columns]].to_numpy()), rtol=1e-7
    )


def test_a_search_that_takes_nothing_still_has_a_frame_a_picture_and_a_model(rows, corpus, tmp_path):
    aimless = rows.assign(sales=np.random.default_rng(0).normal(size=len(rows)))
    request = local_request(aimless, target="sales", features=["price"], keys=["shop"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads", confidence=0.999))
    assert found.columns == ()
    assert len(found.to_frame()) == 1
    found.plot(tmp_path / "nothing.png")
    assert found.model().predict(aimless).shape == (len(rows),)
    pd.testing.assert_frame_equal(found.augment(aimless), aimless)


def test_the_picture_is_written_and_has_two_labelled_panels(found, tmp_path):
    drawn = found.plot(tmp_path / "found.png")
    assert (tmp_path / "found.png").stat().st_size > 10_000
    shown = drawn._repr_svg_()
    assert "R² step by step" in shown and "gain in R² of each candidate" in shown
    assert all(column in shown for column in found.columns)


def test_the_report_is_one_file_with_the_chosen_columns_in_it(found, tmp_path):
    found.report(tmp_path / "found.html")
    page = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and all(column in page for column in found.columns)


# ------------------------------------------------------------------------------------------------ unions


def test_rows_of_a_table_with_the_same_columns_are_added_and_the_model_is_that_of_all_rows(rows, corpus, sketch_of):
    """Few own rows, many elsewhere: the model should be the one that both tables give together."""
    facts = {"price": {"bounds": [1980, 2020]}, "sales": {"bounds": [3900, 4100]}}
    mine, theirs, held_out = rows[:8], rows[8:2000], rows[2000:]
    corpus.add([sketch_of(theirs, card("more-sales", features=facts), "shop")])
    request = local_request(mine, test=held_out, target="sales", features=["price"], keys=["shop"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads", steps=1, joins=False))
    assert list(found.path().column[1:]) == ["rows of more-sales"]
    together = pd.concat([mine, theirs])
    slow = LinearRegression().fit(together[["price"]].to_numpy(), together.sales)
    np.testing.assert_allclose(found.model().predict(held_out), slow.predict(held_out[["price"]].to_numpy()), atol=0.1)
    assert found.model().score(held_out) == pytest.approx(found.path().test_r2.iloc[-1], abs=1e-3)
    ranked = found.to_frame()
    assert found.columns == () and list(ranked.kind) == ["union"]
    assert ranked.lower[0] < ranked.gain[0] < ranked.upper[0]
    found.plot()


def test_after_a_union_columns_are_still_joined_to_all_rows(rows, corpus, sketch_of):
    facts = {"price": {"bounds": [1980, 2020]}, "sales": {"bounds": [3900, 4100]}}
    mine, theirs, held_out = rows[:10], rows[10:2000], rows[2000:]
    corpus.add([sketch_of(theirs, card("more-sales", features=facts), "shop")])
    request = local_request(mine, test=held_out, target="sales", features=["price"], keys=["shop"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads"))
    kinds = [step.kind for step in found.result.steps]
    assert kinds[0] == "union" and "join" in kinds
    together = found.augment(pd.concat([mine, theirs]))
    names = ["price", *found.columns]
    slow = LinearRegression().fit(together[names].to_numpy(), together.sales)
    expected = slow.predict(found.augment(held_out)[names].to_numpy())
    np.testing.assert_allclose(found.model().predict(held_out), expected, atol=0.5)
    assert found.model().score(held_out) == pytest.approx(found.path().test_r2.iloc[-1], abs=1e-3)


# ------------------------------------------------------------------------------------------------ one hop further


def test_values_that_another_dataset_leads_to_are_joined_and_predicted_with(rows, tmp_path, sketch_of):
    """The request has shops; visitors are known by shop and town, incomes by town only."""
    rng = np.random.default_rng(5)
    towns = [f"t{i}" for i in range(6)]
    keys = card("x")["keys"] | {"town": {"domain": {"values": towns, "id": "towns"}}, "both": {"parts": ["shop", "town"]}}
    income = dict(zip(towns, rng.uniform(10, 90, 6), strict=True))
    share = rng.dirichlet(np.full(6, 0.5), len(SHOPS))
    pairs = [(shop, town) for shop in SHOPS for town in towns]
    visits = pd.DataFrame(pairs, columns=["shop", "town"]).assign(level=50.0)
    visits = visits.loc[np.repeat(visits.index, np.rint(200 * share.ravel()).astype(int))]
    corpus = Corpus.create(tmp_path / "hops")
    corpus.add([
        sketch_of(visits, card("visits", keys=keys), "both"),
        sketch_of(provider_rows(income, "town"), card("incomes", keys=keys), "town"),
    ])  # fmt: skip
    mean = visits.assign(income=visits.town.map(income)).groupby("shop").income.mean()
    mine = rows.assign(sales=rows.shop.map(mean) + rng.normal(0, 2, len(rows)))
    request = local_request(mine, target="sales", features=[], keys=["shop"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads", hops=True, always_first=True, steps=1))
    assert found.columns == ("incomes via visits.level",)
    found.save(tmp_path / "result.json")
    again = Augmented.load(tmp_path / "result.json", Corpus(corpus.folder))
    wide = again.augment(mine)
    np.testing.assert_allclose(wide[found.columns[0]], mine.shop.map(mean), atol=1.5)
    slow = LinearRegression().fit(wide[[*found.columns]].to_numpy(), wide.sales)
    np.testing.assert_allclose(again.model().predict(mine), slow.predict(wide[[*found.columns]].to_numpy()), rtol=1e-8)


def test_two_columns_with_one_domain_are_joined_each_in_its_own_right(rows, corpus, levels):
    """From shop to shop: what the survey says of either end is a candidate, and both may be taken."""
    rng = np.random.default_rng(9)
    target = rng.choice(list(SHOPS), len(rows))
    sales = rows.shop.map(levels["shop"]) - 2 * pd.Series(target).map(levels["shop"]) + rng.normal(0, 5, len(rows))
    moved = rows.assign(to=target, sales=sales)
    request = local_request(moved, target="sales", features=[], keys=["shop", "to"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads"))
    assert list(found.to_frame().key[:2]) == ["to", "shop"]
    assert found.columns == ("shops-survey.level", "shops-survey.level.2")
    wide = found.augment(moved)
    np.testing.assert_allclose(wide["shops-survey.level"], wide.to.map(levels["shop"]), atol=1.5)
    np.testing.assert_allclose(wide["shops-survey.level.2"], wide.shop.map(levels["shop"]), atol=1.5)
    slow = LinearRegression().fit(wide[[*found.columns]].to_numpy(), wide.sales)
    np.testing.assert_allclose(found.model().coef_, slow.coef_, rtol=1e-7)
    assert list(found.to_frame().step[:2]) == [1, 2]
    found.plot()


# ------------------------------------------------------------------------------------------------ a platform's document


class Fetched:
    """Gives sketches by digest, as a platform's client does, and knows the domains that it is told."""

    def __init__(self, sketches, domains=()):
        self._sketches = {sketch.digest: sketch for sketch in sketches}
        self._domains = {domain.keys_digest: domain for domain in domains}

    def sketch(self, digest):
        return self._sketches[digest]

    def domain(self, part):
        return self._domains.get(part.keys_digest)


def test_a_document_from_elsewhere_is_used_with_sketches_fetched_by_digest(found, rows, sketches):
    sent = json.loads(found.result.text())
    again = Augmented(sent, Fetched(sketches))
    for name in found.columns:
        np.testing.assert_allclose(again.augment(rows)[name], found.augment(rows)[name], rtol=1e-6)
    np.testing.assert_allclose(again.model().predict(rows), found.model().predict(rows), rtol=1e-6)
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())


def test_values_packed_without_their_levels_are_read_without_them(rows, sketches, tmp_path, sketch_of, monkeypatch):
    """A corpus that does not know a key's levels has other values than one that does; the document tells which."""
    by_month = {f"2013-{m:02d}-{d:02d}": 30.0 * m - 15 + d / 2 for m in (1, 2, 3) for d in range(1, 29)}
    weather = sketch_of(provider_rows(by_month, "day", each=20), card("w"), "day", budget=SMALL)
    days = generated_domain(weather.header.key.parts[0].domain)
    seen = []
    for known in (True, False):
        corpus = Corpus.create(tmp_path / f"levels{known}")
        if not known:  # as of a domain that nobody gave: days are known by their id
            monkeypatch.setattr(corpus, "domain_of", lambda sketch: None)
        assert corpus.add([weather]) == []
        request = local_request(rows, target="sales", features=[], keys=["day"], domains=Domains(corpus))
        here = find_augmentation(request, corpus, SearchOptions(always_first=True, steps=1))
        there = Augmented(here.result, Fetched([weather], [days]))
        seen.append(there.augment(rows)["w.level"])
        np.testing.assert_allclose(seen[-1], here.augment(rows)["w.level"], rtol=1e-5)
    assert np.abs(seen[0] - seen[1]).max() > 0.1


def test_another_sketch_than_the_one_asked_for_is_refused(found, rows, sketches):
    swapped = Fetched([])
    swapped.sketch = lambda digest: next(sketch for sketch in sketches if sketch.digest != digest)
    with pytest.raises(InvalidInput, match="another one was given"):
        Augmented(found.result, swapped).augment(rows)


def test_a_document_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="no result of a search"):
        Augmented({"items": []})


def test_a_notebook_shows_the_answer_the_chart_and_the_steps(found):
    shown = found._repr_html_()
    assert "<svg" in shown and "<script" not in shown
    assert all(f"<td>{column}</td>" in shown for column in found.columns)
    assert f"{found.path().test_r2.iloc[-1]:.3f}" in shown


@pytest.mark.parametrize("strategy", ["greedy", "exhaustive"])
def test_the_table_of_coefficients_is_least_squares_on_the_augmented_rows(rows, corpus, strategy):
    found = search(rows, corpus, strategy=strategy)
    assert len(found.columns) == 2
    wide = found.augment(rows[:2000])
    names = ["price", *found.columns]
    fitted = LinearRegression().fit(wide[names], wide.sales)
    told = found.coefficients().set_index("column")
    assert list(told.index) == ["intercept", *names]
    np.testing.assert_allclose(told.coefficient, [fitted.intercept_, *fitted.coef_], rtol=1e-5)
    assert ((told.lower < told.coefficient) & (told.coefficient < told.upper)).all()
    assert told.loc["price"].lower < 2 < told.loc["price"].upper  # what the rows were made with
    assert ((told.exact_lower < told.coefficient) & (told.coefficient < told.exact_upper)).all()
    np.testing.assert_allclose(told.exact_upper - told.exact_lower, told.upper - told.lower, rtol=0.05)
    assert told.bound_lower.isna().all(), "rows of one's own have no noise to be bounded"


def test_names_of_strangers_are_no_formulas_in_a_csv_and_own_columns_stay(tmp_path):
    from saibot.client.tables import write_augmented

    (tmp_path / "own.csv").write_text("=own,-x\n01,2\n")
    names = ["=HYPERLINK(1).x", "+a.x", "-a.x", "@a.x", "\ta.x", "plain.x"]
    new = {name: np.array([1.5]) for name in names}
    for source in (tmp_path / "own.csv", pd.DataFrame({"=own": ["01"], "-x": [2]})):
        write_augmented(source, new, tmp_path / "wider.csv")
        heads = (tmp_path / "wider.csv").read_text().splitlines()[0].split(",")
        assert heads == ["=own", "-x", *(f"'{name}" for name in names[:-1]), "plain.x"]
    write_augmented(tmp_path / "own.csv", new, tmp_path / "wider.parquet")
    assert parquet.read_table(tmp_path / "wider.parquet").column_names[2:] == names, "which no spreadsheet takes for text"
