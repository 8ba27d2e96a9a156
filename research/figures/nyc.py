"""Figures 7, 8 and 9: search over a corpus of real tables, the selection judged without noise.

Five requests joined by district, as in the paper, with one table to select; discovery is off, so every table of the corpus
counts, and one without the key is simply no candidate. `fpm-opt` is what the paper's NYC figures label FPM. TPM and SF-1
noise every row, APM every augmented aggregate with its budget split over all augmentations and requests. Private search
fails where X^T X is not positive definite; if every candidate fails, nothing is selected and r2 is 0. `joint-lookup`
searches by lookup joins, so its r2 and its Non-P are of that join; everybody else's are of the many-to-many join.

Drawn is the gain: r2 less what the request's own feature explains, which any selection would get. (In the paper's tables
that is next to nothing; in ours up to half of r2.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from research.real.joins import JoinSearch
from research.real.protocol import DELTA, asks_on, join_records, library, lookup_records, tasks_on
from research.real.tasks import Task
from research.real.world import Library, World
from research.reproducing import plotting as plot
from research.reproducing.expectations import holds
from research.reproducing.figure import Check, Figure, RunConfig
from saibot.privacy import Budget

RUNS, QUICK_RUNS = 10, 2
EPSILON = "1"
REQUESTS = 5
JOINS = ("nonprivate", "fpm-opt", "fpm", "apm", "sf1", "tpm")
BARS = ("nonprivate-lookup", "joint-lookup", "nonprivate", "fpm-opt", "fpm", "apm", "sf1", "tpm")
LINES = ("nonprivate", "joint-lookup", "fpm-opt", "apm", "sf1", "tpm")
CORPUS_SIZES = (10, 50, 100, 300)
REQUEST_COUNTS = (1, 10, 50, 100)
LOOKUP_BEST = plot.Look("Non-P, lookup join", "#777777", "*", ":")


def five(books: Library, config: RunConfig) -> list[Task]:
    """The first five requests by the key that comes first, the paper's district; two in a quick run."""
    tasks = tasks_on(books.tables)
    return [task for task in tasks if task.key == tasks[0].key][: 2 if config.quick else REQUESTS]


def _runs(config: RunConfig) -> int:
    return QUICK_RUNS if config.quick else RUNS


def searched(
    world: World, rng: np.random.Generator, *, runs: int, answers: int, methods: Sequence[str] = JOINS
) -> list[dict[str, Any]]:
    """Every method on one task; APM's budget is split into `answers`."""
    budget = Budget(EPSILON, DELTA)
    found = join_records(JoinSearch(world), budget, methods, runs=runs, rng=rng, answers=answers)
    ours = lookup_records(asks_on(world), budget, runs=runs, rng=rng, requests=("private",))
    found += [record for record in ours if record["ranking"] == "expected"]
    most = float(world.lookup_r2.max())
    best = {"method": "nonprivate-lookup", "ranking": "r2", "run": 0, "r2": most, "gain": most - world.own_r2}
    return [*found, found[0] | best | {"share": 1.0, "gain_share": 1.0}]


# ------------------------------------------------------------------------------------------------ figure 7


def run_fig7(config: RunConfig) -> pd.DataFrame:
    books = library(config.tables, small=config.quick)
    corpus = len(books.tables.names())
    records = []
    for number, task in enumerate(five(books, config)):
        config.progress(task.label, number / REQUESTS)
        rng = np.random.default_rng((config.seed, 71, number))
        records += searched(books.world(task), rng, runs=_runs(config), answers=corpus)
    return pd.DataFrame(records)


def draw_fig7(frame: pd.DataFrame) -> Drawing:
    names = list(dict.fromkeys(frame["request"]))
    drawing, panels = plot.canvas(len(names), width=2.35, height=3.3, squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        rows = frame[frame["request"] == name]
        for place, method in enumerate(BARS):
            values = rows["gain"][rows["method"] == method].to_numpy()
            style = _look(method)
            axes.bar(place, np.median(values), 0.72, color=style.colour, alpha=0.75, label=style.label, zorder=2)
            spread = np.linspace(-0.22, 0.22, len(values)) if len(values) > 1 else np.zeros(1)
            axes.plot(place + spread, values, "o", ms=2.6, color="#222222", alpha=0.7, zorder=3)
        axes.set_xticks([])
        axes.grid(axis="x", visible=False)
        plot.label(axes, x="", y="gain in R² of the selected table" if axes is panels[0][0] else "", title=name)
    plot.legend_outside(drawing, panels[0][0])
    return drawing


def check_fig7(frame: pd.DataFrame) -> list[Check]:
    share, others = _share(frame), ("apm", "sf1", "tpm")
    said = ", ".join(f"{_look(name).label} {share[name]:.2f}" for name in BARS)
    rest = [name for name in BARS if not name.startswith(("nonprivate", "joint"))]
    r2 = {name: _median(frame, name, "share") for name in others}
    return [
        holds(
            "mechanisms that noise a table once are ahead of TPM, APM and SF",
            min(share["joint-lookup"], share["fpm-opt"]) > max(share[name] for name in others),
            f"share of Non-P's gain, median of requests: {said}",
        ),
        holds(
            "joint lookup is ahead of every other private method",
            share["joint-lookup"] >= max(share[name] for name in rest),
            f"{share['joint-lookup']:.2f}",
        ),
        holds(
            "TPM, APM and SF stay below 0.1 of Non-P",
            all(share[name] < 0.1 for name in others),
            ", ".join(f"{_look(name).label} {share[name]:.2f} (of R² itself {r2[name]:.2f})" for name in others),
            why="a table selected at random gains something too: most tell of the same differences between districts",
        ),
    ]


# ------------------------------------------------------------------------------------------------ figures 8 and 9


def run_fig8(config: RunConfig) -> pd.DataFrame:
    books = library(config.tables, small=config.quick)
    names, runs = books.tables.names(), _runs(config)
    sizes = [size for size in CORPUS_SIZES if size <= len(names)] or [len(names)]
    records = []
    for number, task in enumerate(five(books, config)):
        for place, size in enumerate(sizes):
            config.progress(f"{task.label}, {size} tables", (number + place / len(sizes)) / REQUESTS)
            rng = np.random.default_rng((config.seed, 81, number, size))
            for draw in range(runs):  # another sample of the corpus in every run
                world = books.world(task, sorted(rng.choice(names, size, replace=False)))
                if world.names:
                    found = searched(world, rng, runs=1, answers=size)
                    records += [record | {"corpus": size, "run": draw} for record in found]
    return pd.DataFrame(records)


def run_fig9(config: RunConfig) -> pd.DataFrame:
    books = library(config.tables, small=config.quick)
    corpus = len(books.tables.names())
    records = []
    for number, task in enumerate(five(books, config)):
        world = books.world(task)
        for place, count in enumerate(REQUEST_COUNTS):
            config.progress(f"{task.label}, {count} requests", (number + place / len(REQUEST_COUNTS)) / REQUESTS)
            rng = np.random.default_rng((config.seed, 91, number, count))
            # Only APM's split depends on the number of requests; everybody else answers from what was released once.
            found = searched(world, rng, runs=_runs(config), answers=max(corpus, count))
            records += [record | {"requests": count} for record in found]
    return pd.DataFrame(records)


def _draw_lines(frame: pd.DataFrame, x: str, label: str) -> Drawing:
    names = list(dict.fromkeys(frame["request"]))
    drawing, panels = plot.canvas(len(names), width=2.35, height=3.0, sharey=True, squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        rows = frame[frame["request"] == name]
        for method in LINES:
            found = rows[rows["method"] == method].groupby(x)["gain_share"].median()
            style = _look(method)
            axes.plot(found.index, found, marker=style.marker, ls=style.line, color=style.colour, ms=5.5, label=style.label)
        plot.log_ticks(axes, sorted(frame[x].unique()))
        axes.set_ylim(-0.03, 1.05)
        plot.label(axes, x=label, y="gain of the selected / of the best" if axes is panels[0][0] else "", title=name)
    plot.legend_outside(drawing, panels[0][0])
    return drawing


def draw_fig8(frame: pd.DataFrame) -> Drawing:
    return _draw_lines(frame, "corpus", "tables in the corpus")


def draw_fig9(frame: pd.DataFrame) -> Drawing:
    return _draw_lines(frame, "requests", "requests")


def check_fig8(frame: pd.DataFrame) -> list[Check]:
    sizes = sorted(frame["corpus"].unique())
    share = {size: _share(frame[frame["corpus"] == size]) for size in sizes}
    said = ", ".join(f"{size}: {share[size]['joint-lookup']:.2f}" for size in sizes)
    falls = share[sizes[0]]["apm"] - share[sizes[-1]]["apm"]
    return [
        holds("joint lookup holds as the corpus grows", share[sizes[-1]]["joint-lookup"] >= 0.6, said),
        holds(
            "APM falls as the corpus grows",
            falls > 0 or len(sizes) < 2,
            ", ".join(f"{size}: {share[size]['apm']:.2f}" for size in sizes),
        ),
        holds(
            "APM is close to Non-P with 10 tables",
            float(share[sizes[0]]["apm"]) >= 0.7,
            f"{share[sizes[0]]['apm']:.2f}",
            why="its noise grows with the largest number of rows of a key, several hundred in a school district",
        ),
    ]


def check_fig9(frame: pd.DataFrame) -> list[Check]:
    counts = sorted(frame["requests"].unique())
    share = {count: _share(frame[frame["requests"] == count]) for count in counts}
    ours = [float(share[count]["joint-lookup"]) for count in counts]
    apm = [float(share[count]["apm"]) for count in counts]
    return [
        holds("joint lookup is flat in the number of requests", max(ours) - min(ours) < 0.25, _listed(counts, ours)),
        holds("APM is no better than joint lookup at any number of requests", max(apm) < min(ours), _listed(counts, apm)),
    ]


def _listed(counts: Sequence[int], values: Sequence[float]) -> str:
    return ", ".join(f"{count}: {value:.2f}" for count, value in zip(counts, values, strict=True))


# ------------------------------------------------------------------------------------------------ all three


def _look(method: str) -> plot.Look:
    return LOOKUP_BEST if method == "nonprivate-lookup" else plot.look(method)


def _median(frame: pd.DataFrame, method: str, value: str) -> float:
    rows = frame[frame["method"] == method]
    return float(rows.groupby("request")[value].median().median())


def _share(frame: pd.DataFrame) -> pd.Series:
    methods = list(dict.fromkeys(frame["method"]))
    return pd.Series({method: _median(frame, method, "gain_share") for method in methods})


def _settings(**more: Any) -> Any:
    def settings(config: RunConfig) -> dict[str, Any]:
        return {"runs": _runs(config), "epsilon": EPSILON, "delta": DELTA, "methods": [*JOINS, "joint-lookup"], **more}

    return settings


FIGURES = {
    "fig7": Figure(
        name="fig7",
        title="NYC tables: R² of the selected table",
        shows="Which table each mechanism selects for five requests at (1, 1e-6), judged without noise; dots are runs.",
        run=run_fig7,
        draw=draw_fig7,
        check=check_fig7,
        settings=_settings(),
        uses_tables=True,
    ),
    "fig8": Figure(
        name="fig8",
        title="NYC tables: size of the corpus",
        shows="The same as the corpus grows: sketches are made once, while APM splits its budget over all augmentations.",
        run=run_fig8,
        draw=draw_fig8,
        check=check_fig8,
        settings=_settings(sizes=list(CORPUS_SIZES)),
        uses_tables=True,
    ),
    "fig9": Figure(
        name="fig9",
        title="NYC tables: number of requests",
        shows="The same as requests grow in number: any number of them is answered from sketches that were made once.",
        run=run_fig9,
        draw=draw_fig9,
        check=check_fig9,
        settings=_settings(requests=list(REQUEST_COUNTS)),
        uses_tables=True,
    ),
}
