"""The protocol: every task, every method, so many runs; a selection is worth what its raw table gives without noise.

A record has `r2` of the selected table and `share`, that over the best table's, both exact and in the join that the method
searches by (lookup or many-to-many); `gain` and `gain_share`, the same less what the request's own feature explains on the
joined rows; and for lookups `materialised`: R2 of the private values on held-out rows over that of the best raw values,
where the held-out rows are of keys that training has seen (`rows`) or not (`keys`). Where the best raw values explain next
to nothing there, there is nothing to compare with, and the record says so by NaN. A method under whose noise no candidate's
moments are positive definite selects nothing: 0 in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from research.real.asking import Ask
from research.real.joins import JoinSearch
from research.real.ours import MadeUp
from research.real.publishing import Preparation, provider_release, request_release
from research.real.tables import Folder, Tables
from research.real.tasks import Task, read_tasks
from research.real.world import Library, World
from research.searching import RANKINGS, RankedFor, Ranking, choose, corpus_of
from research.seeded import Seeded
from saibot.privacy import Budget

Split = Literal["rows", "keys"]
DELTA = "1e-6"
SPLIT_SEED = 60
LEAST_CEILING = 0.02  # held-out R2 of the best raw values below which there is nothing to measure against


@lru_cache(maxsize=2)
def library(tables: Path | None, *, small: bool = False) -> Library:
    """The tables of a folder, or our own, read and prepared once for all figures of a run."""
    return Library(Folder(tables) if tables is not None else MadeUp(schools=5 if small else 12))


def tasks_on(tables: Tables) -> list[Task]:
    return read_tasks(tables.requests())


def ask_on(world: World, *, split: Split = "rows") -> Ask:
    """The same split into training and held-out rows, or keys, whatever the noise."""
    rng = np.random.default_rng(SPLIT_SEED)
    return Ask.of(world, rng) if split == "rows" else Ask.by_keys(world, rng)


def asks_on(world: World, splits: Sequence[Split] = ("rows",)) -> dict[Split, Ask]:
    return {split: ask_on(world, split=split) for split in splits}


def lookup_records(
    asks: Mapping[Split, Ask],
    budget: Budget,
    *,
    runs: int,
    rng: np.random.Generator,
    preparation: Preparation = "paper",
    levels: bool = True,
    requests: Sequence[str] = ("private", "local"),
    rankings: Sequence[Ranking] = RANKINGS,
    ranked_for: Sequence[RankedFor] = ("new keys",),
    among: Sequence[int | None] = (None,),
    learned: bool = True,
) -> list[dict[str, Any]]:
    """The search of this system, private and local requests, all splits of one task; `among` so many candidates, or all.

    Without `learned` every table's values are what its own sketch says.
    """
    world, noise = next(iter(asks.values())).world, Seeded(rng)
    providers = [provider_release(world, i, preparation, budget, levels=levels) for i in range(len(world.names))]
    asked = {split: request_release(world, ask.train, preparation, budget) for split, ask in asks.items()}
    found = []
    for run in range(runs):
        sketches = [provider.sketch(noise) for provider in providers]
        with corpus_of(world.domain, sketches, learned=learned) as corpus:
            for split, kind, size in product(asks, requests, among):
                ask, some = asks[split], _some(len(world.names), size, rng)
                request = ask.private(asked[split].sketch(noise)) if kind == "private" else ask.local
                for ranking, keys in product(rankings, ranked_for):
                    only = None if size is None else some.tolist()
                    choice = choose(request, corpus, ranking, among=only, ranked_for=keys)
                    worth = worth_of(world.lookup_r2[some], world.lookup_r2[some] - world.own_r2, choice.number, some)
                    worth["materialised"] = ask.materialised(choice) / ask.ceiling
                    record = {
                        "method": "joint-lookup" if kind == "private" else "joint-lookup-local",
                        "ranking": ranking if keys == "new keys" else f"{ranking}, for these keys",
                        "preparation": preparation,
                        "split": split,
                        "run": run,
                    }
                    there = ask.ceiling >= LEAST_CEILING
                    found.append({**about(world, size), **record, **(worth if there else dict.fromkeys(worth, np.nan))})
    return found


def join_records(
    search: JoinSearch,
    budget: Budget,
    methods: Sequence[str],
    *,
    runs: int,
    rng: np.random.Generator,
    answers: int | None = None,
    among: Sequence[int | None] = (None,),
) -> list[dict[str, Any]]:
    """The paper's search by many-to-many joins. `answers` is how many ways the budget of `apm` is split."""
    world = search.world
    parts = len(world.names) if answers is None else answers
    found = []
    for method in methods:
        for run in range(runs if method != "nonprivate" else 1):
            scores = search.scores(method, budget, answers=parts, rng=rng)
            for size in among:
                some = _some(len(world.names), size, rng)
                best = int(some[np.argmax(scores[some])])
                number = best if scores[best] > 0 else None
                worth = worth_of(search.exact_r2[some], search.exact_gain[some], number, some)
                found.append({**about(world, size), "method": method, "ranking": "r2", "run": run, **worth})
    return found


def _some(candidates: int, size: int | None, rng: np.random.Generator) -> np.ndarray:
    return np.arange(candidates) if size is None else np.sort(rng.permutation(candidates)[:size])


def worth_of(r2: np.ndarray, gain: np.ndarray, number: int | None, some: np.ndarray) -> dict[str, float]:
    if number is None:
        return {"r2": 0.0, "gain": 0.0, "share": 0.0, "gain_share": 0.0}
    place = int(np.searchsorted(some, number))
    parts = [float(values[place]) / max(float(values.max()), 1e-300) for values in (r2, gain)]
    return {"r2": float(r2[place]), "gain": float(gain[place]), "share": parts[0], "gain_share": parts[1]}


def about(world: World, among: int | None = None) -> dict[str, Any]:
    inside = world.counts[:, :-1].sum(axis=1)
    return {
        "request": world.task.name,
        "key": world.task.key,
        "keys": len(world.domain),
        "request_rows_per_key": world.rows / len(world.domain),
        "rows_per_key": float(np.median(inside)) / len(world.domain),
        "candidates": len(world.names) if among is None else min(among, len(world.names)),
    }
