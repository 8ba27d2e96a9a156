"""How figure 10 is drawn, what the paper shows there, and whether ours shows it too."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pandas as pd
from matplotlib.figure import Figure as Drawing

from research.reproducing import plotting as plot
from research.reproducing.expectations import Medians, failures, holds, medians, near, said
from research.reproducing.figure import Check

FAIL = math.inf
# Read off the published plots: medians by method and x.
PAPER: dict[str, dict[tuple[str, float], float]] = {
    "a": {
        ("fpm", 10): 38, ("fpm", 100): 4, ("fpm", 1000): 0.4, ("apm", 10): 28, ("apm", 100): 3,
        ("sf1-closed", 10): 95, ("sf1-closed", 100): 33, ("tpm", 10): 125, ("tpm", 100): 38,
    },
    "b": {("fpm", 10): FAIL, ("fpm", 100): 4.7, ("apm", 10): FAIL, ("apm", 100): 2.7},
    "d": {("fpm", 500): FAIL, ("fpm", 1000): 8},
    "e": {("fpm", 100): 3, ("apm", 100): 1.2},
    "f": {("fpm", float(x)): 0.4 for x in (1, 5, 10, 50, 100)},
    "g": {("fpm", float(x)): 0.4 for x in (1, 5, 10, 50, 100)} | {("apm", 10): 2.5, ("apm", 50): FAIL},
    "h": {
        ("fpm", 10): FAIL, ("fpm", 20): FAIL, ("fpm", 50): 6, ("fpm", 100): 1.5,
        ("fpm-opt", 10): FAIL, ("fpm-opt", 20): 3, ("fpm-opt", 50): 3, ("fpm-opt", 100): 1,
    },
}  # fmt: skip
LINES = (
    "fpm",
    "fpm-uncentred",
    "fpm-opt",
    "joint",
    "joint-repair",
    "apm",
    "apm-single",
    "apm-best",
    "tpm",
    "sf1",
    "sf1-closed",
    "sf2",
    "sf2-closed",
)


def draw_lines(frame: pd.DataFrame, *, letter: str, x: str, value: str, xlabel: str, ylabel: str, title: str) -> Drawing:
    drawing, axes = plot.canvas(width=6.4, height=3.9)
    present = [method for method in LINES if (frame["method"] == method).any()]
    plot.error_lines(axes, frame, x=x, value=value, methods=present, paper=PAPER.get(letter, {}))
    plot.label(axes, x=xlabel, y=ylabel, title=title)
    plot.legend_outside(drawing, axes)
    return drawing


def draw_scatter(frame: pd.DataFrame) -> Drawing:
    drawing, axes = plot.canvas(width=6.4, height=3.9)
    plot.failure_scatter(axes, frame, x="s_error", y="beta_error", methods=[m for m in LINES if m in set(frame["method"])])
    plot.label(axes, x="s error (l2)", y="β error (l2)", title="β error against s error, every run")
    plot.legend_outside(drawing, axes)
    return drawing


def _lines(letter: str, x: str, value: str, xlabel: str, title: str) -> Callable[[pd.DataFrame], Drawing]:
    ylabel = "s error (l2)" if value == "s_error" else "β error (l2)"
    return partial(draw_lines, letter=letter, x=x, value=value, xlabel=xlabel, ylabel=ylabel, title=title)


DRAWN: dict[str, Callable[[pd.DataFrame], Drawing]] = {
    "a": _lines("a", "n", "s_error", "rows n of each table", "Union, ε = 1, δ = 1e-6"),
    "b": _lines("b", "n", "beta_error", "rows n of each table", "Union, ε = 1, δ = 1e-6"),
    "c": draw_scatter,
    "d": _lines("d", "n", "beta_error", "rows n of each table", "Union, ε = 0.1, δ = 1e-6"),
    "e": _lines("e", "n", "beta_error", "rows n of each table", "Union, ε = 1, δ = 0"),
    "f": _lines("f", "datasets", "beta_error", "datasets in the corpus", "Union, n = 1000, ε = 1, δ = 1e-6"),
    "g": _lines("g", "requests", "beta_error", "requests", "Union, n = 1000, ε = 1, δ = 1e-6"),
    "h": _lines("h", "n", "beta_error", "rows n", "Simple regression, ε = 1, δ = 1e-6"),
}
ONE_COVARIANCE = (
    "every run has its own covariance, and at this noise about half of them fail; where one covariance serves all runs, the "
    "median is often finite and near the published one"
)
NOISE_ONCE, NOISE_EVERY_ROW = ("fpm", "joint", "apm"), ("tpm",)


def check_statistics(frame: pd.DataFrame) -> list[Check]:
    found = medians(frame, "n", "s_error")
    checks = [near(f"{plot.look(m).label} at n = {n:g}", found[m, n], value) for (m, n), value in PAPER["a"].items()]
    largest, smallest = max(n for _, n in found), min(n for _, n in found)
    decades = math.log10(largest / smallest)
    for method, expected in [(m, 1.0) for m in NOISE_ONCE] + [(m, 0.5) for m in NOISE_EVERY_ROW]:
        slope = math.log10(found[method, smallest] / found[method, largest]) / decades
        what = f"{plot.look(method).label} falls with n^-{expected:g}"
        checks.append(holds(what, abs(slope - expected) < 0.06, f"exponent -{slope:.2f}"))
    gain = found["fpm", 1000] / found["joint", 1000]
    checks.append(
        holds("joint has less noise than FPM everywhere", _below(found, "joint", "fpm"), f"{gain:.2f} times at 1K")
    )
    numeric, closed = found["sf1", 1000], found["sf1-closed", 1000]
    reason = f"SF-1 {said(closed)} by closed form, {said(numeric)} by number at 1K; FPM {said(found['fpm', 1000])}"
    return [*checks, holds("the numeric bound helps SF and does not save it", found["fpm", 1000] < numeric < closed, reason)]


def check_by_rows(frame: pd.DataFrame) -> list[Check]:
    found, failed = medians(frame, "n", "beta_error"), failures(frame, "n", "beta_error")
    checks = [holds(f"{m} fails at n = 10", found[m, 10] == FAIL, f"in {failed[m, 10]:.0%} of runs") for m in ("fpm", "apm")]
    for method, paper in (("fpm", 4.7), ("apm", 2.7)):
        why = f"{failed[method, 100]:.0%} of runs fail; {ONE_COVARIANCE}"
        checks.append(near(f"{method} is finite at n = 100", found[method, 100], paper, factor=2.5, why=why))
    for method in ("fpm", "apm"):
        checks.append(
            holds(f"{method} is below 0.6 from 500 on", found[method, 500] < 0.6, f"{said(found[method, 500])} at 500")
        )
    for method in ("tpm", "sf1-closed"):
        early = all(found[method, n] == FAIL for n in (10, 100, 500, 1000))
        checks.append(holds(f"{method} fails until 10K", early, f"{failed[method, 1000]:.0%} of runs fail at 1K"))
    why = "it has the s error of FPM at n = 100, and so fails as often; see there"
    checks.append(holds("tpm is finite at 10K", found["tpm", 10_000] < FAIL, f"{failed['tpm', 10_000]:.0%} fail", why=why))
    return [*checks, _repair(found)]


def check_scatter(frame: pd.DataFrame) -> list[Check]:
    plain = frame[frame["method"] != "joint-repair"]
    levels = plain.assign(decade=pd.cut(plain["s_error"], [0, 0.1, 1, 10, math.inf], labels=["0.1", "1", "10", "inf"]))
    grouped = levels.groupby("decade", observed=True)["beta_error"]
    middle, failed = (
        grouped.quantile(0.5, interpolation="nearest"),
        grouped.agg(lambda errors: errors.map(math.isinf).mean()),
    )
    rising = [float(middle[level]) for level in ("0.1", "1", "10")]
    shares = [float(failed[level]) for level in ("0.1", "1", "10", "inf")]
    return [
        holds("β error grows with s error", rising == sorted(rising), "medians " + ", ".join(map(said, rising))),
        holds("failures grow with s error", shares == sorted(shares), ", ".join(f"{share:.0%}" for share in shares)),
        holds(
            "failures begin between s = 1 and 10",
            shares[1] < 0.25 < shares[2],
            f"{shares[1]:.0%} below 1, {shares[2]:.0%} above",
        ),
    ]


def check_small_epsilon(frame: pd.DataFrame) -> list[Check]:
    found, failed = medians(frame, "n", "beta_error"), failures(frame, "n", "beta_error")
    why = f"{failed['fpm', 1000]:.0%} of runs fail; as at n = 100 of fig10b: {ONE_COVARIANCE}"
    return [
        holds("fpm fails at 500", found["fpm", 500] == FAIL, f"in {failed['fpm', 500]:.0%} of runs"),
        near("fpm is near 8 at 1K", found["fpm", 1000], 8, factor=2.5, why=why),
        holds("fpm is small at 10K", found["fpm", 10_000] < 0.6, said(found["fpm", 10_000])),
        _repair(found),
    ]


def check_pure(frame: pd.DataFrame) -> list[Check]:
    found, failed = medians(frame, "n", "beta_error"), failures(frame, "n", "beta_error")
    return [
        near("fpm at n = 100", found["fpm", 100], 3, factor=2.5, why=ONE_COVARIANCE),
        near("apm at n = 100", found["apm", 100], 1.2, factor=2.5, why=ONE_COVARIANCE),
        holds(
            "fpm and apm are below 0.6 from 500 on", max(found["fpm", 500], found["apm", 500]) < 0.6, said(found["fpm", 500])
        ),
        holds("sf fails always", all(found["sf1", n] == FAIL for n in (10, 10_000)), "no guarantee without delta"),
        holds(
            "tpm fails until 10K",
            found["tpm", 1000] == FAIL,
            f"{failed['tpm', 1000]:.0%} at 1K, {failed['tpm', 10_000]:.0%} at 10K",
        ),
        _repair(found),
    ]


def check_growth(frame: pd.DataFrame, *, x: str) -> list[Check]:
    found, failed = medians(frame, x, "beta_error"), failures(frame, x, "beta_error")
    places = sorted(frame[x].unique())
    flat = [found["fpm", place] for place in places]
    checks = [
        holds("fpm is flat", max(flat) < 1.6 * min(flat), f"{said(min(flat))} to {said(max(flat))}; paper about 0.4"),
        holds("apm is good at 1", found["apm", 1] < 0.6, said(found["apm", 1])),
        holds("apm has failed at 50", found["apm", 50] == FAIL, f"in {failed['apm', 50]:.0%} of runs"),
        holds("apm passes fpm by 10", found["apm", 10] > 2 * found["fpm", 10], said(found["apm", 10])),
    ]
    best = [found["apm-best", place] for place in places]
    reason = f"{said(best[0])} to {said(best[-1])}: mu² added instead of epsilon split, one provider at a time"
    checks.append(holds("even the best case of apm diverges", best[-1] > 5 * best[0], reason))
    if ("apm-single", 5) in found:
        reason = f"{said(found['apm-single', 5])} at 5, {said(found['apm-single', 10])} at 10: the published line lies here"
        checks.append(holds("one at a time, apm lasts to 5", found["apm-single", 5] < FAIL, reason))
    else:
        why = f"{failed['apm', 10]:.0%} of runs fail; {ONE_COVARIANCE}"
        checks.append(near("apm at 10", found["apm", 10], 2.5, factor=2.5, why=why))
    return checks


def check_simple(frame: pd.DataFrame) -> list[Check]:
    found, failed = medians(frame, "n", "beta_error"), failures(frame, "n", "beta_error")
    few = (10, 20, 50, 100)
    fewer = ", ".join(f"{failed['fpm-opt', n]:.0%} against {failed['fpm', n]:.0%}" for n in few)
    checks = [
        holds("fpm fails at 10 and 20", found["fpm", 10] == found["fpm", 20] == FAIL, f"{failed['fpm', 20]:.0%} at 20"),
        holds("fpm-opt fails less often up to 100", all(failed["fpm-opt", n] < failed["fpm", n] for n in few), fewer),
    ]
    squared = "the variance is E[x²] - E[x]², and at this n the noise of E[x] alone, squared, exceeds it"
    exact = (
        "the scatter's exact joint sensitivity is 4 B² (n-1)/n, about 100, where the paper leaves the constant of O(B²/n) "
        "open; FPM's is 37"
    )
    for method, n in (("fpm", 50), ("fpm", 100), ("fpm-opt", 20), ("fpm-opt", 50), ("fpm-opt", 100)):
        why = f"{failed[method, n]:.0%} of runs fail; {exact if method == 'fpm-opt' else squared}"
        checks.append(near(f"{method} at n = {n}", found[method, n], PAPER["h"][method, n], factor=2.5, why=why))
    plain = [found["fpm-uncentred", n] for n in (50, 100)]
    reason = f"{said(plain[0])} and {said(plain[1])} at 50 and 100, published 6 and 1.5"
    checks.append(holds("without an intercept fpm is where it was published", max(plain) < 12, reason))
    lower = found["fpm-opt", 1000] < found["fpm", 1000]
    reason = f"{said(found['fpm-opt', 1000])} against {said(found['fpm', 1000])} at 1K"
    checks.append(holds("fpm-opt has the smaller error", lower, reason, why=exact))
    best = all(found["joint", n] < min(found["fpm", n], found["fpm-opt", n]) for n in (100, 500, 1000))
    return [*checks, holds("joint is below both from 100 on", best, f"{said(found['joint', 1000])} at 1K"), _repair(found)]


def _below(found: Medians, one: str, other: str) -> bool:
    return all(found[one, n] < value for (method, n), value in found.items() if method == other)


def _repair(found: Medians) -> Check:
    worst = max(value for (method, _), value in found.items() if method == "joint-repair")
    return holds("joint with repair never fails", worst < 1.5, f"median at most {said(worst)} at any size")


CHECKED: dict[str, Callable[[pd.DataFrame], list[Check]]] = {
    "a": check_statistics,
    "b": check_by_rows,
    "c": check_scatter,
    "d": check_small_epsilon,
    "e": check_pure,
    "f": partial(check_growth, x="datasets"),
    "g": partial(check_growth, x="requests"),
    "h": check_simple,
}
