"""How figure 11 is drawn, what the paper shows there, and whether ours shows it too.

The published plot is compared with the naive panel: where methods begin to fail is the same there, point by point. With the
unbiased estimator, with or without the ridge of the published code, FPM and FPM-OPT fail at most of these points.
"""

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
TITLES = {
    "naive": "the join as it is (naive)",
    "unbiased": "unbiased, no ridge",
    "ridge": "unbiased, ridge 10 on x2",
}
LINES = ("nonprivate", "fpm", "fpm-opt", "joint", "joint-repair", "apm", "tpm", "sf1")


def _published(places: tuple[int, ...], **lines: tuple[float, ...]) -> dict[tuple[str, float], float]:
    return {
        (method.replace("_", "-"), float(place)): value
        for method, values in lines.items()
        for place, value in zip(places, values, strict=True)
    }


COUNTS = (1, 5, 10, 50, 100)
PAPER = {
    "a": _published((10, 50, 100, 200), fpm=(2, 2, 4, FAIL), fpm_opt=(1.5, 2, 2, 5)),
    "b": _published((1000, 5000, 10_000, 50_000), fpm=(FAIL, FAIL, 3, 2), fpm_opt=(FAIL, 8, 2, 1.5), apm=(2.5, 2, 2.5, 2)),
    "c": _published(COUNTS, fpm=(3,) * 5, fpm_opt=(2,) * 5),
    "d": _published(COUNTS, fpm=(3,) * 5, fpm_opt=(2,) * 5),
}
HEIGHT = (
    "published errors are three to ten times ours for every method, also for APM, whose noise of 0.04 on mean moments of "
    "about 1.5 cannot cause them; the paper states neither estimator nor ridge"
)


def draw(frame: pd.DataFrame, *, letter: str, x: str, xlabel: str) -> Drawing:
    drawing, panels = plot.canvas(3, width=3.9, height=3.7, sharey=True)
    span = plot.common_span(plot.summary(frame, ["method", "estimator", x], "beta_error"), PAPER[letter].values())
    for axes, (estimator, title) in zip(panels, TITLES.items(), strict=True):
        rows = frame[frame["estimator"] == estimator]
        paper = PAPER[letter] if estimator == "naive" else {}
        plot.error_lines(axes, rows, x=x, value="beta_error", methods=LINES, span=span, paper=paper)
        plot.label(axes, x=xlabel, y="β error (l2)" if estimator == "naive" else "", title=title)
    plot.legend_outside(drawing, *panels)
    return drawing


def check_keys(frame: pd.DataFrame) -> list[Check]:
    found, failed = _naive(frame, "keys")
    few = ", ".join(f"{failed['fpm', d]:.0%}" for d in (10, 50, 100, 200))
    steady = [found["fpm", d] < FAIL for d in (10, 50, 100)]
    checks = [
        holds("fpm fails at 200 keys and not before", found["fpm", 200] == FAIL and all(steady), f"in {few} of runs"),
        holds("fpm-opt lasts to 200 keys", found["fpm-opt", 200] < FAIL, said(found["fpm-opt", 200])),
        holds("apm is below fpm-opt at 200 keys", found["apm", 200] < found["fpm-opt", 200], said(found["apm", 200])),
        holds("tpm fails", all(found["tpm", d] == FAIL for d in (10, 50, 100, 200)), "in all runs"),
        holds(
            "sf fails from 50 keys", min(found["sf1", d] for d in (50, 100, 200)) == FAIL, f"{said(found['sf1', 10])} at 10"
        ),
        near("fpm at 10 keys", found["fpm", 10], 2, factor=2.5, why=HEIGHT),
        near("fpm-opt at 100 keys", found["fpm-opt", 100], 2, factor=2.5, why=HEIGHT),
    ]
    return [*checks, _joint(found), *_unbiased(frame, "keys", 100)]


def check_rows(frame: pd.DataFrame) -> list[Check]:
    found, failed = _naive(frame, "n")
    shares = ", ".join(f"{failed['fpm', n]:.0%}" for n in (1000, 5000, 10_000, 50_000))
    right = found["fpm", 1000] == found["fpm", 5000] == FAIL and found["fpm", 10_000] < FAIL
    why = f"{failed['fpm-opt', 5000]:.0%} of runs fail, the median is on the edge"
    checks = [
        holds("fpm fails at 1K and 5K, not from 10K on", right, f"in {shares} of runs"),
        holds("fpm-opt fails at 1K", found["fpm-opt", 1000] == FAIL, f"in {failed['fpm-opt', 1000]:.0%} of runs"),
        holds("fpm-opt is finite at 5K", found["fpm-opt", 5000] < FAIL, said(found["fpm-opt", 5000]), why=why),
        holds("apm never fails", all(found["apm", n] < FAIL for n in (1000, 50_000)), said(found["apm", 1000]) + " at 1K"),
        holds("tpm and sf fail", found["tpm", 50_000] == found["sf1", 50_000] == FAIL, "at 50K too"),
        near("fpm at 50K", found["fpm", 50_000], 2, factor=2.5, why=HEIGHT),
        near("apm at 10K", found["apm", 10_000], 2.5, factor=2.5, why=HEIGHT),
    ]
    return [*checks, _joint(found), *_unbiased(frame, "n", 10_000)]


def check_growth(frame: pd.DataFrame, *, x: str, last: int, then: int) -> list[Check]:
    found, failed = _naive(frame, x)
    checks = []
    for method, paper in (("fpm", 3), ("fpm-opt", 2)):
        line = [found[method, count] for count in COUNTS]
        flat = max(line) < 1.8 * min(line)
        checks.append(holds(f"{method} is flat", flat, f"{said(min(line))} to {said(max(line))}"))
        checks.append(near(f"{method} is near {paper}", line[2], paper, factor=2.5, why=HEIGHT))
    lasts = found["apm", last] < FAIL and found["apm", then] == FAIL
    reason = f"{said(found['apm', last])} at {last}, {failed['apm', then]:.0%} of runs fail at {then}"
    checks.append(holds(f"apm lasts to {last} and has failed at {then}", lasts, reason))
    checks.append(holds("tpm and sf fail", found["tpm", 1] == found["sf1", 1] == FAIL, "whatever the count"))
    return [*checks, _joint(found)]


def _naive(frame: pd.DataFrame, x: str) -> tuple[Medians, Medians]:
    rows = frame[frame["estimator"] == "naive"]
    return medians(rows, x, "beta_error"), failures(rows, x, "beta_error")


def _joint(found: Medians) -> Check:
    places = [place for method, place in found if method == "joint" and found["fpm", place] < FAIL]
    below = all(found["joint", place] <= 1.05 * min(found["fpm", place], found["fpm-opt", place]) for place in places)
    gap = max((found["fpm", place] / found["joint", place] for place in places), default=1.0)
    return holds("joint is not above fpm or fpm-opt anywhere", below, f"up to {gap:.1f} times below fpm")


def _unbiased(frame: pd.DataFrame, x: str, place: float) -> list[Check]:
    """Not in the paper: what stands behind its choice of estimator."""
    failed = failures(frame[frame["estimator"] == "unbiased"], x, "beta_error")
    shares = {method: failed[method, place] for method in ("fpm", "fpm-opt", "joint")}
    reason = ", ".join(f"{method} {share:.0%}" for method, share in shares.items())
    most = min(shares["fpm"], shares["fpm-opt"]) > 0.5
    own = medians(frame[frame["estimator"] == "unbiased"], x, "beta_error")["joint-repair", place]
    return [
        holds("unbiased and without ridge, fpm and fpm-opt fail in most runs", most, reason),
        holds("joint with repair never fails", own < FAIL, f"median {said(own)}"),
    ]


DRAWN: dict[str, Callable[[pd.DataFrame], Drawing]] = {
    "a": partial(draw, letter="a", x="keys", xlabel="keys d  (n = 10K)"),
    "b": partial(draw, letter="b", x="n", xlabel="rows n  (d = 100)"),
    "c": partial(draw, letter="c", x="datasets", xlabel="datasets in the corpus"),
    "d": partial(draw, letter="d", x="requests", xlabel="requests"),
}
CHECKED: dict[str, Callable[[pd.DataFrame], list[Check]]] = {
    "a": check_keys,
    "b": check_rows,
    "c": partial(check_growth, x="datasets", last=5, then=10),
    "d": partial(check_growth, x="requests", last=10, then=50),
}
