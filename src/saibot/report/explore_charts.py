"""Charts to explore a result with: what columns change, predictions against what was, the same columns at other budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saibot.report.charts import POINT, SHARE_AXIS, SIZES, Row, Spec, chart, intervals, legend
from saibot.report.format import count, fixed, number, percent, signed
from saibot.wire import ModelOnRows, WhatIf

BEFORE, AFTER = "with your own features", "with what was added"
OWN, ADDED = "your own", "added by the search"
# Lines that can be told apart without their colours.
LINES = (
    ("@chart-main", [1, 0]),
    ("@chart-second", [8, 4]),
    ("@good", [2, 3]),
    ("@bad", [10, 3, 2, 3]),
    ("@muted", [5, 2]),
)


@dataclass(frozen=True)
class Drawn:
    """A chart with its id in a page, and what it is called."""

    id: str
    title: str
    label: str  # for those who do not see it
    spec: Spec


def effects(rows: Sequence[Row], *, target: str, unit: str, sure: str) -> Spec:
    """What one standard deviation of each column changes in the target: columns have units of their own, this has one.

    Rows have a `label`, a `middle` between `low` and `high`, a `kind`, and the coefficient itself as it is `told`.
    """
    of = f" ({unit})" if unit else ""
    return intervals(
        rows,
        kinds={
            kind: look
            for kind, look in ((OWN, ("@chart-quiet", "circle")), (ADDED, ("@chart-main", "diamond")))
            if any(row["kind"] == kind for row in rows)
        },
        axis=[f"change of {target}{of}", "with one standard deviation more"],  # two lines fit a phone
        description=f"What one standard deviation of each column changes in {target}. The table below has the coefficients.",
        tooltip=[
            {"field": "label", "title": "column"},
            {"field": "effect", "title": "one standard deviation more"},
            {"field": "told", "title": "coefficient"},
            {"field": "ends", "title": f"{sure} interval"},
        ],
    )


# ------------------------------------------------------------------------------------------------ rows


def actual_and_predicted(models: dict[str, ModelOnRows], *, target: str, unit: str, id: str) -> list[Drawn]:
    """Each model's predictions against what was: both on the same axes. On the line they are the same."""
    ends = [[end for model in models.values() for end in _ends(model, axis)] for axis in (0, 1)]
    reach = [(min(values, default=0.0), max(values, default=1.0)) for values in ends]
    return [
        Drawn(f"{id}-{place}", title, f"Predicted and actual {target}, {title}.", _predicted(model, reach, target, unit))
        for place, (title, model) in enumerate(models.items())
    ]


def _ends(model: ModelOnRows, axis: int) -> list[float]:
    """All predictions, or all that was."""
    values = [point[axis] for point in model.points]
    values += [value for cell in model.cells for value in (cell.predicted, cell.actual)[axis]]
    return values + [(one.predicted, one.observed)[axis] for one in model.calibration]


def _predicted(model: ModelOnRows, reach: Sequence[tuple[float, float]], target: str, unit: str) -> Spec:
    of = f" ({unit})" if unit else ""
    x, y = (
        {
            "type": "quantitative",
            "scale": {"domain": list(ends), "nice": True, "zero": False},
            "axis": {"title": f"{word} {target}{of}", "tickCount": 5},
        }
        for word, ends in zip(("predicted", "actual"), reach, strict=True)
    )
    layers: list[Spec] = []
    if model.cells:
        most = max(cell.rows for cell in model.cells)
        cells = [
            {
                "x": cell.predicted[0],
                "x2": cell.predicted[1],
                "y": cell.actual[0],
                "y2": cell.actual[1],
                "deep": float(np.log1p(cell.rows) / np.log1p(most)),
                "rows": count(cell.rows),
                "where": f"{number(cell.predicted[0], 3)} to {number(cell.predicted[1], 3)}",
                "was": f"{number(cell.actual[0], 3)} to {number(cell.actual[1], 3)}",
            }
            for cell in model.cells
        ]
        looks = {"field": "deep", "type": "quantitative", "legend": None, "scale": {"domain": [0, 1], "range": [0.08, 0.95]}}
        tooltip = [{"field": "where", "title": "predicted"}, {"field": "was", "title": "actual"}, {"field": "rows"}]
        encoding = {"x": {"field": "x", **x}, "x2": {"field": "x2"}, "y": {"field": "y", **y}, "y2": {"field": "y2"}}
        layers.append({
            "data": {"values": cells},
            "mark": {"type": "rect", "color": "@chart-main", "strokeWidth": 0},
            "encoding": encoding | {"opacity": looks, "tooltip": tooltip},
        })  # fmt: skip
    else:
        points = [{"predicted": a, "actual": b, "p": number(a), "a": number(b)} for a, b in model.points]
        tooltip = [{"field": "p", "title": "predicted"}, {"field": "a", "title": "actual"}]
        encoding = {"x": {"field": "predicted", **x}, "y": {"field": "actual", **y}, "tooltip": tooltip}
        mark = {"type": "point", "filled": True, "color": "@chart-main", "size": 22, "opacity": 0.45}
        layers.append({"data": {"values": points}, "mark": mark, "encoding": encoding})
    same = [{"x": end, "y": end} for end in (min(*reach[0], *reach[1]), max(*reach[0], *reach[1]))]
    layers.append({
        "data": {"values": same},
        "mark": {"type": "line", "strokeDash": [4, 4], "color": "@ink", "strokeWidth": 1.25, "clip": True},
        "encoding": {"x": {"field": "x", **x}, "y": {"field": "y", **y}},
    })  # fmt: skip
    means = [
        {"x": one.predicted, "y": one.observed, "p": number(one.predicted), "o": number(one.observed), "n": count(one.rows)}
        for one in model.calibration
    ]
    tooltip = [
        {"field": "p", "title": "predicted, on average"},
        {"field": "o", "title": "actual, on average"},
        {"field": "n", "title": "rows"},
    ]
    layers.append({
        "data": {"values": means},
        "mark": {**POINT, "shape": "diamond", "size": 90, "color": "@chart-second"},
        "encoding": {"x": {"field": "x", **x}, "y": {"field": "y", **y}, "tooltip": tooltip},
    })  # fmt: skip
    return chart([], description="Predictions against what was.", height=300, layer=layers)


# ------------------------------------------------------------------------------------------------ other budgets


def other_budgets(asked: WhatIf, epsilon: float) -> Spec | None:
    """The gain of each column over the epsilon of its provider; points where they are now, a line at the one asked for.

    Where no gain can be told, the share of signal that its values would keep is drawn instead of all gains.
    """
    by_gain = any(gain is not None for one in asked.columns for gain in one.gain)
    told = [one for one in asked.columns if (one.gain if by_gain else one.kept)]
    rows: list[dict[str, Any]] = []
    now: list[dict[str, Any]] = []
    for one in told:
        values, ends = (one.gain, one.gain_interval) if by_gain else (one.kept, one.kept_interval)
        for at, value, span in zip(asked.epsilons, values, ends, strict=True):
            if value is not None:
                rows.append(
                    {"epsilon": at, "value": value, "column": one.name, "at": number(at)} | _words(value, span, by_gain)
                )
        here = one.gain_now if by_gain else one.kept_now
        if one.budget is None or not asked.epsilons[0] <= float(one.budget.epsilon) <= asked.epsilons[-1]:
            continue  # it stands beyond the picture; the table has it
        if here is not None and any(value is not None for value in values):
            words = _words(here, one.gain_interval_now if by_gain else None, by_gain)
            now.append(
                {"epsilon": float(one.budget.epsilon), "value": here, "column": one.name, "at": one.budget.epsilon} | words
            )
    if not rows:
        return None
    names = list(dict.fromkeys(str(row["column"]) for row in rows))
    looks = [LINES[place % len(LINES)] for place in range(len(names))]
    stroke: Spec = {"symbolType": "stroke", "symbolStrokeWidth": 2.5, "symbolSize": 300, "labelLimit": 320}
    colour = {
        "field": "column",
        "type": "nominal",
        "sort": names,
        "scale": {"domain": names, "range": [c for c, _ in looks]},
    }
    dash = {"field": "column", "type": "nominal", "scale": {"domain": names, "range": [dashes for _, dashes in looks]}}
    x = {"field": "epsilon", "type": "quantitative", "scale": {"type": "log", "nice": False}}
    x["axis"] = {
        "title": "ε of the provider's release",
        "grid": False,
        "values": [0.1, 0.2, 0.5, 1, 2, 3, 5, 10],
        "format": "~g",
    }
    axis: Spec = {"title": "expected gain in R²" if by_gain else "signal kept", "tickCount": 5}
    y = {
        "field": "value",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": axis | ({} if by_gain else SHARE_AXIS),
    }
    tooltip = [
        {"field": "column"},
        {"field": "at", "title": "ε"},
        {"field": "told", "title": "gain in R²" if by_gain else "signal kept"},
    ]
    shown = {"legend": legend(names, **stroke)}
    line = {"color": colour | shown, "strokeDash": dash | shown}
    return chart(
        rows,
        description="What the columns would add at other budgets of their providers. The table below has the numbers.",
        height=260,
        layer=[
            {
                "data": {"values": [{"epsilon": epsilon}]},
                "mark": {"type": "rule", "color": "@line-strong", "strokeWidth": 1.5, "strokeDash": [3, 3]},
                "encoding": {"x": x},
            },
            {"mark": {"type": "line", "strokeWidth": 2.25}, "encoding": {"x": x, "y": y, **line}},
            {"mark": {"type": "point", "opacity": 0, "size": 160}, "encoding": {"x": x, "y": y, "tooltip": tooltip}},
            {
                "data": {"values": now},
                "mark": {**POINT, "size": SIZES["circle"]},
                "encoding": {"x": x, "y": y, "color": colour | shown, "tooltip": tooltip},
            },
        ],
    )


def _words(value: float, span: tuple[float, float] | None, by_gain: bool) -> dict[str, str]:
    if not by_gain:
        return {"told": percent(value)}
    return {"told": signed(value) + ("" if span is None else f" ({fixed(span[0])} to {fixed(span[1])})")}
