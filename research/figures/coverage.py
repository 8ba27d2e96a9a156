"""Ours: do intervals hold what they promise? Shares of simulated releases whose interval holds the exact number.

Left, a private request (`joint` lookup sketch) and a column looked up by key: its gain in R2 on the training table, R2 of a
given model on a held-out table, and its coefficient, at several confidence levels. Right, the slope of a simple regression
over a union: the paper's bound as its theorem states it, the same from private values only, and Fieller's interval. The
first two are bounds, so they may hold more often than they say; intervals should hold as often as they say.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from research.confidence import SlopeNoise, computable_bound, fieller_interval, theorem_bound
from research.plans import deviations, planned, terms
from research.releases import MomentRelease, Release
from research.reproducing import plotting as plot
from research.reproducing.expectations import holds
from research.reproducing.figure import Check, Figure, RunConfig
from research.seeded import Seeded
from research.workloads.synthetic import BOUND, spd_matrices, union_moments
from saibot.estimate.intervals import coefficient_interval, gain_interval, r2_interval
from saibot.estimate.moments import exact_moments, moments_of_sketch
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.semiring import Moments
from saibot.sketch import KeyDomain

RUNS, QUICK_RUNS = 1000, 8
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
REQUESTS = ((5000, 50), (20_000, 200))  # rows, keys
SIZES = (500, 1000, 2000, 5000, 10_000)
P = 0.1
BUDGET = Budget("1", "1e-6")
CARD = Card.parse({"dataset": {"name": "request"}, "features": {name: {"bounds": (-1.0, 1.0)} for name in ("x", "y")}})
KINDS = {
    "gain": ("gain in R², training", "#009E73", "P"),
    "held-out r2": ("R² on held-out rows", "#0072B2", "o"),
    "coefficient": ("coefficient", "#E69F00", "^"),
}
BOUNDS = {
    "theorem": ("the paper's theorem (bound)", "#D55E00", "s"),
    "computable": ("from private values (bound)", "#CC79A7", "v"),
    "fieller": ("Fieller (interval)", "#009E73", "P"),
}


def run(config: RunConfig) -> pd.DataFrame:
    frames = [request_coverage(n, d, config) for n, d in REQUESTS]
    return pd.concat([*frames, slope_coverage(config)], ignore_index=True)


def request_coverage(n: int, d: int, config: RunConfig) -> pd.DataFrame:
    """One row per run, kind and level: whether the interval held the number that exact moments give."""
    runs = QUICK_RUNS if config.quick else RUNS
    rng = np.random.default_rng((config.seed, 50, n, d))
    noise = Seeded(rng)
    rows = []
    for number in range(runs):
        config.progress(f"requests of {n} rows", 0.4 * number / runs)
        values = 0.3 * rng.standard_normal((d, 1))
        exact, request = _table(values, n, d, rng)
        seen = moments_of_sketch(request.sketch(noise))
        other, _ = _table(values, n, d, rng)
        values = np.pad(values, ((0, 1), (0, 0)))  # keys outside the domain: nobody has them
        for kind, level, held in _held(seen, exact, other, values):
            rows.append({"method": kind, "x": level, "run": number, "held": held, "n": n, "keys": d})
    return pd.DataFrame(rows)


def _table(values: np.ndarray, n: int, d: int, rng: np.random.Generator) -> tuple[Moments, Release]:
    """A request [x, y] within its public bounds, exactly and to be released: y depends on x and on a key's value."""
    place = rng.integers(0, d, n)
    x = 0.1 + 0.3 * rng.standard_normal(n)
    y = 0.2 + 0.5 * x + 0.5 * values[place, 0] + 0.3 * rng.standard_normal(n)
    rows = np.clip(np.column_stack([x, y]), -1, 1)
    return exact_moments(("x", "y"), rows, place, d + 1), Release(CARD, rows, place, _keys(d), BUDGET)


@cache
def _keys(d: int) -> KeyDomain:
    return KeyDomain.of("key", [str(number) for number in range(d)])


def _held(seen: Moments, exact: Moments, other: Moments, values: np.ndarray) -> list[tuple[str, float, bool]]:
    ask: dict[str, Any] = {"own": ("x",), "target": "y", "values": values}
    (base, full), (true_base, true_full), (_, given) = (_fits(moments, values) for moments in (seen, exact, other))
    gain = gain_interval(exact, base=true_base, full=true_full, **ask).value
    r2 = r2_interval(exact, theta=given, source="test", **ask).value
    found = []
    for level in LEVELS:
        intervals = {
            "gain": (gain_interval(seen, base=base, full=full, confidence=level, **ask), gain),
            "held-out r2": (r2_interval(seen, theta=given, source="test", confidence=level, **ask), r2),
            "coefficient": (coefficient_interval(seen, index=2, confidence=level, **ask), float(true_full[2])),
        }
        found += [(kind, level, bool(ends.lower <= truth <= ends.upper)) for kind, (ends, truth) in intervals.items()]
    return found


def _fits(moments: Moments, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gram = moments.gram(values, ["z"])
    base, full = gram.fit(("x",), "y", ridge=0.0), gram.fit(("x", "z"), "y", ridge=0.0)
    return np.append(base.theta, 0.0), full.theta


def slope_coverage(config: RunConfig) -> pd.DataFrame:
    """The slope of y on x in a union of two tables by `joint`, at confidence 1 - p; how wide each statement is, too."""
    runs = QUICK_RUNS if config.quick else RUNS
    covariances = spd_matrices(runs, 2, np.random.default_rng((config.seed, 51)))
    rows = []
    for number, n in enumerate(SIZES):
        config.progress(f"unions of {n} rows", 0.8 + 0.2 * number / len(SIZES))
        rng = np.random.default_rng((config.seed, 52, n))
        tables = union_moments(covariances, n, tables=2, rng=rng)
        plan = planned(terms("joint", "union", features=2, budget=BUDGET, bound_squared=int(BOUND**2), rows=n))
        exact, noisy = tables.sum(axis=1), MomentRelease(plan, n).matrices(tables, Seeded(rng)).sum(axis=1)
        sigma = deviations(plan, "global")
        known = SlopeNoise(2 * n, *(math.sqrt(2) * sigma[place] for place in ((0, 2), (2, 2), (1, 2))))
        for index in range(runs):
            for kind, width, held in _slope_held(known, exact[index], noisy[index]):
                rows.append({"method": kind, "x": n, "run": index, "held": held, "width": width})
    return pd.DataFrame(rows)


def _slope_held(noise: SlopeNoise, exact: np.ndarray, noisy: np.ndarray) -> list[tuple[str, float, bool]]:
    true, seen = (_centred(moments) for moments in (exact, noisy))
    slope, private = true["covariance"] / true["variance"], seen["covariance"] / seen["variance"]
    low, high = fieller_interval(noise, p=P, **seen)
    widths = {
        "theorem": theorem_bound(noise, p=P, bound=BOUND, variance=true["variance"], slope=slope),
        "computable": computable_bound(noise, p=P, **seen),
    }
    found = [(kind, width, bool(abs(private - slope) <= width)) for kind, width in widths.items()]
    return [*found, ("fieller", (high - low) / 2, bool(low <= slope <= high))]


def _centred(moments: np.ndarray) -> dict[str, float]:
    means = moments / moments[0, 0]
    x, y = float(means[0, 2]), float(means[0, 1])
    return {"mean_x": x, "mean_y": y, "variance": float(means[2, 2]) - x * x, "covariance": float(means[1, 2]) - x * y}


def draw(frame: pd.DataFrame) -> Drawing:
    drawing, panels = plot.canvas(3, width=3.7, height=3.5)
    asked = frame[frame["method"].isin(KINDS)]
    panels[0].plot([0.45, 1], [0.45, 1], color="#999999", lw=1, zorder=1)
    for (n, _), dash in zip(REQUESTS, ("-", "--"), strict=True):
        for kind, (text, colour, marker) in KINDS.items():
            line = asked[(asked["method"] == kind) & (asked["n"] == n)].groupby("x")["held"].mean()
            label = text if dash == "-" else None
            panels[0].plot(line.index, line, dash, color=colour, marker=marker, ms=5, lw=1.3, label=label)
    panels[0].plot([], [], "-", color="#777777", label="{:,} rows, {} keys".format(*REQUESTS[0]))
    panels[0].plot([], [], "--", color="#777777", label="{:,} rows, {} keys".format(*REQUESTS[1]))
    plot.label(panels[0], x="confidence asked for", y="share that holds the truth", title="private request, ε = 1")
    plot.legend(panels[0], loc="upper left", fontsize=7.5)
    slopes = frame[frame["method"].isin(BOUNDS)]
    panels[1].axhline(1 - P, color="#999999", lw=1, zorder=1)
    for kind, (text, colour, marker) in BOUNDS.items():
        part = slopes[slopes["method"] == kind]
        line = part.groupby("x")["held"].mean()
        panels[1].plot(line.index, line, "-", color=colour, marker=marker, ms=5, lw=1.3, label=text)
        widths = part.groupby("x")["width"].quantile(0.5, interpolation="nearest")
        shown = widths[np.isfinite(widths)]
        panels[2].plot(shown.index, shown, "-", color=colour, marker=marker, ms=5, lw=1.3)
    panels[1].set_ylim(0.8, 1.01)
    for axes in panels[1:]:
        plot.log_ticks(axes, SIZES)
    plot.log_ticks(panels[2], (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10), which="y")
    plot.label(panels[1], x="rows n of each table", y="share that holds the truth", title="slope over a union, asked 90 %")
    plot.label(panels[2], x="rows n of each table", y="median half-width", title="and how wide (none: unbounded)")
    plot.legend(panels[1], loc="lower right", fontsize=7.5)
    return drawing


def check(frame: pd.DataFrame) -> list[Check]:
    asked, slopes = frame[frame["method"].isin(KINDS)], frame[frame["method"].isin(BOUNDS)]
    checks = []
    for kind, (text, _, _) in KINDS.items():
        found = asked[asked["method"] == kind].groupby(["n", "x"])["held"].mean()
        off = max(abs(share - level) for (_, level), share in found.items())
        at = found.xs(0.9, level="x")
        reason = f"at 90 %: {at.min():.1%} to {at.max():.1%}; at most {off:.1%} off at any level"
        # Five points: what the tests ask of 90 %, and three standard errors of 50 % in a thousand runs.
        checks.append(holds(f"intervals of {text} hold as often as they say", off < 0.05, reason))
    for kind in ("theorem", "computable"):
        shares = slopes[slopes["method"] == kind].groupby("x")["held"].mean()
        checks.append(
            holds(f"the {kind} bound holds at least 90 %", shares.min() >= 0.9, f"{shares.min():.1%} at the least")
        )
    fieller = slopes[slopes["method"] == "fieller"].groupby("x")["held"].mean()
    reason = f"{fieller.min():.1%} to {fieller.max():.1%}"
    checks.append(holds("Fieller's interval holds 85 to 95 %", bool(fieller.between(0.85, 0.95).all()), reason))
    wide = slopes[slopes["x"] == SIZES[-1]].groupby("method")["width"].quantile(0.5, interpolation="nearest")
    reason = f"{wide['theorem'] / wide['fieller']:.1f} times narrower than the theorem at n = {SIZES[-1]:,}"
    return [*checks, holds("and is much narrower", wide["fieller"] < wide["computable"] < math.inf, reason)]


def _settings(config: RunConfig) -> dict[str, Any]:
    facts = {"levels": list(LEVELS), "requests": [list(pair) for pair in REQUESTS], "sizes": list(SIZES), "p": P}
    return {"runs": QUICK_RUNS if config.quick else RUNS, **facts}


FIGURES = {
    "coverage": Figure(
        name="coverage",
        title="Intervals hold what they promise",
        shows="Intervals of gains, R² and coefficients hold the exact number as often as they say. The paper's bound for a "
        "slope holds too, and is several times wider than an interval need be.",
        run=run,
        draw=draw,
        check=check,
        settings=_settings,
    )
}
