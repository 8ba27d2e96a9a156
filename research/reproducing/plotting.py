"""How figures look: one colour and one marker per method everywhere, medians with quartiles, and a band for failures.

Failure (a moment matrix that is not positive definite) is an infinite error. It is drawn in a grey band on top of the axes:
a hollow marker there means that at least half of the runs failed, an error bar that reaches it that a quarter did.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

PUBLISHED = "published (read off)"
INK, FAINT, BAND = "#222222", "#DDDDDD", "#EFEFEF"


@dataclass(frozen=True)
class Look:
    label: str
    colour: str
    marker: str
    line: str = "-"


# Okabe and Ito's colours: told apart with every kind of colour vision, and by marker besides. The paper's own mechanisms
# are blue, this system's green, the baselines warm or grey.
LOOKS = {
    "nonprivate": Look("Non-P", "#222222", "*", ":"),
    "fpm": Look("FPM", "#0072B2", "o"),
    "fpm-uncentred": Look("FPM, no intercept", "#0072B2", "o", "--"),
    "fpm-opt": Look("FPM-OPT", "#56B4E9", "D"),
    "joint": Look("joint (ours)", "#009E73", "P"),
    "joint-semiring": Look("joint semiring (ours)", "#66C2A5", "d"),
    "joint-lookup": Look("joint lookup (ours)", "#009E73", "P"),
    "joint-lookup-local": Look("joint lookup, local request (ours)", "#00573F", "h", "--"),
    "joint-repair": Look("joint + repair (ours)", "#00573F", "h"),
    "apm": Look("APM", "#D55E00", "s"),
    "apm-single": Look("APM, one at a time", "#D55E00", "s", "-."),
    "apm-best": Look("APM, best case", "#D55E00", "s", "--"),
    "tpm": Look("TPM", "#CC79A7", "v"),
    "sf1": Look("SF-1", "#E69F00", "^"),
    "sf1-closed": Look("SF-1, closed form", "#E69F00", "^", "--"),
    "sf2": Look("SF-2", "#8C6D1F", "<"),
    "sf2-closed": Look("SF-2, closed form", "#8C6D1F", "<", "--"),
    "naive": Look("naive", "#D55E00", "s"),
    "unbiased": Look("unbiased, this system", "#009E73", "P"),
    "paper": Look("unbiased, as published", "#0072B2", "o"),
}


def look(method: str) -> Look:
    return LOOKS.get(method, Look(method, INK, "o"))


def canvas(
    columns: int = 1, rows: int = 1, *, width: float = 4.6, height: float = 3.4, **kwargs: Any
) -> tuple[Drawing, Any]:
    """A figure and its axes (one, or an array), in the common style, outside pyplot's global state."""
    drawing = Drawing(figsize=(width * columns, height * rows), layout="constrained")
    axes = drawing.subplots(rows, columns, **kwargs)
    for one in np.ravel(axes):
        plain(one)
    return drawing, axes


def plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.tick_params(colors=INK, labelsize=8.5)
    axes.grid(color=FAINT, lw=0.7)
    axes.set_axisbelow(True)


def label(axes: Axes, *, x: str, y: str, title: str = "") -> None:
    axes.set_xlabel(x, fontsize=9.5, color=INK)
    axes.set_ylabel(y, fontsize=9.5, color=INK)
    if title:
        axes.set_title(title, fontsize=10.5, loc="left", color=INK)


def legend(axes: Axes, **kwargs: Any) -> None:
    axes.legend(**({"fontsize": 8, "edgecolor": "none", "framealpha": 0.85, "handlelength": 2.2, "loc": "best"} | kwargs))


def legend_outside(drawing: Drawing, *panels: Axes) -> None:
    """Beside the axes: with eight lines there is no free place inside. Every label once, whichever panel has it."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(text, handle)
    if PUBLISHED in entries:
        entries[PUBLISHED] = entries.pop(PUBLISHED)  # last
    style: dict[str, Any] = {"fontsize": 8.5, "frameon": False, "handlelength": 2.4}
    drawing.legend(entries.values(), entries.keys(), loc="outside right center", **style)


def log_ticks(axes: Axes, values: Sequence[float], *, which: str = "x") -> None:
    """A logarithmic axis with ticks exactly at the values that were run, written as people say them."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks([float(value) for value in values])
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: spoken(value)))


def spoken(value: float) -> str:
    return f"{value / 1000:g}K" if value >= 1000 else f"{value:g}"


def summary(frame: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Median, quartiles and the share of failures of each group; an infinite error counts as larger than any other."""

    def quantile(share: float) -> Any:
        # An actual run's value: interpolating between a number and infinity would make up one.
        return lambda column: np.quantile(column, share, method="nearest")

    grouped = frame.groupby(list(by), sort=False)[value]
    return grouped.agg(
        low=quantile(0.25), median=quantile(0.5), high=quantile(0.75), failed=lambda column: float(np.isinf(column).mean())
    ).reset_index()


def error_lines(
    axes: Axes,
    frame: pd.DataFrame,
    *,
    x: str,
    value: str,
    methods: Sequence[str],
    log_y: bool = True,
    paper: Mapping[tuple[str, float], float] | None = None,
    span: tuple[float, float] | None = None,
) -> None:
    """One line per method through its medians, quartiles as bars, failures in the band on top.

    `paper` has published medians by (method, x): crosses in the method's colour, on the exact x. `span` is what the axis
    covers, where several panels share it (`common_span`); by default what the medians do.
    """
    found = summary(frame[frame["method"].isin(methods)], ["method", x], value)
    published = {place: value for place, value in (paper or {}).items() if place[0] in methods}
    low, high = span or common_span(found, published.values(), log_y)
    fails = bool((found["failed"] >= 0.25).any()) or any(map(np.isinf, published.values()))
    floor, top, band = _limits(low, high, log_y, fails)
    if log_y:
        axes.set_yscale("log")
    values = sorted(found[x].unique())
    log_ticks(axes, values)
    axes.grid(axis="x", visible=False)
    # Every method has its own place beside the tick and its own height in the band, so that none hides another.
    present = [method for method in methods if (found["method"] == method).any()]
    gaps = np.diff(np.log(values))
    step = min(0.055, 0.6 * (float(gaps.min()) if gaps.size else 1.0) / max(len(present), 1))
    for number, method in enumerate(present):
        rows = found[found["method"] == method].sort_values(x)
        style = look(method)
        share = (len(present) - number - 0.5) / len(present)
        inside = top * (band / top) ** share if log_y else top + share * (band - top)
        places = rows[x].to_numpy(dtype=float) * np.exp((number - (len(present) - 1) / 2) * step)
        medians = np.where(np.isfinite(rows["median"]), rows["median"], inside)
        ends = np.where(np.isfinite(rows["high"]), np.minimum(rows["high"], top), inside)
        failed = ~np.isfinite(rows["median"].to_numpy())
        axes.plot(places, medians, style.line, color=style.colour, lw=1.4, alpha=0.9, zorder=3)
        axes.vlines(places[~failed], rows["low"][~failed], ends[~failed], color=style.colour, lw=1.0, alpha=0.55, zorder=2)
        common: dict[str, Any] = {"color": style.colour, "marker": style.marker, "ls": "none", "ms": 5, "zorder": 4}
        axes.plot(places[~failed], medians[~failed], **common)
        axes.plot(places[failed], medians[failed], **common, mfc="white")
        axes.plot([], [], style.line, color=style.colour, marker=style.marker, ms=5, lw=1.4, label=style.label)
        own = [(place, value) for (name, place), value in published.items() if name == method]
        if own:
            heights = [value if np.isfinite(value) else inside for _, value in own]
            axes.plot([place for place, _ in own], heights, "x", color=style.colour, ms=7, mew=1.6, zorder=5)
    if published:
        axes.plot([], [], "x", color="#555555", ms=7, mew=1.6, label=PUBLISHED)
    _fail_band(axes, top, band, fails)
    axes.set_ylim(floor, band if fails else top)
    if log_y:
        _y_ticks(axes, floor, top)


def common_span(found: pd.DataFrame, published: Iterable[float] = (), log_y: bool = True) -> tuple[float, float]:
    """The lowest lower quartile and the highest median of a summary, among those that did not fail."""
    values = np.concatenate([found["low"].to_numpy(), found["median"].to_numpy(), np.array(list(published), dtype=float)])
    above = np.append(found["median"].to_numpy(), list(published))
    values, above = (part[np.isfinite(part) & ((part > 0) | (not log_y))] for part in (values, above))
    if not len(above):
        return (float(values.min()), float(values.max())) if len(values) else (0.1, 1.0)
    return float(values.min()), 1.25 * float(above.max())


def failure_scatter(axes: Axes, frame: pd.DataFrame, *, x: str, y: str, methods: Sequence[str]) -> None:
    """Every run as a dot on two logarithmic axes; failed ones in the band, each method at its own height."""
    kept = frame[frame["method"].isin(methods) & np.isfinite(frame[x])]
    finite = kept[y][np.isfinite(kept[y])]
    # A few runs just short of failing have huge errors; the axis ends where 99 % of them do.
    low, high = (float(finite.quantile(0.005)), float(finite.quantile(0.99))) if len(finite) else (0.1, 1.0)
    floor, top, band = _limits(low, high, True, True)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for number, method in enumerate(methods):
        rows, style = kept[kept["method"] == method], look(method)
        failed = ~np.isfinite(rows[y])
        inside = top * (band / top) ** ((len(methods) - number - 0.5) / len(methods))
        closed = "none" if style.line == "--" else style.colour
        axes.scatter(
            rows[x][~failed], rows[y][~failed], s=9, c=closed, edgecolors=style.colour, lw=0.5, alpha=0.55, zorder=3
        )
        axes.plot(rows[x][failed], np.full(int(failed.sum()), inside), "|", color=style.colour, ms=4, alpha=0.5, zorder=3)
        axes.plot([], [], style.marker, color=style.colour, mfc=closed, ms=5, label=style.label)
    _fail_band(axes, top, band, True)
    axes.set_ylim(floor, band)
    _y_ticks(axes, floor, top)


def _fail_band(axes: Axes, top: float, band: float, fails: bool) -> None:
    if not fails:
        return
    axes.axhspan(top, band, color=BAND, zorder=0)
    axes.axhline(top, color="#BBBBBB", lw=0.8, zorder=1)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "rotation": 90}
    middle = float(np.sqrt(top * band)) if axes.get_yscale() == "log" else (top + band) / 2
    axes.annotate("fail", (1.012, middle), fontsize=8.5, style="italic", color="#666666", annotation_clip=False, **place)


def _y_ticks(axes: Axes, floor: float, top: float) -> None:
    """Decades, and 2 and 5 between them where there are few; none inside the band of failures."""
    decades = [10.0**power for power in range(math.floor(math.log10(floor)), math.ceil(math.log10(top)) + 1)]
    fine = [times * decade for decade in decades for times in (1, 2, 5)]
    coarse = sum(floor <= decade <= top for decade in decades) > 2
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in (decades if coarse else fine) if floor <= tick <= top]))
    between = [times * decade for decade in decades for times in range(2, 10)]
    axes.yaxis.set_minor_locator(FixedLocator([tick for tick in between if floor <= tick <= top]))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _limits(low: float, high: float, log_y: bool, fails: bool) -> tuple[float, float, float]:
    """The bottom of the axes, where the band of failures begins, and the top."""
    if log_y:
        span = max(np.log10(high / low), 1.0)
        floor, top = low / 10 ** (0.06 * span), high * 10 ** (0.1 * span)
        return floor, top, top * 10 ** (0.22 * span)
    span = max(high - low, 1e-9)
    return min(low - 0.05 * span, 0.0), high + 0.08 * span, high + 0.3 * span
