"""A result explored with rows: held against scikit-learn and pandas; and nothing of the rows is in what is saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from saibot.client import Augmented, Corpus, Domains, SearchOptions, find_augmentation, local_request
from saibot.client.fit_on_rows import MOST_POINTS, fit_on_rows
from saibot.errors import InvalidInput
from saibot.search.key_maps import RequestKey
from saibot.sketch import KeyDomain

TRAIN, TEST = slice(0, 2000), slice(2000, None)


def searched(rows: pd.DataFrame, corpus: Corpus, *, test: bool = True, **more: Any) -> Augmented:
    request = local_request(
        rows[TRAIN],
        test=rows[TEST] if test else None,
        target="sales",
        features=["price"],
        keys=["shop", "day"],
        domains=Domains(corpus),
        **more,
    )
    return find_augmentation(request, corpus, SearchOptions(engine="threads"))


@pytest.fixture
def found(rows: pd.DataFrame, corpus: Corpus) -> Augmented:
    return searched(rows, corpus)


def left(found: Augmented, rows: pd.DataFrame, columns: list[str]) -> np.ndarray:
    wide = found.augment(rows)
    fitted = LinearRegression().fit(wide[TRAIN][columns].to_numpy(), wide[TRAIN].sales)
    return np.asarray(wide[TEST].sales - fitted.predict(wide[TEST][columns].to_numpy()))


def test_held_out_rows_are_predicted_as_scikit_learn_predicts_them(found: Augmented, rows: pd.DataFrame) -> None:
    fit = found.explore().fit
    assert fit is not None and fit.before is not None and "held out" in fit.which and fit.rows == len(rows[TEST])
    for model, columns in ((fit.before, ["price"]), (fit.after, ["price", *found.columns])):
        error = left(found, rows, columns)
        assert model.root_mean_square == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-6)
        assert model.mean_absolute == pytest.approx(np.abs(error).mean(), rel=1e-6)
        assert model.within == pytest.approx(np.quantile(np.abs(error), 0.9), rel=1e-6)
    assert fit.after.r2 == pytest.approx(found.path().test_r2.iloc[-1], abs=0.01) and fit.after.r2 > fit.before.r2 + 0.3


def test_what_is_left_by_key_is_the_mean_by_key_with_its_standard_error(found: Augmented, rows: pd.DataFrame) -> None:
    frame = found.explore().residuals()
    assert set(frame.part) == {"shop", "day"}
    error = pd.Series(left(found, rows, ["price", *found.columns]), index=rows[TEST].shop.to_numpy())
    mine = frame[frame.part == "shop"].set_index("key")
    expected = error.groupby(level=0).agg(["mean", "size"])
    np.testing.assert_allclose(mine.after, expected["mean"].reindex(mine.index), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mine.rows, expected["size"].reindex(mine.index))
    within = float(((error - error.groupby(level=0).transform("mean")) ** 2).sum()) / (len(error) - len(expected))
    np.testing.assert_allclose(mine.after_error, np.sqrt(within / mine.rows), rtol=1e-4)


def test_a_saved_result_predicts_the_same_rows_alike_and_holds_nothing_of_them(
    found: Augmented, rows: pd.DataFrame, corpus: Corpus, tmp_path: Path
) -> None:
    found.save(tmp_path / "result.json")
    text = (tmp_path / "result.json").read_text()
    assert not {"residuals", "points", "fit"} & set(json.loads(text))
    loaded = Augmented.load(tmp_path / "result.json", corpus)
    assert loaded.explore().fit is None, "rows are not at hand"
    again, first = loaded.explore(rows[TEST]).fit, found.explore().fit
    assert again is not None and first is not None and again.before is not None and first.before is not None
    assert again.after.r2 == pytest.approx(first.after.r2, abs=1e-9)
    assert again.before.r2 == pytest.approx(first.before.r2, abs=1e-9)
    renamed = rows[TEST].rename(columns={"shop": "branch"})
    assert loaded.explore(renamed, columns={"shop": "branch"}).fit == again
    with pytest.raises(InvalidInput, match="no column 'sales'"):
        loaded.explore(rows[TEST].drop(columns="sales"))


def test_without_a_test_table_no_row_is_predicted_by_a_model_that_saw_it(rows: pd.DataFrame, corpus: Corpus) -> None:
    """A nearest neighbour knows every row it has seen: in its own rows it would have an R² of 1."""
    from sklearn.neighbors import KNeighborsRegressor

    rng = np.random.default_rng(0)
    noise = rows.assign(sales=rng.normal(size=len(rows)))
    fit = searched(noise, corpus, test=False, model=KNeighborsRegressor(1)).explore().fit
    assert fit is not None and fit.after.r2 < 0.1 and "without itself" in fit.which


def test_pictures_tables_and_the_report_are_there_by_name(found: Augmented, tmp_path: Path) -> None:
    explored = found.explore()
    assert {"coefficients", "budgets", "left unexplained by day", "left unexplained by shop"} <= set(explored.pictures)
    explored.pictures["coefficients"].save(tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    asked = explored.what_if()
    assert (
        set(asked.column) >= set(found.columns)
        and asked.groupby("column").epsilon.apply(lambda e: e.is_monotonic_increasing).all()
    )
    assert "<svg" in explored._repr_html_() and repr(explored).startswith("Explored(steps")
    found.report(tmp_path / "found.html")
    text = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert "Nine rows of ten are within" in text and "<script" not in text
    explored.at(10).report(tmp_path / "ten.html")
    assert "What if ε were 10?" in (tmp_path / "ten.html").read_text(encoding="utf-8")


def test_two_results_are_compared_as_a_frame_a_picture_and_a_file(
    found: Augmented, rows: pd.DataFrame, corpus: Corpus, tmp_path: Path
) -> None:
    request = local_request(rows[TRAIN], target="sales", features=["price"], keys=["shop"], domains=Domains(corpus))
    compared = found.compare(find_augmentation(request, corpus))
    frame = compared.to_frame().set_index("candidate")
    assert frame.loc["shops-survey.level", "first_gain"] > 0 and pd.isna(frame.loc["day-weather.level", "second_gain"])
    assert "explains sales better" in compared.headline and compared.headline in repr(compared)
    compared.plot(tmp_path / "both.svg")
    compared.report(tmp_path / "both.html")
    assert "<svg" in compared._repr_html_() and "<script" not in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_many_rows_are_squares_and_yes_or_no_is_its_calibration_alone() -> None:
    rng = np.random.default_rng(0)
    size = MOST_POINTS + 500
    x, codes = rng.normal(size=size), np.zeros(size, np.intp)
    many = fit_on_rows("", x + rng.normal(size=size), None, x, None, codes)
    assert many.before is None and not many.after.points and sum(cell.rows for cell in many.after.cells) == size
    assert sum(point.rows for point in many.after.calibration) == size and many.residuals == ()
    yes = fit_on_rows("", (x > 0).astype(float), None, x, None, codes)
    assert not yes.after.points and not yes.after.cells and len(yes.after.calibration) == 10
    holes = np.where(np.arange(size) % 2, np.nan, x)
    assert fit_on_rows("", holes, x, x, None, codes).rows == size / 2
    with pytest.raises(InvalidInput, match="fewer than two rows"):
        fit_on_rows("", np.full(3, np.nan), None, np.zeros(3), None, np.zeros(3, np.intp))


def test_of_two_lists_that_a_key_was_looked_up_in_the_one_that_has_its_rows_is_shown() -> None:
    some, all_of_them = KeyDomain.of("some", ["a"]), KeyDomain.of("all", ["a", "b"])
    places = np.array([[0, 0], [1, 1]])
    key = RequestKey((("shop", some), ("shop", all_of_them)), places)
    (part,) = fit_on_rows("", np.array([1.0, 2, 3, 4]), None, np.zeros(4), key, np.array([0, 0, 1, 1])).residuals
    assert (part.domain, part.keys, part.after, part.before) == ("all", ("a", "b"), (1.5, 3.5), ())
