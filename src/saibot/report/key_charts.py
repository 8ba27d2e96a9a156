"""Charts of values over keys: a line over days, weeks, months and years, a map of places, and bars for other keys."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np

from saibot.report.charts import POINT, ROOM, SHARE_AXIS, Row, Spec, chart, name_axis, shape
from saibot.report.format import in_unit, number, percent, with_error

MOST_BARS = 30
STEPS = "abcdefghi"  # of colours on a map, from far below the middle to far above
MOMENTS = {"year": "%Y", "quarter": "%b", "month": "%b", "week": "%-d %b", "day": "%-d %b", "date": "%-d %b"}
MOST_POINTS = 1000  # of a line: more are not told apart on a screen, and neighbours are taken together
SIGMAS = 2
LEGEND_WIDTH = 300  # of a map on a phone
LONGEST_LEGEND = 460
SOME_ENDS = (0, 2, 5, 7)  # of its steps that have a number where there is no room for all: as many to either side
TALLEST_MAP = 420
LEAST_SHARE = 0.02  # of the bounds of a feature, that an axis shows: what differs by less looks alike
Shapes = Callable[[str], str | dict[str, Any]]
"""Where a page finds a file of shapes, or what is in it, for a report that fetches nothing."""


@dataclass(frozen=True)
class MapShapes:
    """Where the shapes of places are, how they lie on paper, and which one each key has."""

    file: str  # TopoJSON
    objects: str  # the collection in it
    projection: str
    ratio: float  # of height to width
    number: Mapping[str, int]  # of the shape, by key
    shaped: frozenset[str] | None = None  # keys whose shape is in the file; None: all that have a number
    dots: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # longitude and latitude of keys without a shape

    def shows(self, key: str) -> bool:
        return self.has_shape(key) or key in self.dots

    def has_shape(self, key: str) -> bool:
        return key in (self.number if self.shaped is None else self.shaped)


@dataclass(frozen=True)
class OverKeys:
    """Values of one column over the keys of a domain, with the standard deviation of their noise where they have any."""

    domain: str  # id; of a composite key those of its parts, joined by `+`
    keys: Sequence[str]
    values: np.ndarray
    errors: np.ndarray | None = None
    unit: str = ""
    name: str = "value"
    shapes: MapShapes | None = None
    better: np.ndarray | None = None  # the same with the help of the corpus
    labels: Sequence[str] | None = None  # the keys as people read them, where that is more than the key
    bounds: tuple[float, float] | None = None  # public, of the values

    def take(self, places: np.ndarray) -> OverKeys:
        some = None if self.errors is None else self.errors[places]
        better = None if self.better is None else self.better[places]
        labels = None if self.labels is None else [self.labels[i] for i in places]
        keys = [self.keys[i] for i in places]
        return replace(self, keys=keys, labels=labels, values=self.values[places], errors=some, better=better)

    @property
    def called(self) -> str:
        """The field of a row that people read."""
        return "key" if self.labels is None else "label"

    @property
    def kind(self) -> str:
        """How it is drawn: `line`, `map` or `bars`."""
        return kind_of(self.domain, self.shapes)

    @property
    def middle(self) -> float:
        return float(np.nanmean(self.values)) if np.isfinite(self.values).any() else 0.0

    @property
    def least_reach(self) -> float:
        """How far from its middle an axis reaches at least: two standard errors, and a share of the public bounds.

        Else an axis of values that hardly differ would make a landscape of their noise.
        """
        errors = np.zeros(1) if self.errors is None else self.errors[np.isfinite(self.errors)]
        low, high = self.bounds or (0.0, 0.0)
        return max(SIGMAS * float(np.median(errors)) if len(errors) else 0.0, LEAST_SHARE / 2 * (high - low))

    def rows(self) -> list[dict[str, object]]:
        """One for each key: value, two standard deviations of noise to either side, and both in words."""
        errors = np.zeros(len(self.values)) if self.errors is None else self.errors
        rows = [
            {
                "key": key,
                "value": _rounded(value),
                "low": _rounded(value - SIGMAS * error),
                "high": _rounded(value + SIGMAS * error),
                "told": with_error(float(value), float(error) or None, self.unit),
            }
            for key, value, error in zip(self.keys, self.values, errors, strict=True)
        ]
        for row, label in zip(rows, () if self.labels is None else self.labels, strict=False):
            row["label"] = label
        for row, better in zip(rows, () if self.better is None else self.better, strict=False):
            row |= {"better": _rounded(better), "better_told": in_unit(number(float(better)), self.unit)}
        return [row for row, value in zip(rows, self.values, strict=True) if np.isfinite(value)]


def kind_of(domain: str, shapes: MapShapes | None) -> str:
    """How values over the keys of a domain are drawn: as a `line`, a `map` or `bars`."""
    if domain.partition(":")[0] in _MOMENTS and "+" not in domain:
        return "line"
    return "bars" if shapes is None else "map"


def moment(domain: str, key: str) -> str:
    """The day at which a key of time is drawn."""
    return _MOMENTS[domain.partition(":")[0]](key)


def over_keys(drawn: OverKeys, shapes: Shapes) -> Spec:
    """The chart that fits the keys."""
    if drawn.kind == "line":
        return line(drawn)
    return bars(drawn) if drawn.shapes is None else places(drawn, drawn.shapes, shapes(drawn.shapes.file))


def line(drawn: OverKeys) -> Spec:
    """Values in time, with a band of two standard deviations of their noise."""
    thinned = _thinned(drawn)
    rows = [row | {"at": moment(drawn.domain, str(row["key"]))} for row in thinned.rows()]
    scale = {"zero": False, "domain": ends_of(rows, drawn.least_reach), "nice": True}
    y = {"type": "quantitative", "scale": scale, "axis": {"title": _title(drawn), "tickCount": 5}}
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "color": "@chart-main", "strokeWidth": 1.75},
            "encoding": {"y": {"field": "value", **y}},
        },
        {
            "mark": {"type": "point", "opacity": 0, "size": 120},  # something to point at
            "encoding": {"y": {"field": "value", **y}, "tooltip": _tooltip(drawn)},
        },
    ]
    if drawn.errors is not None:
        band = {"type": "area", "color": "@chart-main", "opacity": 0.2}
        layers.insert(0, {"mark": band, "encoding": {"y": {"field": "low", **y}, "y2": {"field": "high"}}})
    if drawn.better is not None:
        layers.append({
            "mark": {"type": "line", "color": "@chart-second", "strokeWidth": 1.5, "strokeDash": [5, 3]},
            "encoding": {"y": {"field": "better", **y}},
        })  # fmt: skip
    return chart(
        rows,
        description=f"{drawn.name} over time. The table below has the same numbers.",
        height=240,
        encoding={"x": time_axis(len(rows))},
        layer=layers,
    )


def ends_of(rows: Sequence[Row], least: float) -> list[float]:
    """From the least that is drawn to the most, and at least so far to either side of the middle between them."""
    drawn = [float(row[name]) for row in rows for name in ("low", "high", "better") if name in row]
    low, high = min(drawn, default=0.0), max(drawn, default=0.0)
    room = max(least - (high - low) / 2, 0.0)
    return [low - room, high + room] if low - room < high + room else [low - 1, high + 1]


def time_axis(points: int) -> Spec:
    """Of days in the field `at`."""
    few = 8 if points > 8 else max(points, 1)
    return {
        "field": "at",
        "type": "temporal",
        "scale": {"type": "utc", "nice": False},
        "axis": {
            "title": None,
            "grid": False,
            "tickCount": few,
            "format": MOMENTS,
            "labelOverlap": "greedy",
            "labelSeparation": 6,
            "labelFlush": True,
        },
    }


def places(
    drawn: OverKeys,
    shapes: MapShapes,
    file: str | dict[str, Any],
    *,
    middle: float | None = None,
    reach: float | None = None,
) -> Spec:
    """A map: how far each place is above or below the middle; places without a value stay pale.

    Values are those with the help of the corpus, where there are any. Maps with the same middle and reach have one scale.
    Of itself it reaches at least as far as values may be off: what is noise looks pale.
    """
    least = drawn.least_reach
    drawn = drawn if drawn.better is None else replace(drawn, values=drawn.better, errors=None, better=None)
    fields = list(dict.fromkeys(("key", drawn.called, "value", "told")))
    told = [{name: row[name] for name in fields} for row in drawn.rows() if shapes.shows(str(row["key"]))]
    rows = [{"id": shapes.number[str(row["key"])], **row} for row in told if shapes.has_shape(str(row["key"]))]
    dots = [_at(shapes, row) for row in told if not shapes.has_shape(str(row["key"]))]
    values = [float(str(row["value"])) for row in told]
    middle = drawn.middle if middle is None else middle
    reach = reach or max([least, *(abs(value - middle) for value in values)]) or 1.0
    ends = steps_around(middle, reach)
    # Steps, each with a name of its own: a file has no script that could mix colours anew when it gets dark.
    scale = {"type": "threshold", "domain": ends, "range": [f"@map-{one}" for one in STEPS]}
    some = f"indexof({json.dumps([ends[place] for place in SOME_ENDS])}, datum.value) >= 0"
    legend = {
        "title": _title(drawn),
        "titleLimit": LEGEND_WIDTH,
        "orient": "bottom",
        "type": "gradient",  # else its length is not heard of
        "direction": "horizontal",
        "gradientLength": {"expr": f"min(max({ROOM} - 20, {LEGEND_WIDTH - 30}), {LONGEST_LEGEND})"},
        "titleColor": "@muted",
        "titleFontWeight": "normal",
        "labelExpr": f"isFinite(datum.value) && ({ROOM} >= {LONGEST_LEGEND} || {some}) ? format(datum.value, ',.3~r') : ''",
        "labelOverlap": False,
    }
    colour = {"field": "value", "type": "quantitative", "scale": scale, "legend": legend}
    content = {"url": file} if isinstance(file, str) else {"values": file}
    ground = content | {"format": {"type": "topojson", "feature": shapes.objects}}
    looked_up = {"data": {"values": rows}, "key": "id", "fields": fields}
    many = len(shapes.number) > 500  # whose outlines would be all that one sees
    outline = {"type": "geoshape", "stroke": "@line-strong", "strokeWidth": 0.15 if many else 0.4, "aria": False}
    point = {"type": "circle", "size": 45, "opacity": 1, "stroke": "@line-strong", "strokeWidth": 0.75}
    where = {name: {"field": name, "type": "quantitative"} for name in ("longitude", "latitude")}
    dotted = [{"data": {"values": dots}, "mark": point, "encoding": {**where, "color": colour, "tooltip": _tooltip(drawn)}}]
    return chart(
        [],
        description=f"Map of {drawn.name}. The table below has the same numbers.",
        height=360,
        usermeta=shape(ratio=shapes.ratio, tallest=TALLEST_MAP),
        projection={"type": shapes.projection},
        layer=[
            {"data": ground, "mark": {**outline, "fill": "@sunken"}},
            {
                "data": ground,
                "transform": [{"lookup": "id", "from": looked_up}, {"filter": "isValid(datum.value)"}],
                "mark": outline,
                "encoding": {"color": colour, "tooltip": _tooltip(drawn)},
            },
            *(dotted if dots else ()),
        ],
    )


def steps_around(middle: float, reach: float) -> list[float]:
    """Where one colour ends and the next begins: round numbers, at equal distances, that reach as far as the values do."""
    least = 2 * reach / len(STEPS)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= least * (1 - 1e-9))
    centre = step * round(middle / step)
    half = len(STEPS) // 2
    return [float(f"{centre + (place + 0.5) * step:.12g}") for place in range(-half, half)]


def bars(drawn: OverKeys) -> Spec:
    """Every key of a short list; of a long one those that stand out most from the middle and from their noise."""
    shown = drawn if len(drawn.keys) <= MOST_BARS else drawn.take(_striking(drawn))
    rows = shown.rows()
    x = {"type": "quantitative", "axis": {"title": _title(drawn), "tickCount": 5}}
    signed = bool((drawn.values < 0).any())
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "color": "@chart-main", "opacity": 0.75, "height": {"band": 0.6}},
            "encoding": {"x": {"field": "value", **x}, "tooltip": _tooltip(drawn)},
        },
        {
            "mark": {**POINT, "size": 40, "color": "@chart-main"},
            "encoding": {"x": {"field": "value", **x}, "tooltip": _tooltip(drawn)},
        },
    ]
    if drawn.errors is not None:
        rule = {"type": "rule", "strokeWidth": 2, "color": "@chart-second"}
        layers.insert(1, {"mark": rule, "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}}})
    if drawn.better is not None:
        point = {**POINT, "shape": "diamond", "size": 70, "color": "@chart-second"}
        layers.append({"mark": point, "encoding": {"x": {"field": "better", **x}, "tooltip": _tooltip(drawn)}})
    if not signed and drawn.errors is not None:
        layers = layers[1:]  # a bar from 0 would hide that values far from 0 hardly differ
        for layer in layers:
            layer["encoding"]["x"] |= {"scale": {"zero": False, "domain": ends_of(rows, drawn.least_reach), "nice": True}}
    return chart(
        rows,
        description=f"{drawn.name} of each key. The table below has the same numbers.",
        height=22 * max(len(rows), 1),
        encoding={"y": name_axis(drawn.called, [str(row[drawn.called]) for row in rows])},
        layer=layers,
    )


def loaded_bars(loadings: Sequence[tuple[str, float]]) -> Spec:
    """What a factor explains of each table's spread, as shares between -1 and 1: the sign says which way it goes."""
    rows = [{"label": label, "share": share, "told": percent(abs(share))} for label, share in loadings]
    scale = {"domain": [min(-0.05, *(share for _, share in loadings), 0), 1] if loadings else [0, 1], "nice": False}
    axis = {"title": "share of its spread", **SHARE_AXIS, "tickCount": 5}
    return chart(
        rows,
        description="How much of each dataset the factor explains. The table below has the same numbers.",
        height=24 * max(len(rows), 1),
        encoding={
            "y": name_axis("label", [label for label, _ in loadings]),
            "x": {"field": "share", "type": "quantitative", "scale": scale, "axis": axis},
            "tooltip": [{"field": "label", "title": "feature"}, {"field": "told", "title": "share of its spread"}],
        },
        layer=[{"mark": {"type": "bar", "color": "@chart-main", "height": {"band": 0.65}}}],
    )


def _striking(drawn: OverKeys) -> np.ndarray:
    """Places of the keys farthest from the middle, in units of their noise, largest value first."""
    values = np.nan_to_num(drawn.values, nan=drawn.middle)
    errors = np.ones(len(values)) if drawn.errors is None else np.maximum(drawn.errors, 1e-12)
    chosen = np.argsort(-np.abs(values - drawn.middle) / errors, kind="stable")[:MOST_BARS]
    return np.asarray(chosen[np.argsort(-values[chosen], kind="stable")])


def _thinned(drawn: OverKeys) -> OverKeys:
    """Means of neighbours where there are more keys than a screen shows; their noise is independent."""
    size = len(drawn.keys)
    if size <= MOST_POINTS:
        return drawn
    starts = np.linspace(0, size, MOST_POINTS, endpoint=False).astype(int)
    counts = np.diff(np.append(starts, size))
    values = np.add.reduceat(drawn.values, starts) / counts
    better = None if drawn.better is None else np.add.reduceat(drawn.better, starts) / counts
    errors = None if drawn.errors is None else np.sqrt(np.add.reduceat(drawn.errors**2, starts)) / counts
    labels = None if drawn.labels is None else [drawn.labels[i] for i in starts]
    keys = [drawn.keys[i] for i in starts]
    return replace(drawn, keys=keys, labels=labels, values=values, errors=errors, better=better)


def _title(drawn: OverKeys) -> str:
    return f"{drawn.name} ({drawn.unit})" if drawn.unit else drawn.name


def _tooltip(drawn: OverKeys) -> list[Spec]:
    helped = [] if drawn.better is None else [{"field": "better_told", "title": "with the corpus"}]
    return [{"field": drawn.called, "title": "key"}, {"field": "told", "title": drawn.name}, *helped]


def _at(shapes: MapShapes, row: Row) -> dict[str, object]:
    longitude, latitude = shapes.dots[str(row["key"])]
    return {**row, "longitude": longitude, "latitude": latitude}


def _rounded(value: float) -> float:
    """Fewer digits than noise leaves a meaning to are never needed: pages stay small."""
    return float(f"{value:.6g}")


def _monday(week: str) -> str:
    return date.fromisoformat(f"{week}-1").isoformat()


_MOMENTS: dict[str, Callable[[str], str]] = {
    "dates": str,
    "weeks": _monday,
    "months": lambda month: f"{month}-01",
    "years": lambda year: f"{year}-01-01",
}
