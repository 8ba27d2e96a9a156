"""Vega-Lite specifications of the charts. Colours are names such as `@chart-main`: the page's script replaces them by the
stylesheet's colours of the moment, the offline report by rules of its own, so one specification serves light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from saibot.platform.pages.format import fixed, number, percent, signed, with_error

if TYPE_CHECKING:
    from saibot.platform.pages.result import RankedEntry, Stage

Spec = dict[str, Any]
MOST_ROWS = 30
SIGMAS = 2  # whiskers of privacy noise: two standard deviations to either side

CONFIG: Spec = {
    "background": None,
    "font": "-apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, Noto Sans, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "@ink",
        "titleColor": "@muted",
        "gridColor": "@chart-grid",
        "domain": False,
        "ticks": False,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelPadding": 6,
        "titlePadding": 10,
    },
    "text": {"color": "@ink", "fontSize": 12},
    "legend": {"labelColor": "@ink", "labelFontSize": 12, "symbolStrokeColor": "@chart-main", "symbolSize": 300},
}


def _chart(rows: Sequence[dict[str, Any]], *, description: str, **parts: Any) -> Spec:
    return {
        "description": description,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(rows)},
        "config": CONFIG,
        **parts,
    }


def _names(field: str, order: Sequence[str], **more: Any) -> Spec:
    """A vertical axis of names, in the order given and shortened where they are long."""
    axis = {"title": None, "labelLimit": 210, "grid": False, **more}
    return {"field": field, "type": "nominal", "sort": list(order), "axis": axis}


def gains(candidates: Sequence[RankedEntry]) -> Spec:
    """Candidates by themselves: gain in R² and where it lies, the taken ones in colour and as diamonds."""
    rows = [
        {
            "label": one.label,
            "gain": one.entry.gain,
            "low": one.entry.interval[0],
            "high": one.entry.interval[1],
            "taken": one.step is not None,
            "told": f"{signed(one.entry.gain)} ({fixed(one.entry.interval[0])} to {fixed(one.entry.interval[1])})",
            "signal": percent(one.entry.reliability),
        }
        for one in candidates[:MOST_ROWS]
    ]
    colour = {
        "condition": {"test": "datum.taken", "value": "@chart-main"},
        "value": "@chart-quiet",
    }
    tooltip = [
        {"field": "label", "title": "candidate"},
        {"field": "told", "title": "gain in R²"},
        {"field": "signal", "title": "signal in its values"},
    ]
    shape = {"condition": {"test": "datum.taken", "value": "diamond"}, "value": "circle"}
    return _chart(
        rows,
        description="Gain in R² of each candidate by itself, with its interval. The table below has the same numbers.",
        height=22 * len(rows),
        encoding={"y": _names("label", [one.label for one in candidates[:MOST_ROWS]]), "color": colour},
        layer=[
            {
                "data": {"values": [{"zero": 0}]},
                "mark": {"type": "rule", "color": "@line-strong", "strokeDash": [3, 3]},
                "encoding": {"x": {"field": "zero", "type": "quantitative"}, "y": None, "color": {"value": "@line-strong"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "opacity": 0.75},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative", "axis": {"title": "gain in R²", "tickCount": 6}},
                    "x2": {"field": "high"},
                    "tooltip": tooltip,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "stroke": "@surface", "strokeWidth": 1.5},
                "encoding": {
                    "x": {"field": "gain", "type": "quantitative"},
                    "shape": shape,
                    "size": {"condition": {"test": "datum.taken", "value": 150}, "value": 80},
                    "tooltip": tooltip,
                },
            },
        ],
    )


def path(stages: Sequence[Stage]) -> Spec:
    """R² step by step, on the training rows and, where there are any, on the held-out ones."""
    rows = []
    for place, stage in enumerate(stages):
        for r2, kind in ((stage.model.train_r2, "training rows"), (stage.readable, "held-out rows")):
            if r2 is not None:
                rows.append({"place": place, "label": stage.label, "r2": r2, "rows": kind, "told": fixed(r2)})
    held_out = any(row["rows"] == "held-out rows" for row in rows)
    shown = "held-out rows" if held_out else "training rows"
    colour = {
        "field": "rows",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": ["training rows", "held-out rows"], "range": ["@chart-main", "@chart-second"]},
    }
    return _chart(
        rows,
        description="R² of the model after each step. The table below has the same numbers.",
        height=44 * len(stages),
        encoding={
            "y": _names("label", [stage.label for stage in stages]),
            "x": {
                "field": "r2",
                "type": "quantitative",
                "scale": {"zero": False, "padding": 46},
                "axis": {"title": "R²", "tickCount": 5},
            },
            "color": colour,
            "order": {"field": "place"},
        },
        layer=[
            {
                "mark": {"type": "line", "strokeWidth": 2.5},
                "encoding": {
                    "strokeDash": {"condition": {"test": "datum.rows == 'held-out rows'", "value": [6, 4]}, "value": [1, 0]}
                },
            },
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 90,
                    "opacity": 1,
                    "stroke": "@surface",
                    "strokeWidth": 1.5,
                },
                "encoding": {
                    "shape": {"condition": {"test": "datum.rows == 'held-out rows'", "value": "square"}, "value": "circle"},
                    "tooltip": [{"field": "label", "title": "model"}, {"field": "rows"}, {"field": "told", "title": "R²"}],
                },
            },
            {
                "transform": [{"filter": f"datum.rows == '{shown}'"}],
                "mark": {"type": "text", "align": "left", "dx": 9, "dy": -7},
                "encoding": {"text": {"field": "told"}, "color": {"value": "@ink"}},
            },
        ],
    )


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
    return _chart(
        rows,
        description="Mean, privacy error of the mean and spread of every feature within its public bounds.",
        height=26 * len(rows),
        encoding={"y": _names("name", [row["name"] for row in rows]), "tooltip": tooltip},
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
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 80,
                    "color": "@chart-main",
                    "opacity": 1,
                    "stroke": "@surface",
                    "strokeWidth": 1.5,
                },
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
    few = len(names) <= 8
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "stroke": "@surface", "strokeWidth": 2},
            "encoding": {"color": {"field": "value", "type": "quantitative", "scale": scale, "legend": None}},
        }
    ]
    if few:
        ink = {"condition": {"test": "datum.strong", "value": "@on-accent"}, "value": "@ink"}
        layers.append({"mark": {"type": "text"}, "encoding": {"text": {"field": "text"}, "color": ink}})
    return _chart(
        rows,
        description="Correlation of every pair of features. The table below has the same numbers, with their errors.",
        height=(38 if few else 20) * len(names),
        encoding={
            "y": _names("row", names, labelLimit=130),
            "x": {
                "field": "column",
                "type": "nominal",
                "sort": list(names),
                "axis": {
                    "title": None,
                    "orient": "top",
                    "labelAngle": -35,
                    "labelAlign": "left",
                    "labelLimit": 110,
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
    legend = {"orient": "top", "title": None, "symbolType": "stroke", "offset": 4}
    dash: Spec = {"field": "case", "legend": legend, "scale": {"domain": list(cases), "range": list(cases.values())}}
    x = {"field": "epsilon", "type": "quantitative", "scale": {"type": "log", "nice": False}}
    axis = {"title": "ε (more budget: less noise, weaker protection)", "grid": False, "values": [0.1, 0.2, 0.5, 1, 2, 4, 8]}
    kept = {"title": "signal kept", "format": "%", "values": [0, 0.25, 0.5, 0.75, 1]}
    return _chart(
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
