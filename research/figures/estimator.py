"""Figure 12: the naive and the unbiased estimator over joins, without any noise; and where the unbiased one misleads.

Left panel, the paper's setting: R is cut into [y, x1, J] and [x2, J], and the key says nothing about the attributes. `paper`
is the proposition as published, `unbiased` this system's form of it (any number of rows per key, moments within a part from
that part's own totals). Right panel, ours: one per cent of all variances and covariances lies between keys; a district or a
day has more. There `unbiased` multiplies that part by about n/d: which is why it is a choice and never a default.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from research.figures.fitting import as_published, distance, joined, slopes
from research.reproducing import plotting as plot
from research.reproducing.expectations import failures, holds, medians, near, said
from research.reproducing.figure import Check, Figure, RunConfig
from research.workloads import key_signal, synthetic
from saibot.estimate.many_to_many import join_gram
from saibot.estimate.moments import exact_moments

RUNS, QUICK_RUNS = 100, 6
KEYS, SIZES = (10, 50, 100, 200), (100, 5000, 10_000, 50_000)
SHARE = 0.01
METHODS = ("naive", "paper", "unbiased")
PAPER = {
    "a": {("naive", float(d)): 0.55 for d in KEYS}
    | {("paper", float(d)): value for d, value in zip(KEYS, (0.5, 0.17, 0.13, 0.1), strict=True)},
    "b": {("naive", 100.0): 0.01, ("paper", 100.0): 0.01}
    | {("naive", float(n)): 0.5 for n in SIZES[1:]}
    | {("paper", float(n)): 0.15 for n in SIZES[1:]},
}


def measure(places: Sequence[tuple[int, int]], config: RunConfig) -> pd.DataFrame:
    """All estimators at every (n, keys), in both settings."""
    runs = QUICK_RUNS if config.quick else RUNS
    covariances = synthetic.spd_matrices(runs, 3, np.random.default_rng((config.seed, 20)))
    frames = []
    for number, (n, keys) in enumerate(places):
        config.progress(f"n = {n}, {keys} keys", number / len(places))
        small = (min(n, 2000), min(keys, 50)) if config.quick and n > 100 else (n, keys)
        for share in (0.0, SHARE):
            error = estimate(covariances, *small, share, np.random.default_rng((config.seed, 30, number, share > 0)))
            for method, values in error.items():
                columns = {"run": np.arange(runs), "beta_error": values}
                frames.append(pd.DataFrame({"method": method, "share": share, "n": n, "keys": keys, **columns}))
    return pd.concat(frames, ignore_index=True)


def estimate(covariances: np.ndarray, n: int, keys: int, share: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Distance from R's own coefficients by estimator, run by run."""
    if share:
        tables = key_signal.keyed_tables(covariances, n, keys=keys, share=share, rng=rng)
    else:
        tables = synthetic.keyed_tables(covariances, n, keys=keys, rng=rng)
    exact, own = [], []
    for table in tables:
        exact.append(table.moments)
        sides = (
            exact_moments(names, table.rows[:, list(columns)], table.place, keys)
            for names, columns in ((("y", "x1"), (0, 1)), (("x2",), (2,)))
        )
        own.append(join_gram(*sides, estimator="unbiased").matrix)
    by_key = np.array(exact)
    truth = slopes(by_key.sum(axis=1))
    parts = [by_key[:, :, columns][:, :, :, columns] for columns in ([0, 1, 2], [0, 3])]
    pairs = joined(*parts)
    return {
        "naive": distance(slopes(pairs), truth),
        "paper": distance(slopes(as_published(pairs, left=2, rows=n, keys=keys)), truth),
        "unbiased": distance(slopes(np.array(own)), truth),
    }


def draw(frame: pd.DataFrame, *, letter: str, x: str, xlabel: str) -> Drawing:
    drawing, panels = plot.canvas(2, width=4.2, height=3.6, sharey=True)
    # Without noise and with one row per key the naive estimate is exact: drawn at the bottom of the axis.
    shown = frame.assign(beta_error=frame["beta_error"].clip(lower=0.01))
    span = plot.common_span(plot.summary(shown, ["method", "share", x], "beta_error"), PAPER[letter].values())
    titles = ("the key says nothing (paper)", f"{SHARE:.0%} of the covariance lies between keys")
    for axes, share, title in zip(panels, (0.0, SHARE), titles, strict=True):
        paper = PAPER[letter] if share == 0 else {}
        rows = shown[shown["share"] == share]
        plot.error_lines(axes, rows, x=x, value="beta_error", methods=METHODS, span=span, paper=paper)
        plot.label(axes, x=xlabel, y="β error (l2)" if share == 0 else "", title=title)
    plot.legend_outside(drawing, *panels)
    return drawing


def check(frame: pd.DataFrame, *, letter: str, x: str) -> list[Check]:
    plain, signal = frame[frame["share"] == 0], frame[frame["share"] > 0]
    found, misled = medians(plain, x, "beta_error"), medians(signal, x, "beta_error")
    checks = []
    if letter == "a":
        for d in (50, 100, 200):
            reason = f"{said(found['paper', d])} against {said(found['naive', d])}"
            checks.append(holds(f"unbiased is below naive at {d} keys", found["paper", d] < found["naive", d], reason))
        falling = [found["paper", d] for d in KEYS]
        reason = ", ".join(map(said, falling))
        checks.append(holds("unbiased falls with the keys", falling[0] > 2 * falling[-1], reason))
        flat = [found["naive", d] for d in KEYS]
        checks.append(holds("naive does not", max(flat) < 1.5 * min(flat), f"{said(min(flat))} to {said(max(flat))}"))
        checks += [near(f"unbiased at {d:g} keys", found["paper", d], PAPER["a"]["paper", d], factor=1.8) for d in KEYS]
        why = "it misses the covariance between the parts, so its error is the size of a coefficient: here 0.2 to 0.3"
        checks.append(near("naive at 100 keys", found["naive", 100], 0.55, factor=1.8, why=why))
    else:
        both = max(found["naive", 100], found["paper", 100])
        checks.append(holds("both are exact with one row per key", both < 1e-3, f"{both:.1g}"))
        for n in SIZES[1:]:
            reason = f"{said(found['paper', n])} against {said(found['naive', n])}"
            checks.append(holds(f"unbiased is below naive at {n:,} rows", found["paper", n] < found["naive", n], reason))
        checks.append(near("unbiased at 10K", found["paper", 10_000], 0.15, factor=1.8))
    place = 100 if letter == "a" else 10_000
    lost = failures(signal, x, "beta_error")["unbiased", place]
    worse = misled["unbiased", place] > misled["naive", place]
    reason = f"{said(misled['unbiased', place])} against {said(misled['naive', place])}; {lost:.0%} of runs fail"
    checks.append(holds("where the key carries signal, unbiased misleads", worse, reason))
    same = abs(found["unbiased", place] / found["paper", place] - 1) < 0.25
    reason = f"{said(found['unbiased', place])} and {said(found['paper', place])}"
    return [*checks, holds("with equal keys, ours and the published form agree", same, reason)]


def _figure(letter: str, title: str, shows: str, places: Sequence[tuple[int, int]], x: str, xlabel: str) -> Figure:
    def settings(config: RunConfig) -> dict[str, Any]:
        runs = QUICK_RUNS if config.quick else RUNS
        return {"runs": runs, "bound": synthetic.BOUND, "share": SHARE, "places": [list(place) for place in places]}

    return Figure(
        name=f"fig12{letter}",
        title=title,
        shows=shows,
        run=partial(measure, places),
        draw=partial(draw, letter=letter, x=x, xlabel=xlabel),
        check=partial(check, letter=letter, x=x),
        settings=settings,
    )


FIGURES = {
    "fig12a": _figure(
        "a",
        "Estimators over a join, against keys",
        "Without noise: the unbiased estimator finds the coefficients of the table that was cut in two.",
        [(10_000, keys) for keys in KEYS],
        "keys",
        "keys d  (n = 10K)",
    ),
    "fig12b": _figure(
        "b",
        "Estimators over a join, against rows",
        "One row per key is a one-to-one join, and exact. Beyond that the naive estimator pairs strangers.",
        [(n, 100) for n in SIZES],
        "n",
        "rows n  (d = 100)",
    ),
}
