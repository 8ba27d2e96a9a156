"""Figure 11: errors of regressions over many-to-many joins, synthetic data. What is run; `join_shapes` has the rest.

One table R[y, x1, x2, J] is cut into [y, x1, J] and [x2, J]; each part is privatised, they are joined on J, and y is
regressed on x1 and x2. The error is the distance from the coefficients of R itself. Three estimators (column `estimator`):

* `naive`: the moments of the join as it is. It cannot see the covariance between the parts, but it is steady.
* `unbiased`: the paper's proposition for the moments of R. It multiplies the noise of that covariance by about n/d.
* `ridge`: `unbiased` with a ridge of 10 on the joined feature's mean square, as in the published code.

`joint` releases the layout that suits the estimator (semi-ring for the naive one, which needs products per key; lookup for
the others), under the same failure rule; `joint-repair` is what this system makes of it with its own estimator and fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from research.baselines import apm, sf, tpm
from research.figures import join_shapes as shapes
from research.figures.fitting import as_published, distance, joined, slopes
from research.plans import planned, terms
from research.releases import MomentRelease
from research.reproducing.figure import Figure, RunConfig
from research.seeded import Seeded
from research.workloads.synthetic import BOUND, KeyedTable, keyed_tables, spd_matrices
from saibot.estimate.many_to_many import join_gram
from saibot.estimate.moments import moments_of_sketch
from saibot.privacy import Budget
from saibot.privacy.mechanisms import Plan
from saibot.semiring import Moments

RUNS, QUICK_RUNS = 100, 6
EPSILON, DELTA = "1", "1e-6"
RIDGE = 10.0
KEYS = (10, 50, 100, 200)
SIZES = (1000, 5000, 10_000, 50_000)
COUNTS = (1, 5, 10, 50, 100)
PARTS = {"left": (0, 1, 2), "right": (0, 3)}  # columns of [1, y, x1, x2]
METHODS = ("nonprivate", "fpm", "fpm-opt", "joint", "apm", "tpm", "sf1")


@dataclass(frozen=True)
class JoinPoint:
    """One place on the x axis."""

    n: int = 10_000
    keys: int = 100
    datasets: int = 2
    requests: int = 1


@dataclass(frozen=True)
class JoinTables:
    """Exact statistics of all runs at one (n, keys), and the reports of the baselines that need the rows themselves."""

    left: np.ndarray  # (runs, keys, 3, 3)
    right: np.ndarray  # (runs, keys, 2, 2)
    whole: np.ndarray  # (runs, 4, 4)
    reports: dict[str, tuple[np.ndarray, np.ndarray]]


def measure(points: Sequence[JoinPoint], config: RunConfig) -> pd.DataFrame:
    runs = QUICK_RUNS if config.quick else RUNS
    frames, known = [], {}
    for number, point in enumerate(points):
        if config.quick:
            point = JoinPoint(min(point.n, 2000), min(point.keys, 50), point.datasets, point.requests)
        place = (point.n, point.keys)
        if place not in known:
            tell = partial(_tell, config, f"n = {point.n}, {point.keys} keys", number / len(points), 1 / len(points))
            known = {place: prepare(point, runs, config.seed, tell)}
        tables = known[place]
        for method in METHODS:
            rng = np.random.default_rng((config.seed, 22, number, METHODS.index(method)))
            for estimator, error in errors(method, tables, point, rng).items():
                columns = {"run": np.arange(runs), "beta_error": error}
                frames.append(pd.DataFrame({"method": method, "estimator": estimator, **asdict(points[number]), **columns}))
        for estimator, error in repaired(tables, point, np.random.default_rng((config.seed, 23, number))).items():
            columns = {"run": np.arange(runs), "beta_error": error}
            frames.append(
                pd.DataFrame({"method": "joint-repair", "estimator": estimator, **asdict(points[number]), **columns})
            )
    return pd.concat(frames, ignore_index=True)


def prepare(point: JoinPoint, runs: int, seed: int, tell: Any) -> JoinTables:
    """All runs' tables, reduced to statistics one by one: the rows of all of them would not fit in memory."""
    covariances = spd_matrices(runs, 3, np.random.default_rng((seed, 20)))
    rng = np.random.default_rng((seed, 21, point.n, point.keys))
    left, right, whole = (np.empty((runs, *shape)) for shape in ((point.keys, 3, 3), (point.keys, 2, 2), (4, 4)))
    reports = {method: (np.empty_like(left), np.empty_like(right)) for method in ("tpm", "sf1")}
    for run, table in enumerate(keyed_tables(covariances, point.n, keys=point.keys, rng=rng)):
        tell(run / runs)
        exact = table.moments
        whole[run] = exact.sum(axis=0)
        left[run], right[run] = (exact[:, columns][:, :, columns] for columns in map(list, PARTS.values()))
        for method, (one, other) in reports.items():
            one[run], other[run] = _per_tuple(method, table, point, rng)
    return JoinTables(left, right, whole, reports)


def _per_tuple(method: str, table: KeyedTable, point: JoinPoint, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    facts: dict[str, Any] = {"bound_squared": BOUND**2, "epsilon": float(EPSILON), "delta": float(DELTA), "keys": point.keys}
    parts = []
    for columns in (table.rows[:, :2], table.rows[:, 2:]):
        m = columns.shape[1]
        plan = tpm.plan(features=m, **facts) if method == "tpm" else sf.sf1(rows=point.n, features=m, **facts)
        parts.append(plan.release_keyed(columns, table.place, rng))
    return tuple(parts)


def errors(method: str, tables: JoinTables, point: JoinPoint, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """By estimator, under the paper's rule of failure."""
    truth = slopes(tables.whole)
    found = {}
    for estimator in ("naive", "unbiased"):
        moments = noisy_join(method, tables, point, estimator, rng)
        if moments is None:
            continue
        if estimator == "naive":
            found["naive"] = distance(slopes(moments), truth)
            continue
        means = moments if method == "joint" else as_published(moments, left=2, rows=point.n, keys=point.keys)
        found["unbiased"] = distance(slopes(means), truth)
        found["ridge"] = distance(slopes(means, ridge=np.array([0.0, RIDGE])), truth)
    return found


def noisy_join(
    method: str, tables: JoinTables, point: JoinPoint, estimator: str, rng: np.random.Generator
) -> np.ndarray | None:
    """Moments (runs, 4, 4) of the join of noisy parts; for `joint` and the unbiased estimator, of R itself."""
    runs, keys = tables.left.shape[:2]
    match method:
        case "nonprivate":
            return joined(tables.left, tables.right)
        case "tpm" | "sf1":
            return joined(*tables.reports[method])
        case "apm":
            parts = apm.answers(providers=point.datasets - 1, requests=point.requests, subsets=True)
            noise = apm.join_noise(
                features=3,
                bound_squared=2 * BOUND**2,
                max_frequency=-(-point.n // keys),
                epsilon=float(EPSILON),
                delta=float(DELTA),
                parts=parts,
            )
            return np.asarray(joined(tables.left, tables.right) + noise.drawn(rng, (runs,)))
        case "joint" if estimator != "naive":
            return np.array([join_gram(*sides, estimator="unbiased").matrix for sides in lookup_sides(tables, point, rng)])
        case _:
            layout = "semiring" if method == "joint" else "join"
            noisy = []
            for exact, features in ((tables.left, 2), (tables.right, 1)):
                release = MomentRelease(key_plan(method, layout, features, point.n, keys), point.n)
                noisy.append(release.matrices(exact, Seeded(rng)))
            return joined(*noisy)


def repaired(tables: JoinTables, point: JoinPoint, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """This system's own way: lookup sketches, its unbiased estimator, and a fit that knows the noise."""
    found = np.empty((len(tables.whole), 2))
    for run, sides in enumerate(lookup_sides(tables, point, rng)):
        fit = join_gram(*sides, estimator="unbiased").fit(("x1", "x2"), "y")
        found[run] = fit.coefficients
    error = distance(found, slopes(tables.whole, centred=True))
    return {"unbiased": error, "ridge": error}


def lookup_sides(tables: JoinTables, point: JoinPoint, rng: np.random.Generator) -> list[tuple[Moments, Moments]]:
    """Both parts of every run as `joint` lookup sketches say them."""
    noise = Seeded(rng)

    def sketched(exact: np.ndarray, names: tuple[str, ...]) -> list[Moments]:
        release = MomentRelease(key_plan("joint", "lookup", len(names), point.n, point.keys), point.n)
        with_catch_all = np.pad(exact, ((0, 0), (0, 1), (0, 0), (0, 0)))
        return [moments_of_sketch(release.sketch(table, names, noise)) for table in with_catch_all]

    return list(zip(sketched(tables.left, ("y", "x1")), sketched(tables.right, ("x2",)), strict=True))


def key_plan(mechanism: str, layout: str, features: int, rows: int, keys: int) -> Plan:
    sizes = (keys + 1,) if layout == "lookup" else ()
    budget, squared = Budget(EPSILON, DELTA), int(BOUND**2)
    return planned(terms(mechanism, layout, features=features, budget=budget, bound_squared=squared, sizes=sizes, rows=rows))


def _tell(config: RunConfig, stage: str, done: float, share: float, part: float) -> None:
    config.progress(stage, done + share * part)


def _figure(letter: str, title: str, shows: str, points: Sequence[JoinPoint]) -> Figure:
    def settings(config: RunConfig) -> dict[str, Any]:
        facts = {"bound": BOUND, "epsilon": EPSILON, "delta": DELTA, "ridge": RIDGE, "methods": list(METHODS)}
        return {"runs": QUICK_RUNS if config.quick else RUNS, **facts, "points": [asdict(point) for point in points]}

    return Figure(
        name=f"fig11{letter}",
        title=title,
        shows=shows,
        run=partial(measure, points),
        draw=shapes.DRAWN[letter],
        check=shapes.CHECKED[letter],
        settings=settings,
    )


FIGURES = {
    figure.name: figure
    for figure in (
        _figure(
            "a",
            "Join: error of the regression against keys",
            "More keys, fewer rows per key, more noise. The three panels are three ways to estimate from the same releases.",
            [JoinPoint(keys=keys) for keys in KEYS],
        ),
        _figure(
            "b",
            "Join: error of the regression against rows",
            "More rows per key against the same noise.",
            [JoinPoint(n=n) for n in SIZES],
        ),
        _figure(
            "c",
            "Join: error of the regression against datasets",
            "Noise once and for all serves any number of datasets; APM splits its budget over all their subsets.",
            [JoinPoint(datasets=count) for count in COUNTS],
        ),
        _figure(
            "d",
            "Join: error of the regression against requests",
            "And any number of requests.",
            [JoinPoint(requests=count) for count in COUNTS],
        ),
    )
}
