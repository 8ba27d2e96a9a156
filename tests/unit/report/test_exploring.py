"""What a result lets one explore: coefficients by one standard deviation, residuals by key, predictions, other budgets."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from saibot.report.explore_charts import AFTER, BEFORE
from saibot.report.explore_terminal import show_explored
from saibot.report.exploring import explore_view, narrowed
from saibot.report.html import report_html
from saibot.report.notebook import gallery_html
from saibot.report.places import shapes_of
from saibot.report.residual_charts import MOST_BARS, residuals, striking
from saibot.report.result import view_result
from saibot.wire import FitOnRows, KeyResiduals
from tests.unit.report.test_html import Seen

Make = Callable[..., dict[str, Any]]
MODEL = {
    "target": {"name": "arr_delay", "column": "arr_delay", "unit": "minute"},
    "own": [{"name": "distance", "column": "distance", "missing": 0.0, "unit": "mile"}],
    "lookups": ["agency-0-2013.temp"],
    "coefficients": {"distance": -0.002, "agency-0-2013.temp": 0.5},
    "intercept": 3.0,
    "intervals": {"agency-0-2013.temp": [0.4, 0.6]},
    "spreads": {"distance": 700.0, "agency-0-2013.temp": 10.0},
}
COLUMN = {
    "name": "agency-0-2013.temp",
    "dataset": "agency-0-2013",
    "digest": "0" * 64,
    "feature": "temp",
    "key": [{"part": "day", "level": None}],
    "unit": "degree F",
}


def part(domain: str, keys: list[str], *, before: bool = True) -> dict[str, Any]:
    n = len(keys)
    values = [(-1) ** i * (i + 1) / n for i in range(n)]
    return {
        "key": "place",
        "domain": domain,
        "keys": keys,
        "rows": [100.0] * n,
        "before": [2 * value for value in values] if before else [],
        "before_error": [0.1] * n if before else [],
        "after": values,
        "after_error": [0.1] * n,
    }


def other(name: str = "agency-0-2013.temp", **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "dataset": "agency-0-2013",
        "digest": "0" * 64,
        "taken": True,
        "budget": {"epsilon": "1", "delta": "1e-6"},
        "kept": [0.1, 0.5, 0.9],
        "kept_interval": [[0.05, 0.2], [0.4, 0.6], [0.85, 0.95]],
        "kept_now": 0.5,
        "gain": [0.02, 0.1, 0.18],
        "gain_interval": [[0.01, 0.03], [0.08, 0.12], [0.15, 0.2]],
        "gain_now": 0.1,
        "gain_interval_now": [0.08, 0.12],
    } | changes


def explored_document(make: Make, **changes: Any) -> dict[str, Any]:
    asked = {"epsilons": [0.1, 1.0, 10.0], "columns": [other()], "request": {"epsilon": "1", "delta": "1e-6"}}
    asked |= {"request_noise": [8.0, 1.0, 0.2]}
    days = [f"2013-01-{i:02d}" for i in range(1, 31)]
    document = {
        "model": MODEL,
        "columns": [COLUMN],
        "what_if": asked,
        "residuals": [part("dates:2013-01-01:2013-01-30", days)],
    }
    return make(candidates=6, steps=1) | document | changes


def fit(rows: int, **changes: Any) -> FitOnRows:
    model = {"r2": 0.5, "root_mean_square": 2.0, "mean_absolute": 1.5, "within": 3.25}
    model |= {"points": [[1.0, 2.0], [3.0, 2.5]], "cells": [], "calibration": [{"predicted": 1, "observed": 1.2, "rows": 5}]}
    whole = {"which": "those held out", "rows": rows, "before": model | {"r2": 0.25}, "after": model, "residuals": []}
    return FitOnRows.model_validate(whole | changes)


def test_a_coefficient_is_drawn_as_what_one_standard_deviation_changes(result_document: Make) -> None:
    explored = explore_view(view_result(explored_document(result_document)))
    assert explored.effects_chart is not None
    rows = explored.effects_chart["data"]["values"]
    assert [(row["label"], row["kind"]) for row in rows] == [
        ("agency-0-2013.temp", "added by the search"),
        ("distance", "your own"),
    ]
    assert [row["middle"] for row in rows] == pytest.approx([5.0, -1.4])
    assert (rows[0]["low"], rows[0]["high"], rows[0]["told"]) == (4.0, 6.0, "0.5")
    assert rows[1]["ends"] == "noise leaves it open" and rows[1]["low"] == rows[1]["high"]
    assert explored.effects_chart["layer"][0]["encoding"]["x"]["axis"]["title"][0] == "change of arr_delay (minute)"
    units = [explored.view.unit_of(name) for name in ("intercept", "distance", "agency-0-2013.temp")]
    assert units == ["minute", "minute per mile", "minute per degree F"]


def test_an_epsilon_between_those_that_were_computed_is_read_along_the_logarithm(result_document: Make) -> None:
    view = view_result(explored_document(result_document))
    (row,) = explore_view(view, epsilon=3.1622776601683795).budget_rows
    assert row[:4] == ["agency-0-2013.temp", "yes", "1", "50 %"]
    assert row[4].startswith("70 %") and row[6] == "+0.140 (0.115 to 0.160)"
    assert explore_view(view, epsilon=1000).epsilon == 10.0, "beyond what was computed nothing is known"
    sentence = explore_view(view, epsilon=10).budget_sentence
    assert f"R² {0.36:.3f} would be at most about {0.36 + 0.08:.3f}" in sentence


def test_a_request_at_another_budget_of_its_own_has_other_intervals(result_document: Make) -> None:
    low, high = narrowed(0.04, (0.01, 0.09), 0.5)
    assert (low, high) == pytest.approx((0.0225, 0.0625))
    assert narrowed(0.04, (0.01, 0.09), 1.0) == pytest.approx((0.01, 0.09)) and narrowed(0.04, (0.01, 0.09), 4)[0] == 0
    view = view_result(explored_document(result_document))
    assert explore_view(view, epsilon=1).request_sentence == "Your own request cost ε = 1, too."
    now = sum(entry.interval[0] > 0 for entry in view.result.ranked)
    told = explore_view(view, epsilon=0.1).request_sentence
    assert "800 % of what it is" in told and f"where {now} have one now" in told


def test_what_cannot_be_told_is_said(result_document: Make) -> None:
    silent = other("noisy.x", gain=[None] * 3, gain_interval=[None] * 3, taken=False)
    empty = {name: [] for name in ("kept", "kept_interval", "gain", "gain_interval")}
    exact = other("open.x", budget=None, untold="an open table: its values are exact", kept_now=None, **empty)
    asked = {"epsilons": [0.1, 1.0, 10.0], "columns": [silent, exact]}
    explored = explore_view(view_result(explored_document(result_document, what_if=asked)))
    assert [row[1:3] for row in explored.budget_rows] == [["no", "1"], ["yes", "open"]] and explored.budget_sentence == ""
    assert "open.x: an open table: its values are exact." in explored.budget_reasons
    assert any("noisy.x" in reason and "Too little" in reason for reason in explored.budget_reasons)
    assert explored.budgets_chart is not None
    assert explored.budgets_chart["layer"][1]["encoding"]["y"]["axis"]["title"] == "signal kept", "gains are told of none"


@pytest.mark.parametrize(
    "domain, keys, kind, charts",
    [
        ("dates:2013-01-01:2013-01-03", ["2013-01-01", "2013-01-02", "2013-01-03"], "line", 1),
        ("us-state", ["CA", "NY", "TX"], "map", 2),
        ("wards", ["a", "b", "c"], "bars", 1),
    ],
)
def test_residuals_are_a_line_in_time_two_maps_of_places_or_points(
    domain: str, keys: list[str], kind: str, charts: int, result_document: Make
) -> None:
    document = explored_document(result_document, residuals=[part(domain, keys)])
    (left,) = explore_view(view_result(document), files=lambda file: f"/static/{file}").left
    assert left.kind == kind and len(left.charts) == charts and len(left.rows) == 3
    assert "off by 1.44 (minute) with your own features, by 0.72 (minute) with what was added" in left.spread
    if kind == "map":
        scales = [one.spec["layer"][1]["encoding"]["color"]["scale"]["domain"] for one in left.charts]
        assert scales[0] == scales[1] and -scales[0][0] == scales[0][-1] == 1.75, "both maps have one scale, around 0"
        assert [one.title for one in left.charts] == [BEFORE, AFTER]
    if kind == "line":
        marks = [layer["mark"]["type"] for layer in left.charts[0].spec["layer"]]
        assert marks == ["rule", "line", "area", "line", "point"]


def test_of_many_keys_those_that_stand_out_are_drawn_and_listed(result_document: Make) -> None:
    document = explored_document(result_document, residuals=[part("wards", [f"w{i:03d}" for i in range(100)])])
    (left,) = explore_view(view_result(document)).left
    assert len(left.charts[0].spec["data"]["values"]) == MOST_BARS and "30 keys that stand out" in left.shown
    assert [row[0] for row in left.rows[:2]] == ["w099", "w098"]
    whole = list(csv.reader(io.StringIO(explore_view(view_result(document)).residuals_csv())))
    assert len(whole) == 101 and whole[0][:3] == ["part", "key", "rows"]
    errors = KeyResiduals.model_validate(part("wards", ["a", "b"]) | {"after_error": [0.001, 10.0]})
    assert striking(errors, 1) == [0], "what is large by its noise alone does not stand out"


def test_predictions_of_few_rows_are_points_and_of_many_squares(result_document: Make) -> None:
    view = view_result(explored_document(result_document))
    explored = explore_view(view, fit(2))
    assert [one.title for one in explored.fit_charts] == [BEFORE, AFTER]
    assert [layer["mark"]["type"] for layer in explored.fit_charts[0].spec["layer"]] == ["point", "line", "point"]
    assert explored.fit_rows[1] == ["Nine rows of ten are within", "± 3.25 (minute)", "± 3.25 (minute)"]
    cell = {"predicted": [0, 1], "actual": [1, 2], "rows": 40}
    many = fit(5000).after.model_copy(update={"points": (), "cells": tuple(FitOnRows.model_validate(
        fit(1).to_json() | {"after": fit(1).after.to_json() | {"cells": [cell]}}).after.cells)})  # fmt: skip
    (only,) = explore_view(view, fit(5000, before=None, after=many.to_json())).fit_charts
    assert only.spec["layer"][0]["mark"]["type"] == "rect"
    same = [chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"] for chart in explored.fit_charts]
    assert same[0] == same[1], "both models are on the same axes"


def test_a_report_with_everything_runs_nothing_fetches_nothing_and_holds_the_maps(result_document: Make) -> None:
    document = explored_document(result_document, residuals=[part("us-state", ["CA", "NY", "TX"])])
    text = report_html(document, fit(2), epsilon=10)
    page = Seen()
    page.feed(text)
    assert "script" not in page.tags and page.addresses == [] and "http" not in text.replace("http-equiv", "")
    assert page.tags.count("svg") == 2 * 4 + 2, "steps, gains, coefficients and budgets in two widths; two of rows"
    with_maps = report_html(document, epsilon=10)
    assert with_maps.count("<svg") == 2 * 4 + 2 and with_maps.count("mark-shape") == 4
    assert "What if ε were 10?" in text and "this file holds points of them" in text
    assert "<span>--table</span> MINE.csv" in with_maps and "<span>--table</span> MINE.csv" not in text


def test_nothing_to_explore_is_explained_and_breaks_nothing(result_document: Make, capsys: Any) -> None:
    bare = result_document(candidates=0, steps=0)
    text = re.sub(r"\s+", " ", report_html(bare))
    assert "It takes rows" in text and "there is no column whose budget could be another" in text
    view = view_result(bare)
    show_explored(explore_view(view))
    assert capsys.readouterr().out == ""
    assert "The request has no key." in explore_view(view_result(bare | {"keys": []})).why_nothing_left
    assert "local" in explore_view(view_result(bare | {"private": False})).why_nothing_left
    assert "explore(table)" in gallery_html(explore_view(view))


def test_a_notebook_and_a_terminal_have_the_same_numbers(result_document: Make, capsys: Any) -> None:
    explored = explore_view(view_result(explored_document(result_document)), fit(2))
    html = gallery_html(explored)
    assert html.count("<svg") == 4 and "± 3.25 (minute)" in html and "<script" not in html
    show_explored(explored)
    told = capsys.readouterr().out
    assert "± 3.25 (minute)" in told and "what if ε were 3?" in told and "50 %" in told


def test_places_without_a_shape_are_left_out_of_a_map_and_stay_in_the_table() -> None:
    shapes = shapes_of("us-state")
    values = KeyResiduals.model_validate(part("us-state", ["CA", "nowhere"]))
    first, _ = residuals(values, shapes, lambda file: {"type": "Topology"}, unit="", id="left")
    drawn = first.spec["layer"][1]
    assert [row["key"] for row in drawn["transform"][0]["from"]["data"]["values"]] == ["CA"]
    assert drawn["data"]["values"] == {"type": "Topology"}, "a report holds the shapes themselves"
    assert np.isfinite([row["value"] for row in drawn["transform"][0]["from"]["data"]["values"]]).all()


def test_means_that_noise_hides_are_not_said_to_be_zero(result_document: Make) -> None:
    """A page told "typically off by 0": where nothing can be seen, the middle of what may be is nothing."""
    hidden = part("us-state", ["TX", "NY"]) | {"after": [0.0, 0.0], "after_error": [4.2, 4.2]}
    view = view_result(result_document(model=MODEL, residuals=[hidden]))
    told = explore_view(view).left[0].spread
    assert "by less than noise of 4.2 (minute) hides with what was added" in told
