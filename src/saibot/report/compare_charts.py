"""Charts of two results side by side: R² step by step, and anything with an interval, one row for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saibot.report.charts import POINT, SIZES, Row, Spec, chart, legend, name_axis

LOOKS = (("@chart-main", "circle"), ("@chart-second", "diamond"))


def steps(paths: Mapping[str, Sequence[tuple[str, float, str]]], *, on: str) -> Spec:
    """R² of both models after each of their steps: what was added, R², and R² as it is told."""
    rows = [
        {"which": name, "second": bool(number), "step": place, "r2": r2, "label": label, "told": told}
        for number, (name, stages) in enumerate(paths.items())
        for place, (label, r2, told) in enumerate(stages)
    ]
    most = max((int(row["step"]) for row in rows), default=0)  # type: ignore[call-overload]
    x = {"field": "step", "type": "quantitative", "scale": {"nice": False, "padding": 14}}
    x["axis"] = {"title": "augmentations taken", "values": list(range(most + 1)), "format": "d", "grid": False}
    y = {
        "field": "r2",
        "type": "quantitative",
        "scale": {"zero": False, "padding": 12},
        "axis": {"title": f"R² on {on}", "tickCount": 5},
    }
    look = _looks(list(paths))
    tooltip = [{"field": "which", "title": "search"}, {"field": "label", "title": "model"}, {"field": "told", "title": "R²"}]
    return chart(
        rows,
        description="R² of both models after each step. The table below has the same numbers.",
        height=220,
        encoding={"x": x, "y": y, "color": look["color"]},
        layer=[
            {
                "mark": {"type": "line", "strokeWidth": 2.25},
                "encoding": {"strokeDash": _either([6, 4], [1, 0])},
            },
            {"mark": POINT, "encoding": {"shape": look["shape"], "size": look["size"], "tooltip": tooltip}},
        ],
    )


def beside(rows: Sequence[Row], names: Sequence[str], *, axis: str | list[str], description: str, value: str) -> Spec:
    """Rows with a `label`, a `middle` between `low` and `high` as it is `told`, and `which` of the two they are of."""
    labels = list(dict.fromkeys(str(row["label"]) for row in rows))
    rows = [{**row, "second": row["which"] == names[1]} for row in rows]
    look = _looks(names)
    x = {"type": "quantitative", "axis": {"title": axis, "tickCount": 6}}
    offset = {
        "field": "which",
        "type": "nominal",
        "sort": list(names),
        "scale": {"paddingInner": 0.35, "paddingOuter": 0.35},
    }
    tooltip = [{"field": "label"}, {"field": "which", "title": "search"}, {"field": "told", "title": value}]
    common = {"y": name_axis("label", labels), "yOffset": offset, "color": look["color"]}
    zero: Spec = {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "strokeDash": [3, 3]},
        "encoding": {"x": {"field": "zero", **x}, "color": {"value": "@line-strong"}},
    }
    line: dict[str, Any] = {"x": {"field": "low", **x}, "x2": {"field": "high"}, "tooltip": tooltip}
    return chart(
        rows,
        description=f"{description} The table below has the same numbers.",
        height=34 * max(len(labels), 1),
        layer=[
            zero,
            {"mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "opacity": 0.75}, "encoding": common | line},
            {
                "mark": POINT,
                "encoding": common
                | {"x": {"field": "middle", **x}, "shape": look["shape"], "size": look["size"], "tooltip": tooltip},
            },
        ],
    )


def _looks(names: Sequence[str]) -> dict[str, Spec]:
    """Colour and shape of the first and of the second, with one legend, and sizes at which they look equally large."""

    def scale(place: int) -> Spec:
        field = {
            "field": "which",
            "type": "nominal",
            "sort": list(names),
            "legend": legend(names, by_name=True, labelLimit=320),
        }
        return field | {"scale": {"domain": list(names), "range": [look[place] for look in LOOKS]}}

    return {"color": scale(0), "shape": scale(1), "size": _either(SIZES["diamond"], SIZES["circle"])}


def _either(second: Any, first: Any) -> Spec:
    return {"condition": {"test": "datum.second", "value": second}, "value": first}
