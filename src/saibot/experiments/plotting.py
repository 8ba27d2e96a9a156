"""How figures look: one colour and one marker per method everywhere, medians with quartiles, and a band for failures.

Failure (a moment matrix that is not positive definite) is an infinite error. It is drawn in a grey band on top of the axes:
a hollow marker there means that at least half of the runs failed, an error bar that reaches it that a quarter did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

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
    "fpm-opt": Look("FPM-OPT", "#56B4E9", "D"),
    "joint": Look("joint (ours)", "#009E73", "P"),
    "joint-semiring": Look("joint semiring (ours)", "#66C2A5", "X"),
    "joint-lookup": Look("joint lookup (ours)", "#009E73", "P"),
    "joint-lookup-local": Look("joint lookup, local request (ours)", "#00573F", "h", "--"),
    "apm": Look("APM", "#D55E00", "s"),
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


def error_lines(axes: Axes, frame: pd.DataFrame, *, x: str, value: str, methods: Sequence[str], log_y: bool = True) -> None:
    """One line per method through its medians, quartiles as bars, failures in the band on top."""
    found = summary(frame[frame["method"].isin(methods)], ["method", x], value)
    finite = found[["low", "median", "high"]].to_numpy()
    finite = finite[np.isfinite(finite) & (finite > 0)] if log_y else finite[np.isfinite(finite)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.1, 1.0)
    fails = bool((found["failed"] >= 0.25).any())
    floor, top, band = _limits(low, high, log_y, fails)
    if fails:
        axes.axhspan(top, band, color=BAND, zorder=0)
    middle = np.sqrt(top * band) if log_y else (top + band) / 2
    if log_y:
        axes.set_yscale("log")
    values = sorted(found[x].unique())
    log_ticks(axes, values)
    spread = min(0.05, 0.25 / max(len(methods), 1)) * np.log(max(values) / min(values)) / max(len(values) - 1, 1) * 4
    present = [method for method in methods if (found["method"] == method).any()]
    for number, method in enumerate(present):
        rows = found[found["method"] == method].sort_values(x)
        style = look(method)
        shift = np.exp((number - (len(present) - 1) / 2) * spread / max(len(present), 1) * 2)
        places = rows[x].to_numpy(dtype=float) * shift
        medians = np.where(np.isfinite(rows["median"]), rows["median"], middle)
        ends = np.where(np.isfinite(rows["high"]), rows["high"], middle)
        failed = ~np.isfinite(rows["median"].to_numpy())
        axes.plot(places, medians, style.line, color=style.colour, lw=1.5, zorder=3)
        axes.vlines(places[~failed], rows["low"][~failed], ends[~failed], color=style.colour, lw=1.1, alpha=0.7, zorder=2)
        common: dict[str, Any] = {"color": style.colour, "marker": style.marker, "ls": "none", "ms": 5.5, "zorder": 4}
        axes.plot(places[~failed], medians[~failed], **common)
        axes.plot(places[failed], medians[failed], **common, mfc="white")
        axes.plot([], [], style.line, color=style.colour, marker=style.marker, ms=5.5, lw=1.5, label=style.label)
    axes.set_ylim(floor, band if fails else top)
    if fails:
        axes.annotate(
            "fail",
            (0.01, middle),
            xycoords=("axes fraction", "data"),
            fontsize=8,
            style="italic",
            va="center",
            color="#666666",
        )


def _limits(low: float, high: float, log_y: bool, fails: bool) -> tuple[float, float, float]:
    """The bottom of the axes, where the band of failures begins, and the top."""
    if log_y:
        span = max(np.log10(high / low), 1.0)
        floor, top = low / 10 ** (0.06 * span), high * 10 ** (0.1 * span)
        return floor, top, top * 10 ** (0.16 * span)
    span = max(high - low, 1e-9)
    return min(low - 0.05 * span, 0.0), high + 0.08 * span, high + 0.24 * span
