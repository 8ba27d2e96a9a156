"""Vega-Lite specifications of all charts: pages draw them in the browser, `picture` as SVG, PNG or PDF.

Colours are names such as `@chart-main`. Whoever draws replaces them by the stylesheet's colours, so one specification serves
light and dark. Marks differ in shape or dash where they differ in colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from saibot.report.format import fixed, percent, signed
from saibot.wire.worth import CalibrationPoint

if TYPE_CHECKING:
    from saibot.report.result import RankedEntry, Stage

Spec = dict[str, Any]
Row = Mapping[str, Any]
MOST_ROWS = 30

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
    "axisQuantitative": {"labelOverlap": True, "labelSeparation": 8},
    "text": {"color": "@ink", "fontSize": 12},
    "legend": {"labelColor": "@ink", "labelFontSize": 12, "layout": {"bottom": {"anchor": "middle"}}},
    "title": {"color": "@ink", "subtitleColor": "@muted", "anchor": "start", "fontSize": 14, "subtitleFontSize": 12},
}
_LEGEND: Spec = {
    "orient": "top",
    "title": None,
    "offset": 6,
    "rowPadding": 4,
    "columnPadding": 18,
    "symbolOpacity": 1,
    "symbolStrokeWidth": 0,
}
SHARE_AXIS: Spec = {"labelExpr": "format(100 * datum.value, '.3~r') + '\u00a0%'"}  # as shares are written elsewhere
LEAST_R2 = 0.02  # that an axis shows, so that a thousandth does not look like a leap
SIZES = {"circle": 90, "diamond": 150}  # square pixels at which shapes look equally large
POINT: Spec = {"type": "point", "filled": True, "opacity": 1, "stroke": "@surface", "strokeWidth": 1.5}


ROOM = "room"  # the width that whoever draws has: `width` is what axes leave of it, too late for those to heed
ROOM_FOR_NAMES = f"max(110, min(210, 0.42 * {ROOM}))"
LETTER, SYMBOL = 6.6, 48  # pixels of a letter of a legend, and of what stands before and after a name


def legend(names: Iterable[str], *, by_name: bool = False, **more: Any) -> Spec:
    """Above the chart: as many of these names beside each other as it has room for, right of an axis of names or numbers."""
    widest = min(LETTER * max(map(len, names), default=0), float(more.get("labelLimit", 160))) + SYMBOL
    return (
        _LEGEND
        | {"columns": {"expr": f"max(1, floor(({ROOM} - {ROOM_FOR_NAMES if by_name else 60}) / {widest:.0f}))"}}
        | more
    )


def chart(rows: Sequence[Row], *, description: str, **parts: Any) -> Spec:
    """A specification of these rows; whoever draws it chooses the width, with `sized`."""
    return {
        "description": description,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "params": [{"name": ROOM, "value": 500}],
        "data": {"values": list(rows)},
        "config": CONFIG,
        **parts,
    }


def name_axis(field: str, order: Sequence[str], **more: Any) -> Spec:
    """A vertical axis of names, in the order given and shortened where they are long."""
    axis = {"title": None, "labelLimit": {"expr": ROOM_FOR_NAMES}, "grid": False, **more}
    return {"field": field, "type": "nominal", "sort": list(order), "axis": axis}


def intervals(
    rows: Sequence[Row],
    *,
    kinds: Mapping[str, tuple[str, str]],
    axis: str | list[str],
    description: str,
    tooltip: Sequence[Spec],
) -> Spec:
    """Rows with a `label`, a `middle` between `low` and `high`, and a `kind`; `kinds` has the colour and the shape of each.

    A row may have a `claim`, which is marked by a stroke across it.
    """
    # A title of the middle would leave a narrow picture on the right: names on the left take half of it.
    x = {"type": "quantitative", "axis": {"title": axis, "tickCount": 6, "titleAnchor": "end"}}
    shape = {"domain": list(kinds), "range": [shape for _, shape in kinds.values()]}
    colour = {"domain": list(kinds), "range": [colour for colour, _ in kinds.values()]}
    sizes = [{"test": f"datum.kind == '{kind}'", "value": SIZES[shape]} for kind, (_, shape) in kinds.items()]
    layers: list[Spec] = [
        {
            "data": {"values": [{"zero": 0}]},
            "mark": {"type": "rule", "strokeDash": [3, 3]},
            "encoding": {"x": {"field": "zero", **x}, "y": None, "color": {"value": "@line-strong"}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "opacity": 0.75},
            "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}, "tooltip": list(tooltip)},
        },
        {
            "mark": POINT,
            "encoding": {
                "x": {"field": "middle", **x},
                "shape": {"field": "kind", "scale": shape, "legend": legend(kinds, by_name=True)},
                "size": {"condition": sizes, "value": SIZES["circle"]},
                "tooltip": list(tooltip),
            },
        },
    ]
    if any("claim" in row for row in rows):
        stroke = {"type": "tick", "orient": "vertical", "thickness": 2, "size": 16}
        layers.append({"mark": stroke, "encoding": {"x": {"field": "claim", **x}, "color": {"value": "@ink"}}})
    return chart(
        rows,
        description=description,
        height=22 * len(rows),
        encoding={
            "y": name_axis("label", [row["label"] for row in rows]),
            "color": {"field": "kind", "scale": colour, "legend": legend(kinds, by_name=True)},
        },
        layer=layers,
    )


def gains(candidates: Sequence[RankedEntry]) -> Spec:
    """Candidates by themselves: gain in R² and where it lies, the taken ones in colour and as diamonds."""
    rows = [
        {
            "label": one.label,
            "middle": one.entry.gain,
            "low": one.entry.interval[0],
            "high": one.entry.interval[1],
            "kind": "not taken" if one.step is None else "taken",
            "told": f"{signed(one.entry.gain)} ({fixed(one.entry.interval[0])} to {fixed(one.entry.interval[1])})",
            "signal": percent(one.entry.reliability),
        }
        for one in candidates[:MOST_ROWS]
    ]
    return intervals(
        rows,
        kinds={"taken": ("@chart-main", "diamond"), "not taken": ("@chart-quiet", "circle")},
        axis="gain in R²",
        description="Gain in R² of each candidate by itself, with its interval. The table below has the same numbers.",
        tooltip=[
            {"field": "label", "title": "candidate"},
            {"field": "told", "title": "gain in R²"},
            {"field": "signal", "title": "signal in its values"},
        ],
    )


def path(stages: Sequence[Stage], *, by_held_out: bool) -> Spec:
    """R² step by step, on the training rows and, where there are any that noise leaves readable, on the held-out ones.

    Numbers stand at the points that the answer goes by, in the colour of their line and on the side away from the other:
    `by_held_out`, or else those of the training rows.
    """
    read = "held-out rows" if by_held_out else "training rows"
    rows: list[dict[str, Any]] = []
    for place, stage in enumerate(stages):
        both = {"training rows": stage.model.train_r2, "held-out rows": stage.readable}
        other = both["training rows" if by_held_out else "held-out rows"]
        for kind, r2 in both.items():
            if r2 is not None:
                left = kind == read and other is not None and r2 < other
                row = {"place": place, "label": stage.label, "r2": r2, "rows": kind, "told": fixed(r2), "left": left}
                rows.append(row)
    looks = {"training rows": ("@chart-main", "circle"), "held-out rows": ("@chart-second", "square")}
    drawn = {kind: look for kind, look in looks.items() if any(row["rows"] == kind for row in rows)}

    dashed = {"test": "datum.rows == 'held-out rows'", "value": [6, 4]}

    def by_kind(look: int) -> Spec:
        scale = {"domain": list(drawn), "range": [each[look] for each in drawn.values()]}
        return {"field": "rows", "type": "nominal", "scale": scale, "legend": legend(drawn, by_name=True)}

    def told(look: Spec, colour: str) -> list[Spec]:
        """A line comes from above: numbers to the left stand below it, those to the right above."""
        sides: dict[bool, Spec] = {
            True: {"align": "right", "baseline": "top", "dx": -10, "dy": 1},
            False: {"align": "left", "baseline": "bottom", "dx": 10, "dy": -1},
        }
        return [
            {
                "transform": [{"filter": f"datum.rows == '{read}' && {'' if left else '!'}datum.left"}],
                "mark": {"type": "text", "fontWeight": 600, **side, **look},
                "encoding": {"text": {"field": "told"}, "color": {"value": colour}},
            }
            for left, side in sides.items()
        ]

    values = [float(row["r2"]) for row in rows]
    least, most = min(values, default=0.0), max(values, default=1.0)
    room = max(LEAST_R2 - (most - least), 0.0) / 2
    texts = {str(row["told"]) for row in rows if row["rows"] == read}
    still = {"text": f"No further gain: R² stays at {min(texts, default='')}.", "fontSize": 12, "fontWeight": "normal"}
    return chart(
        rows,
        description="R² of the model after each step. The table below has the same numbers.",
        height=44 * len(stages),
        **({"title": still | {"color": "@muted"}} if len(stages) > 1 and len(texts) == 1 else {}),
        encoding={
            "y": name_axis("label", [stage.label for stage in stages]),
            "x": {
                "field": "r2",
                "type": "quantitative",
                "scale": {"zero": False, "padding": 52, "domain": [least - room, most + room]},
                "axis": {"title": "R²", "tickCount": 5, "labelBound": True},
            },
            "color": by_kind(0),
            "order": {"field": "place"},
        },
        layer=[
            {
                "mark": {"type": "line", "strokeWidth": 2.5},
                "encoding": {"strokeDash": {"condition": dashed, "value": [1, 0]}},
            },
            *told({"stroke": "@surface", "strokeWidth": 4}, "@surface"),  # lines pass below the numbers
            {
                "mark": {**POINT, "size": 90},
                "encoding": {
                    "shape": by_kind(1),
                    "tooltip": [{"field": "label", "title": "model"}, {"field": "rows"}, {"field": "told", "title": "R²"}],
                },
            },
            *told({}, looks[read][0]),
        ],
    )


def calibration(points: Sequence[CalibrationPoint]) -> Spec:
    """What rows with about the same predicted mean turned out to be; on the line both are the same."""
    rows = [{"predicted": one.predicted, "observed": one.observed, "rows": one.rows} for one in points]
    most = max(max(one.predicted, one.observed) for one in points)
    line = [{"predicted": at, "observed": at} for at in (0.0, most)]
    x = {"field": "predicted", "type": "quantitative", "axis": {"title": "predicted", "tickCount": 6}}
    y = {"field": "observed", "type": "quantitative", "axis": {"title": "observed", "tickCount": 6}}
    tooltip = [
        {"field": "predicted", "format": ".3f"},
        {"field": "observed", "format": ".3f"},
        {"field": "rows", "format": ",", "title": "rows"},
    ]
    return chart(
        rows,
        description="What rows with about the same predicted mean turned out to be.",
        height=220,
        layer=[
            {
                "data": {"values": line},
                "mark": {"type": "line", "strokeDash": [3, 3]},
                "encoding": {"x": x, "y": y, "color": {"value": "@line-strong"}},
            },
            {
                "mark": {**POINT, "size": SIZES["circle"]},
                "encoding": {"x": x, "y": y, "color": {"value": "@chart-main"}, "tooltip": tooltip},
            },
        ],
    )


def shape(*, ratio: float, tallest: float, beside: float = 0.0, widest: float | None = None) -> Spec:
    """Of a chart whose height follows from its width, less what stands beside it: for `sized`, and for pages."""
    return {"ratio": ratio, "tallest": tallest, "beside": beside, "widest": widest}


def sized(spec: Spec, width: float) -> Spec:
    """Width, what depends on it and, of a chart that has a shape, the height that follows from it."""
    meta = spec.get("usermeta")
    if meta is None:
        return {"width": width, "params": [{"name": ROOM, "value": width}]}
    width = min(width, meta["widest"] or width)
    height = min(meta["ratio"] * (width - meta["beside"]), meta["tallest"])
    return {"width": width, "height": height, "params": [{"name": ROOM, "value": width}]}


def side_by_side(panels: Mapping[str, Spec], *, title: str, subtitle: str, width: int) -> Spec:
    """Charts as one specification, each under its name."""
    shared = ("config", "autosize", "params")
    return {
        "title": {"text": title, "subtitle": subtitle, "fontSize": 16, "offset": 16},
        "config": CONFIG,
        "params": [{"name": ROOM, "value": width}],
        "padding": 16,
        "spacing": 36,
        "hconcat": [
            {name: part for name, part in spec.items() if name not in shared} | {"title": told, "width": width}
            for told, spec in panels.items()
        ],
        "resolve": {"scale": {"color": "independent", "shape": "independent"}},
    }
