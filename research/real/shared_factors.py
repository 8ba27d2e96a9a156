"""What shared factors are worth on real tables: rankings of them and values with them, judged as `protocol` judges searches.

    python -m research.real.shared_factors FOLDER --runs 2 --split keys --only "asthma by geo_key"

`usable` and `expected` are the product's searches on values that each table gives by itself. With factors: `factor-usable`
ranks by the usable gain of the factor values, `factor-raw` by the expected raw gain with the request's own direction as one
more factor, `factor-both` by the product of the two. `r2` of values is their squared correlation with the exact means over
keys, the median over tables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from research.real.asking import Ask
from research.real.protocol import DELTA, about, ask_on, library, tasks_on, worth_of
from research.real.publishing import provider_release, request_release
from research.searching import RANKINGS, Choice, choose, corpus_of
from research.seeded import Seeded
from saibot.estimate.factors import (
    Factors,
    FactorValues,
    KeyTree,
    Readings,
    apply,
    expected_raw_gains,
    learn,
)
from saibot.privacy import Budget
from saibot.search import SearchOptions, SearchRequest
from saibot.search.denoise import training_state
from saibot.search.expected import request_sums
from saibot.search.scoring import score
from saibot.search.sweep import sweep

FACTOR_RANKINGS = ("factor-usable", "factor-raw", "factor-both")
LEAST_CEILING = 0.02  # held-out R2 of the best raw values below which there is nothing to measure values against


def factor_records(
    ask: Ask,
    budget: Budget,
    *,
    runs: int,
    rng: np.random.Generator,
    requests: Sequence[str] = ("private", "local"),
    rank: int | None = None,
) -> list[dict[str, Any]]:
    """One record for each run, kind of request and ranking."""
    world, noise = ask.world, Seeded(rng)
    providers = [provider_release(world, i, "paper", budget) for i in range(len(world.names))]
    asked = request_release(world, ask.train, "paper", budget)
    tree = KeyTree.of(world.domain, world.domain.level_names)
    found = []
    for run in range(runs):
        sketches = [provider.sketch(noise) for provider in providers]
        readings = Readings.join([Readings.of_sketch(sketch, tree, world.domain) for sketch in sketches])
        began = time.perf_counter()
        factors = learn(readings, rank=rank)
        shared = apply(factors, readings)
        seconds = time.perf_counter() - began
        accuracy = {"r2_alone": _agreement(readings.plain, world.raw_values)}
        accuracy |= {"r2_shared": _agreement(shared.values, world.raw_values), "rank": factors.rank, "seconds": seconds}
        with corpus_of(world.domain, sketches) as corpus:
            for kind in requests:
                request = ask.private(asked.sketch(noise)) if kind == "private" else ask.local
                choices = {str(ranking): choose(request, corpus, ranking) for ranking in RANKINGS}
                choices |= _by_factors(request, factors, readings, shared)
                for ranking, choice in choices.items():
                    worth = worth_of(
                        world.lookup_r2, world.lookup_r2 - world.own_r2, choice.number, np.arange(len(world.names))
                    )
                    materialised = ask.materialised(choice) / ask.ceiling if ask.ceiling > LEAST_CEILING else np.nan
                    row = {**about(world), "asked": kind, "ranking": ranking, "run": run, **worth, **accuracy}
                    found.append({**row, "materialised": materialised})
    return found


def _agreement(values: np.ndarray, truth: np.ndarray) -> float:
    found = [
        np.corrcoef(one, other)[0, 1] ** 2 if one.std() * other.std() > 0 else 0.0
        for one, other in zip(values, truth, strict=True)
    ]
    return float(np.median(found))


def _by_factors(request: SearchRequest, factors: Factors, readings: Readings, shared: FactorValues) -> dict[str, Choice]:
    state = training_state(request.train, request.target)
    assert request.key is not None
    place, size = request.key.places[:, 0], readings.tree.size + 1
    base = state.base(place, size)
    centred = np.column_stack([shared.values - readings.mean[:, None], np.zeros(len(readings))])
    scores = score(*sweep(centred, base.linear, base.square), base, quantile=SearchOptions().ranking_quantile)
    raw = expected_raw_gains(factors, readings, shared.tau2, request_sums(state, place, size))
    usable = np.where(scores.lower > 0, 1 + scores.lower, scores.gain)
    both = np.where(scores.lower > 0, scores.lower, scores.gain * 1e-9) * raw
    ranked = dict(zip(FACTOR_RANKINGS, (usable, raw, both), strict=True))
    return {name: Choice(int(gain.argmax()), shared.values[int(gain.argmax())]) for name, gain in ranked.items()}


def main() -> None:
    import pandas as pd

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("tables", type=Path)
    options.add_argument("--runs", type=int, default=2)
    options.add_argument("--split", choices=("rows", "keys"), default="rows")
    options.add_argument("--epsilon", default="1")
    options.add_argument("--rank", type=int)
    options.add_argument("--only", nargs="*", default=())
    options.add_argument("--seed", type=int, default=31)
    options.add_argument("--out", type=Path, help="a CSV file for all records")
    given = options.parse_args()
    books, records = library(given.tables), []
    for number, task in enumerate(tasks_on(books.tables)):
        if given.only and task.label not in given.only:
            continue
        rng = np.random.default_rng((given.seed, number))
        ask = ask_on(books.world(task), split=given.split)
        records += factor_records(ask, Budget(given.epsilon, DELTA), runs=given.runs, rng=rng, rank=given.rank)
        frame = pd.DataFrame([{**record, "split": given.split} for record in records])
        if given.out is not None:
            frame.to_csv(given.out, index=False)
        latest = frame[(frame["request"] == task.name) & (frame["key"] == task.key)]
        facts = latest[["rank", "r2_alone", "r2_shared", "seconds", "candidates", "keys"]].mean().round(3).to_dict()
        print(task.label, "ceiling", round(ask.ceiling, 3), facts, flush=True)
        print(latest.groupby(["asked", "ranking"])[["share", "materialised"]].median().round(2).to_string(), flush=True)
    each = frame.groupby(["asked", "ranking", "request", "key"])[["share", "materialised"]].median()
    print(each.groupby(level=[0, 1]).agg(["mean", "median"]).round(3).to_string())


if __name__ == "__main__":
    main()
