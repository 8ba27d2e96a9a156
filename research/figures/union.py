"""Figure 10: errors of statistics and of regressions over unions, synthetic data. What is run; `union_shapes` has the rest.

Two tables of n rows with attributes [y, x1, x2] are added up; the regression is y on x1 and x2, without intercept because
all means are 0, and fails where X^T X is not positive definite. `joint` is this system's mechanism under that same rule,
`joint-repair` the same release with the fit that this system really makes.

The paper's "number of datasets" counts the requester's own: n_corp datasets are n_corp - 1 providers, and `apm` and `sf2`
answer for all subsets of them; `apm-single` for one provider at a time. `apm-best` is the most that can be said for a
trusted platform: one at a time, and composition of Gaussian noise by adding mu^2 instead of splitting epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from research.baselines import EntryNoise, apm, sf, tpm
from research.baselines.shuffle import Bound
from research.figures import union_shapes as shapes
from research.figures.fitting import distance, repaired_slopes, slopes, statistics_error
from research.plans import deviations, planned, terms
from research.releases import MomentRelease
from research.reproducing.figure import Figure, RunConfig
from research.seeded import Seeded
from research.workloads.synthetic import BOUND, spd_matrices, union_moments
from saibot.privacy import Budget
from saibot.privacy.mechanisms import Plan

RUNS, QUICK_RUNS = 100, 12
TABLES = 2


@dataclass(frozen=True)
class UnionPoint:
    """One place on the x axis."""

    n: int = 1000
    epsilon: str = "1"
    delta: str = "1e-6"
    datasets: int = 2
    requests: int = 1


SIZES = (10, 100, 500, 1000, 10_000)
COUNTS = (1, 5, 10, 50, 100)
SIMPLE_SIZES = (10, 20, 50, 100, 500, 1000)
SIMPLE_METHODS = ("fpm", "fpm-uncentred", "fpm-opt", "joint", "joint-repair")
ALL = ("fpm", "joint", "joint-repair", "apm", "tpm", "sf1", "sf1-closed", "sf2", "sf2-closed")
SPLIT = ("fpm", "joint", "joint-repair", "apm", "apm-best", "tpm", "sf1", "sf2")


def measure(points: Sequence[UnionPoint], methods: Sequence[str], config: RunConfig) -> pd.DataFrame:
    """Errors of all methods at all points; the same covariances everywhere, so that lines are comparable."""
    runs = QUICK_RUNS if config.quick else RUNS
    covariances = spd_matrices(runs, 3, np.random.default_rng((config.seed, 10)))
    frames = []
    for number, point in enumerate(points):
        config.progress(f"n = {point.n}", number / len(points))
        exact = union_moments(covariances, point.n, tables=TABLES, rng=np.random.default_rng((config.seed, 11, point.n)))
        total, rows = exact.sum(axis=1), TABLES * point.n
        truth, centred = slopes(total), slopes(total, centred=True)
        for place, method in enumerate(methods):
            rng = np.random.default_rng((config.seed, 12, number, place))
            noisy = released(method, point, exact, rng)
            if noisy is None:
                s_error = beta_error = np.full(runs, np.inf)
            else:
                s_error = statistics_error(noisy, total, rows)
                if method == "joint-repair":
                    known = deviations(_plan_of(method, point), "global") * np.sqrt(TABLES)
                    beta_error = distance(repaired_slopes(noisy, known), centred)
                else:
                    beta_error = distance(slopes(noisy), truth)
            columns = {"run": np.arange(runs), "s_error": s_error, "beta_error": beta_error}
            frames.append(pd.DataFrame({"method": method, **asdict(point), **columns}))
    return pd.concat(frames, ignore_index=True)


def released(method: str, point: UnionPoint, exact: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """The union's moments (runs, 4, 4) under a method's noise, from its tables'; None: it has no guarantee to give."""
    if method in ("fpm", "joint", "joint-repair"):
        return np.asarray(MomentRelease(_plan_of(method, point), point.n).matrices(exact, Seeded(rng)).sum(axis=1))
    noise_of = baseline_noise(method, point)
    if noise_of is None:
        return None
    each, copies = noise_of
    return np.asarray(exact.sum(axis=1) + each.drawn(rng, exact.shape[:1], copies=copies))


def _plan_of(method: str, point: UnionPoint) -> Plan:
    return whole_plan(method.removesuffix("-repair"), point.epsilon, point.delta, features=3)


def baseline_noise(method: str, point: UnionPoint) -> tuple[EntryNoise, int] | None:
    """The noise of a baseline and how many draws of it the union's sums carry; None where it has no guarantee to offer."""
    epsilon, delta = float(point.epsilon), float(point.delta)
    facts: dict[str, Any] = {"features": 3, "bound_squared": BOUND**2, "epsilon": epsilon, "delta": delta}
    providers = point.datasets - 1
    parts = apm.answers(providers=providers, requests=point.requests, subsets=True)
    single = apm.answers(providers=providers, requests=point.requests, subsets=False)
    bound: Bound = "closed" if "closed" in method else "numeric"
    match method:
        case "apm":
            return apm.union_noise(**facts, parts=parts), 1
        case "apm-single":
            return apm.union_noise(**facts, parts=single), 1
        case "apm-best":
            return apm.union_noise(**facts, parts=single, tight=True), 1
        case "tpm":
            return tpm.plan(**facts).values, TABLES * point.n
        case _ if delta == 0:  # what shuffling guarantees is approximate
            return None
        case "sf1" | "sf1-closed":
            return sf.sf1(rows=point.n, **facts, bound=bound).values, TABLES * point.n
        case _:
            return sf.sf2(rows=TABLES * point.n, **facts, parts=parts, bound=bound).values, TABLES * point.n


def whole_plan(mechanism: str, epsilon: str, delta: str, *, features: int, rows: int | None = None) -> Plan:
    budget = Budget(epsilon, delta)
    return planned(terms(mechanism, "union", features=features, budget=budget, bound_squared=int(BOUND**2), rows=rows))


def measure_simple(config: RunConfig) -> pd.DataFrame:
    """Fig. 10h: one table [y, x], the slope with an intercept; `fpm-opt` noises the centred scatter itself, and
    `fpm-uncentred` knows that there is no intercept."""
    runs = QUICK_RUNS if config.quick else RUNS
    covariances = spd_matrices(runs, 2, np.random.default_rng((config.seed, 13)))
    frames = []
    for number, n in enumerate(SIMPLE_SIZES):
        config.progress(f"n = {n}", number / len(SIMPLE_SIZES))
        exact = union_moments(covariances, n, tables=1, rng=np.random.default_rng((config.seed, 14, n)))[:, 0]
        truth, plain = slopes(exact, centred=True), slopes(exact)
        for place, method in enumerate(SIMPLE_METHODS):
            rng = np.random.default_rng((config.seed, 15, number, place))
            mechanism = method.removesuffix("-repair").removesuffix("-uncentred")
            rows = n if mechanism == "fpm-opt" else None  # only the scatter's sensitivity depends on them
            plan = whole_plan(mechanism, "1", "1e-6", features=2, rows=rows)
            noisy = MomentRelease(plan, n).matrices(exact, Seeded(rng))
            if method == "fpm-opt":
                noisy[:, 0, 1:] = noisy[:, 1:, 0] = 0.0  # a scatter around the mean was released, and no sums
                found = slopes(noisy)
            elif method == "joint-repair":
                found = repaired_slopes(noisy, deviations(plan, "global"))
            else:
                found = slopes(noisy, centred=method != "fpm-uncentred")
            reference = plain if method == "fpm-uncentred" else truth
            columns = {"run": np.arange(runs), "beta_error": distance(found, reference)}
            frames.append(pd.DataFrame({"method": method, "n": n, **columns}))
    return pd.concat(frames, ignore_index=True)


def _settings(points: Sequence[UnionPoint], methods: Sequence[str], config: RunConfig) -> dict[str, Any]:
    return {
        "runs": QUICK_RUNS if config.quick else RUNS,
        "bound": BOUND,
        "tables": TABLES,
        "methods": list(methods),
        "points": [asdict(point) for point in points],
    }


def _figure(letter: str, title: str, shows: str, points: Sequence[UnionPoint], methods: Sequence[str]) -> Figure:
    return Figure(
        name=f"fig10{letter}",
        title=title,
        shows=shows,
        run=partial(measure, points, methods),
        draw=shapes.DRAWN[letter],
        check=shapes.CHECKED[letter],
        settings=partial(_settings, points, methods),
    )


_SIMPLE = Figure(
    name="fig10h",
    title="Simple regression: noise on moments or on the scatter",
    shows="One table with one feature. FPM-OPT adds its noise to the variance and covariance themselves.",
    run=measure_simple,
    draw=shapes.DRAWN["h"],
    check=shapes.CHECKED["h"],
    settings=lambda config: {"runs": QUICK_RUNS if config.quick else RUNS, "bound": BOUND, "sizes": list(SIMPLE_SIZES)},
)
_BY_SIZE = [UnionPoint(n=n) for n in SIZES]
FIGURES = {
    figure.name: figure
    for figure in (
        _figure(
            "a",
            "Error of the statistics against rows",
            "The l2 error of the mean monomials of a union of two tables falls with 1/n where noise is added once, with "
            "1/√n where it is added to every row.",
            _BY_SIZE,
            [method for method in ALL if method != "joint-repair"],
        ),
        _figure(
            "b", "Error of the regression against rows", "The same releases, as errors of the coefficients.", _BY_SIZE, ALL
        ),
        _figure(
            "c",
            "Error of the regression against error of the statistics",
            "Every run of the releases of fig10a: coefficients follow the statistics, until the regression fails.",
            _BY_SIZE,
            ALL,
        ),
        _figure(
            "d",
            "Error of the regression at ε = 0.1",
            "A tenth of the budget: the same curves, a decade of rows later.",
            [UnionPoint(n=n, epsilon="0.1") for n in SIZES],
            ALL,
        ),
        _figure(
            "e",
            "Error of the regression at δ = 0",
            "Pure differential privacy, Laplace noise. Shuffling has no such guarantee to give.",
            [UnionPoint(n=n, delta="0") for n in SIZES],
            ALL,
        ),
        _figure(
            "f",
            "Error of the regression against datasets",
            "What noise once and for all buys: any number of datasets, no further budget.",
            [UnionPoint(datasets=count) for count in COUNTS],
            [*SPLIT, "apm-single"],
        ),
        _figure(
            "g",
            "Error of the regression against requests",
            "And any number of requests.",
            [UnionPoint(requests=count) for count in COUNTS],
            SPLIT,
        ),
        _SIMPLE,
    )
}
