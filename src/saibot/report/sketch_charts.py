"""Charts of what a sketch tells, and of what one would be worth: profile, correlations, signal kept over epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saibot.report.charts import LETTER, POINT, ROOM, SHARE_AXIS, Spec, chart, legend, name_axis, shape
from saibot.report.format import fixed, number, percent, with_error

NAME_LIMIT = 120  # pixels of a name beside and above a heat map
LEAST_CELL, MOST_CELL = 52, 96  # pixels of a cell that has a number in it
SMALL_CELL = 28
SIGMAS = 2  # whiskers of privacy noise: two standard deviations to either side


def profile(features: Sequence[dict[str, Any]]) -> Spec:
    """Every feature within its public bounds: the mean with its privacy error, and one standard deviation to either side.

    Features have different units, so the axis is the way from the lower to the upper bound.
    """
    rows = []
    for feature in features:
        mean, deviation = feature["mean"], feature["deviation"]
        if mean["value"] is None:
            continue
        low, width = feature["lower"], feature["upper"] - feature["lower"]

        def place(value: float, low: float = low, width: float = width) -> float:
            return min(max((value - low) / width, 0.0), 1.0)

        spread = deviation["value"] or 0.0
        error = SIGMAS * (mean["error"] or 0.0)
        rows.append({
            "name": feature["name"],
            "mean": place(mean["value"]),
            "low": place(mean["value"] - spread),
            "high": place(mean["value"] + spread),
            "error_low": place(mean["value"] - error),
            "error_high": place(mean["value"] + error),
            "told": with_error(mean["value"], mean["error"], feature["unit"]),
            "spread": with_error(deviation["value"], deviation["error"], feature["unit"]),
            "bounds": f"{number(feature['lower'])} to {number(feature['upper'])} {feature['unit']}".rstrip(),
        })  # fmt: skip
    tooltip = [
        {"field": "name", "title": "feature"},
        {"field": "told", "title": "mean"},
        {"field": "spread", "title": "spread"},
        {"field": "bounds", "title": "bounds"},
    ]
    axis = {
        "title": None,
        "values": [0, 0.5, 1],
        "labelExpr": "datum.value == 0 ? 'lower bound' : datum.value == 1 ? 'upper bound' : 'middle'",
        "labelAlign": {"expr": "datum.value == 0 ? 'left' : datum.value == 1 ? 'right' : 'center'"},
    }
    x = {"type": "quantitative", "scale": {"domain": [0, 1], "nice": False}, "axis": axis}
    return chart(
        rows,
        description="Mean, privacy error of the mean and spread of every feature within its public bounds.",
        height=26 * len(rows),
        encoding={"y": name_axis("name", [row["name"] for row in rows]), "tooltip": tooltip},
        layer=[
            {
                "mark": {"type": "rule", "strokeWidth": 9, "strokeCap": "round", "color": "@chart-main", "opacity": 0.28},
                "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2, "color": "@chart-second"},
                "encoding": {"x": {"field": "error_low", **x}, "x2": {"field": "error_high"}},
            },
            {
                "mark": {**POINT, "size": 80, "color": "@chart-main"},
                "encoding": {"x": {"field": "mean", **x}},
            },
        ],
    )


def correlations(names: Sequence[str], cells: Sequence[Sequence[dict[str, float | None]]]) -> Spec:
    """A heat map. Cells whose sign is not clear of the noise are left pale; None means that noise leaves nothing to say."""
    rows = []
    for i, line in enumerate(cells):
        for j, cell in enumerate(line):
            value, error = cell["value"], cell["error"]
            rows.append({
                "row": names[i],
                "column": names[j],
                "value": value,
                "text": "" if value is None else fixed(value, 2),
                "told": "all noise" if value is None else with_error(value, error if i != j else None),
                "strong": value is not None and abs(value) > 0.6,
            })  # fmt: skip
    scale = {"domain": [-1, 0, 1], "range": ["@chart-negative", "@chart-middle", "@chart-positive"], "interpolate": "rgb"}
    few, letters = len(names) <= 8, LETTER * max(map(len, names), default=0)
    beside = min(letters, NAME_LIMIT) + 16  # pixels of names
    side = max(LEAST_CELL, min(letters + 10, MOST_CELL)) if len(names) <= 4 else LEAST_CELL if few else SMALL_CELL
    width_of_cell = f"({ROOM} - {beside:.0f}) / {max(len(names), 1)}"
    straight = f"{width_of_cell} >= {min(letters, NAME_LIMIT):.0f}"
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "stroke": "@surface", "strokeWidth": 2},
            "encoding": {"color": {"field": "value", "type": "quantitative", "scale": scale, "legend": None}},
        }
    ]
    if few:
        ink = {"condition": {"test": "datum.strong", "value": "@on-accent"}, "value": "@ink"}
        readable = {"expr": f"{width_of_cell} < 34 ? 0 : 1"}
        layers.append({"mark": {"type": "text", "opacity": readable}, "encoding": {"text": {"field": "text"}, "color": ink}})
    return chart(
        rows,
        description="Correlation of every pair of features. The table below has the same numbers, with their errors.",
        usermeta=shape(ratio=1, tallest=side * len(names), beside=beside, widest=beside + side * len(names)),
        encoding={
            "y": name_axis("row", names, labelLimit=NAME_LIMIT),
            "x": {
                "field": "column",
                "type": "nominal",
                "sort": list(names),
                "axis": {
                    "title": None,
                    "orient": "top",
                    "labelAngle": {"expr": f"{straight} ? 0 : -35"},
                    "labelAlign": {"expr": f"{straight} ? 'center' : 'left'"},
                    "labelBaseline": "bottom",
                    "labelOverlap": not few,
                    "labelLimit": NAME_LIMIT,
                    "grid": False,
                },
            },
            "tooltip": [{"field": "row"}, {"field": "column"}, {"field": "told", "title": "correlation"}],
        },
        layer=layers,
    )


def reliability(points: Sequence[dict[str, Any]], epsilon: float) -> Spec:
    """How much signal the looked-up values keep, over epsilon, for weak, moderate and strong differences between keys."""
    rows = [
        {"epsilon": point["epsilon"], "case": case, "kept": kept, "told": percent(kept)}
        for point in points
        for case, kept in point["reliability"].items()
    ]
    cases = {"strong": [1, 0], "moderate": [7, 4], "weak": [2, 3]}
    stroke: Spec = {"symbolType": "stroke", "symbolStrokeColor": "@chart-main", "symbolStrokeWidth": 2.5, "symbolSize": 300}
    shown = legend(cases, **stroke)
    dash: Spec = {
        "field": "case",
        "legend": shown,
        "scale": {"domain": list(cases), "range": list(cases.values())},
    }
    x = {"field": "epsilon", "type": "quantitative", "scale": {"type": "log", "nice": False}}
    title = ["ε (more budget: less noise,", "weaker protection)"]  # in one line it is wider than a phone
    axis = {"title": title, "grid": False, "values": [0.1, 0.2, 0.5, 1, 2, 4, 8]}
    kept = {"title": "signal kept", **SHARE_AXIS, "values": [0, 0.25, 0.5, 0.75, 1]}
    return chart(
        rows,
        description="Share of the signal that private values keep, over epsilon.",
        height=220,
        layer=[
            {
                "data": {"values": [{"epsilon": epsilon}]},
                "mark": {"type": "rule", "color": "@chart-second", "strokeWidth": 2},
                "encoding": {"x": x},
            },
            {
                "mark": {"type": "line", "color": "@chart-main", "strokeWidth": 2.5},
                "encoding": {
                    "x": {**x, "axis": axis},
                    "y": {"field": "kept", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": kept},
                    "strokeDash": dash,
                    "tooltip": [
                        {"field": "case", "title": "differences"},
                        {"field": "epsilon", "title": "ε"},
                        {"field": "told", "title": "kept"},
                    ],
                },
            },
        ],
    )
