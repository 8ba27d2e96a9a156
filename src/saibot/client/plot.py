"""A picture of a search: how R2 rose step by step, and how sure each candidate's gain is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saibot.client.augmented import Augmented
from saibot.errors import InvalidInput
from saibot.wire import Entry

# Okabe and Ito's colours: told apart with every kind of colour vision, and by marker and dash besides.
TRAIN, TEST, TAKEN, LEFT, INK, FAINT = "#0072B2", "#D55E00", "#009E73", "#8C8C8C", "#222222", "#D9D9D9"
MOST = 12
LONGEST = 40


def figure(found: Augmented) -> Any:
    """A matplotlib figure with two panels."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("plots need matplotlib.", hint="`pip install saibot[plot]` brings it.") from None
    ranked = found.result.ranked[:MOST]
    height = max(3.6, 1.6 + 0.34 * max(len(ranked), len(found.result.steps) + 1))
    drawn = Figure(figsize=(12.5, height), layout="constrained")
    left, right = drawn.subplots(1, 2, width_ratios=(1, 1.15))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(LEFT)
        axes.tick_params(colors=INK, labelsize=9)
    _path(left, found)
    _gains(right, found, ranked)
    how = "private request" if found.result.private else "local request, exact"
    drawn.suptitle(
        f"{found.result.request}: what explains {found.result.target} ({how})",
        fontsize=12,
        color=INK,
        x=0.01,
        ha="left",
    )
    return drawn


def _path(axes: Any, found: Augmented) -> None:
    path = found.path()
    labels = ["own features", *(_short(f"+ {name}") for name in path.column[1:])]
    places = range(len(labels))
    values = [*path.train_r2]
    axes.plot(path.train_r2, places, color=TRAIN, marker="o", lw=2, label="training rows")
    if path.test_r2.notna().all():
        axes.plot(path.test_r2.astype(float), places, color=TEST, marker="s", ls="--", lw=2, label="held-out rows")
        values += [*path.test_r2.astype(float)]
    shown = path.test_r2 if path.test_r2.notna().all() else path.train_r2
    style = {"textcoords": "offset points", "va": "center", "fontsize": 8.5, "color": INK}
    plain = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    for place, value in zip(places, shown, strict=True):
        axes.annotate(f"{value:.3f}", (value, place), (11, 0), bbox=plain, **style)
    low, high = min(values), max(values)
    span = max(high - low, 0.02)
    axes.set_xlim(low - 0.08 * span, high + 0.2 * span)
    axes.set_ylim(len(labels) - 0.5, -0.6)
    axes.set_yticks(list(places), labels)
    axes.set_xlabel("R²", color=INK)
    axes.set_title("R² step by step", fontsize=11, loc="left", color=INK)
    axes.grid(axis="x", color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.legend(edgecolor="none", framealpha=0.85, fontsize=9, loc="best")


def _gains(axes: Any, found: Augmented, ranked: Sequence[Entry]) -> None:
    taken = found.result.taken
    axes.set_title("gain in R² of each candidate by itself, with its interval", fontsize=11, loc="left", color=INK)
    several = len({entry.on for entry in ranked}) > 1
    if not ranked:
        axes.text(0.5, 0.5, "no candidate", ha="center", va="center", color=LEFT, transform=axes.transAxes)
        axes.set_axis_off()
        return
    for place, entry in enumerate(ranked):
        chosen = entry.identity in taken
        colour = TAKEN if chosen else LEFT
        axes.plot(entry.interval, [place, place], color=colour, lw=2.5, solid_capstyle="round")
        axes.plot(
            entry.gain, place, marker="D" if chosen else "o", ms=7, color=colour, mec="white", mew=1, ls="none", zorder=3
        )
    for label, colour, marker in (("taken", TAKEN, "D"), ("not taken", LEFT, "o")):
        axes.plot([], [], color=colour, marker=marker, lw=2.5, label=label)
    axes.set_yticks(range(len(ranked)), [_short(_candidate(entry, several)) for entry in ranked])
    axes.set_ylim(len(ranked) - 0.5, -0.6)
    most = max(entry.interval[1] for entry in ranked)
    axes.set_xlim(min(0.0, *(entry.interval[0] for entry in ranked)) - 0.02 * most, 1.05 * max(most, 1e-6))
    axes.set_xlabel("gain in R² on the training rows", color=INK)
    axes.grid(axis="x", color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.legend(edgecolor="none", framealpha=0.85, fontsize=9, loc="lower right")


def _candidate(entry: Entry, several: bool) -> str:
    name = f"{entry.dataset}.{entry.feature}" if entry.feature else entry.dataset
    return f"{name} by {entry.on}" if several else name


def _short(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST // 2 - 1]}…{label[-(LONGEST // 2) :]}"
