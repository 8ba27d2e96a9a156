"""Charts of what a model leaves unexplained by key, before any column was added and after: a line in time, two maps with one
scale, or points side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from saibot.report.charts import POINT, SIZES, Spec, chart, legend, name_axis
from saibot.report.explore_charts import AFTER, BEFORE, Drawn
from saibot.report.format import count, with_error
from saibot.report.key_charts import (
    MOST_BARS,
    MOST_POINTS,
    SIGMAS,
    MapShapes,
    OverKeys,
    Shapes,
    kind_of,
    moment,
    places,
    time_axis,
)
from saibot.report.places import key_labels
from saibot.wire import KeyResiduals


def residuals(part: KeyResiduals, shapes: MapShapes | None, files: Shapes, *, unit: str, id: str) -> list[Drawn]:
    """What is left unexplained by key: a line in time, a map before and after, or points beside each other."""
    kind, labels = kind_of(part.domain, shapes), key_labels(part.domain, part.keys)
    words = f"Mean of target less prediction by {part.key}; the table has the numbers."
    if kind == "map" and shapes is not None:
        file = files(shapes.file)
        columns = {AFTER: (part.after, part.after_error)}
        if part.before:
            columns = {BEFORE: (part.before, part.before_error)} | columns
        drawn = {title: _over(part, labels, *pair, unit) for title, pair in columns.items()}
        least = (over.least_reach for over in drawn.values())
        reach = max([*map(abs, (*part.before, *part.after)), *least], default=1.0) or 1.0
        return [
            Drawn(f"{id}-{place}", title, words, places(over, shapes, file, middle=0.0, reach=reach))
            for place, (title, over) in enumerate(drawn.items())
        ]
    spec = _residual_line(part, labels, unit) if kind == "line" else _residual_points(part, labels, unit)
    return [Drawn(id, "", words, spec)]


def striking(part: KeyResiduals, most: int) -> list[int]:
    """Places of the keys that stand out most from their error, before or after; the largest first."""
    errors = np.maximum(np.array(part.after_error), 1e-12)
    size = np.abs(np.array(part.after))
    if part.before:
        size = np.maximum(size, np.abs(np.array(part.before)))
    return [int(place) for place in np.argsort(-size / errors, kind="stable")[:most]]


def _over(
    part: KeyResiduals, labels: Sequence[str], values: tuple[float, ...], errors: tuple[float, ...], unit: str
) -> OverKeys:
    name = "left unexplained"
    return OverKeys(part.domain, part.keys, np.array(values), np.array(errors), unit=unit, name=name, labels=labels)


def _residual_rows(part: KeyResiduals, labels: Sequence[str], unit: str) -> list[dict[str, Any]]:
    rows = []
    for place, key in enumerate(part.keys):
        after, error = part.after[place], part.after_error[place]
        row: dict[str, Any] = {"key": key, "label": labels[place], "after": after}
        row |= {"low": after - SIGMAS * error, "high": after + SIGMAS * error}
        row |= {"told": with_error(after, error, unit), "rows": count(part.rows[place])}
        if part.before:
            row |= {"before": part.before[place], "was": with_error(part.before[place], part.before_error[place], unit)}
        rows.append(row)
    return [row for row in rows if np.isfinite([row["after"], row["low"]]).all()]


def _told(part: KeyResiduals) -> list[Spec]:
    was = [{"field": "was", "title": BEFORE}] if part.before else []
    return [{"field": "label", "title": "key"}, *was, {"field": "told", "title": AFTER}, {"field": "rows"}]


def _looks(part: KeyResiduals, scale: Sequence[Any], **more: Any) -> Spec:
    """A colour, a dash or a shape for each of the two models; one legend serves them all."""
    names = [BEFORE, AFTER] if part.before else [AFTER]
    return {"scale": {"domain": names, "range": list(scale)[-len(names) :]}, "legend": legend(names, **more)}


def _zero(x: str) -> Spec:
    return {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "strokeDash": [3, 3]},
        "encoding": {"x": None, "y": None, x: {"field": "zero", "type": "quantitative"}, "color": {"value": "@line-strong"}},
    }


def _residual_line(part: KeyResiduals, labels: Sequence[str], unit: str) -> Spec:
    rows = _thinned(_residual_rows(part, labels, unit))
    rows = [row | {"at": moment(part.domain, row["key"])} for row in rows]
    title = f"left unexplained ({unit})" if unit else "left unexplained"
    y = {"type": "quantitative", "axis": {"title": title, "tickCount": 5}}
    stroke = {"symbolType": "stroke", "symbolStrokeWidth": 2.5, "symbolSize": 300}
    colour = {"type": "nominal", **_looks(part, ("@chart-quiet", "@chart-main"), **stroke)}
    lines: list[Spec] = []
    for field, name, width in (("before", BEFORE, 1.25), ("after", AFTER, 2.0)):
        if field == "after" or part.before:
            encoding = {"y": {"field": field, **y}, "color": {"datum": name, **colour}}
            lines.append({"mark": {"type": "line", "strokeWidth": width}, "encoding": encoding})
    band = {"type": "area", "color": "@chart-main", "opacity": 0.18}
    layers: list[Spec] = [
        _zero("y"),
        *lines[:-1],
        {"mark": band, "encoding": {"y": {"field": "low", **y}, "y2": {"field": "high"}}},
        lines[-1],
        {
            "mark": {"type": "point", "opacity": 0, "size": 120},
            "encoding": {"y": {"field": "after", **y}, "tooltip": _told(part)},
        },
    ]
    for layer in layers[1:]:
        layer["encoding"]["x"] = time_axis(len(rows))
    return chart(
        rows, description="What is left unexplained, over time. The table has the numbers.", height=260, layer=layers
    )


def _residual_points(part: KeyResiduals, labels: Sequence[str], unit: str) -> Spec:
    rows = _residual_rows(part, labels, unit)
    if len(rows) > MOST_BARS:
        chosen = set(striking(part, MOST_BARS))
        rows = [row for place, row in enumerate(rows) if place in chosen]
    rows.sort(key=lambda row: -float(row.get("before", row["after"])))
    title = f"left unexplained ({unit})" if unit else "left unexplained"
    x = {"type": "quantitative", "axis": {"title": title, "tickCount": 5}}
    colour = {"type": "nominal", **_looks(part, ("@chart-quiet", "@chart-main"), by_name=True)}
    shape = {"type": "nominal", **_looks(part, ("circle", "diamond"), by_name=True)}
    layers: list[Spec] = [
        _zero("x"),
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.6, "color": "@chart-main"},
            "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
        },
    ]
    for field, name, size in (("before", BEFORE, "circle"), ("after", AFTER, "diamond")):
        if field == "after" or part.before:
            looks = {"color": {"datum": name, **colour}, "shape": {"datum": name, **shape}, "tooltip": _told(part)}
            layers.append({"mark": {**POINT, "size": SIZES[size]}, "encoding": {"x": {"field": field, **x}, **looks}})
    for layer in layers[1:]:
        layer["encoding"]["y"] = name_axis("label", [row["label"] for row in rows])
    return chart(
        rows,
        description="What is left unexplained of each key. The table has the numbers.",
        height=22 * max(len(rows), 1),
        layer=layers,
    )


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """More points than a screen shows are drawn at regular distances: of residuals the peaks matter, not their mean."""
    if len(rows) <= MOST_POINTS:
        return rows
    places = np.linspace(0, len(rows) - 1, MOST_POINTS).astype(int)
    return [rows[place] for place in places.tolist()]
