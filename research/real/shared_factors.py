"""What shared factors are worth on real tables: rankings of them and values with them, judged as `protocol` judges searches.

    python -m research.real.shared_factors FOLDER --runs 2 --split rows keys --only "asthma by geo_key"

`usable` and `expected` are the product's searches on values that each table gives by itself. With factors: `factor-usable`
ranks by the usable gain of the factor values, `factor-raw` by the expected raw gain with the request's own direction as one
more factor, `factor-both` by the product of the two. `r2` of values is their squared correlation with the exact means over
keys, the median over tables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from research.real.asking import Ask
from research.real.protocol import DELTA, Split, about, ask_on, library, tasks_on, worth_of
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
    asks: Mapping[Split, Ask],
    budget: Budget,
    *,
    runs: int,
    rng: np.random.Generator,
    requests: Sequence[str] = ("private", "local"),
    rank: int | None = None,
) -> list[dict[str, Any]]:
    """One record for each run, split of the one request, kind of request and ranking."""
    world, noise = next(iter(asks.values())).world, Seeded(rng)
    providers = [provider_release(world, i, "paper", budget) for i in range(len(world.names))]
    tree = KeyTree.of(world.domain, world.domain.level_names)
    found = []
    for run in range(runs):
        sketches = [provider.sketch(noise) for provider in providers]
        readings = Readings.join([Readings.of_sketch(sketch, tree, world.domain) for sketch in sketches])
        began = time.perf_counter()
        factors = learn(readings, rank=rank)
        shared = apply(factors, readings)
        facts = {"run": run, "rank": factors.rank, "seconds": time.perf_counter() - began}
        facts |= {"r2_alone": _agreement(readings.plain, world.raw_values)}
        facts |= {"r2_shared": _agreement(shared.values, world.raw_values)}
        with corpus_of(world.domain, sketches) as corpus:
            for split, ask in asks.items():
                asked = request_release(world, ask.train, "paper", budget)
                for kind in requests:
                    request = ask.private(asked.sketch(noise)) if kind == "private" else ask.local
                    choices = {str(ranking): choose(request, corpus, ranking) for ranking in RANKINGS}
                    choices |= _by_factors(request, factors, readings, shared)
                    about_it = {**about(world), **facts, "split": split, "asked": kind}
                    found += [{**about_it, "ranking": name, **_worth(ask, choice)} for name, choice in choices.items()]
    return found


def _worth(ask: Ask, choice: Choice) -> dict[str, float]:
    world = ask.world
    worth = worth_of(world.lookup_r2, world.lookup_r2 - world.own_r2, choice.number, np.arange(len(world.names)))
    return {**worth, "materialised": ask.materialised(choice) / ask.ceiling if ask.ceiling > LEAST_CEILING else np.nan}


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
    options.add_argument("--split", choices=("rows", "keys"), nargs="+", default=["rows", "keys"])
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
        world = books.world(task)
        asks = {split: ask_on(world, split=split) for split in given.split}
        records += factor_records(asks, Budget(given.epsilon, DELTA), runs=given.runs, rng=rng, rank=given.rank)
        frame = pd.DataFrame(records)
        if given.out is not None:
            frame.to_csv(given.out, index=False)
        latest = frame[(frame["request"] == task.name) & (frame["key"] == task.key)]
        facts = latest[["rank", "r2_alone", "r2_shared", "seconds", "candidates", "keys"]].mean().round(3).to_dict()
        print(task.label, facts, {split: round(ask.ceiling, 3) for split, ask in asks.items()}, flush=True)
        print(_table(latest, "median"), flush=True)
    each = frame.groupby(["split", "asked", "ranking", "request", "key"])[["share", "materialised"]].median()
    for how in ("mean", "median"):
        print(how, "over requests of the median over runs", _table(each.reset_index(), how), sep="\n")


def _table(frame: Any, how: str) -> str:
    """Rankings down, splits and kinds of requests across."""
    found = frame.groupby(["split", "asked", "ranking"])[["share", "materialised"]].agg(how)
    return str(found.unstack([0, 1]).round(2).to_string())


if __name__ == "__main__":
    main()
