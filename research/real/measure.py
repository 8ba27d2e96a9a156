"""The search of this system on every request of a folder, on rows of known keys and of keys that training never saw.

    python -m research.real.measure FOLDER --runs 10 --epsilon 1 --out measured.csv

prints medians over requests of the medians over runs: `share`, the raw R2 of the table that comes first over the best
table's, and `materialised`, the held-out R2 of its private values over that of the best raw ones. With `--out` a run that
was interrupted goes on where it was.

    python -m research.real.measure FOLDER --least-rows 6000 --prepared public bought

compares, among tables with enough rows for it, ranges that are public with bounds that are bought.

    python -m research.real.measure FOLDER --new-keys

asks at home alone, for keys that training never saw, and compares the ranking for new keys with gains as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from research.real.protocol import DELTA, asks_on, library, lookup_records, tasks_on
from research.real.publishing import Preparation
from research.real.world import World
from saibot.privacy import Budget


def measured(
    tables: Path,
    epsilon: str,
    *,
    runs: int,
    seed: int,
    only: Sequence[str] = (),
    out: Path | None = None,
    prepared: Sequence[Preparation] = ("paper",),
    least_rows: int = 0,
    new_keys: bool = False,
) -> Any:
    """A record for each request, run, split, kind of request and ranking."""
    books, found = library(tables), pd.read_csv(out) if out is not None and out.exists() else pd.DataFrame()
    tasks = [(number, task) for number, task in enumerate(tasks_on(books.tables)) if not only or task.label in only]
    worlds: dict[str, World] = {}
    for run, (number, task) in product(range(runs), tasks):  # all requests once, then again: what is there is balanced
        done = found[(found["task"] == task.label) & (found["number"] == run)] if len(found) else found
        if len(done):
            continue
        world = worlds[task.label] = worlds.get(task.label) or books.world(task).with_rows(least_rows)
        if not world.names:
            continue
        asks = asks_on(world, ("keys",) if new_keys else ("rows", "keys"))
        asked: dict[str, Any] = {"requests": ("local",), "ranked_for": ("new keys", "these keys")} if new_keys else {}
        budget, records = Budget(epsilon, DELTA), list[dict[str, Any]]()
        for preparation in prepared:
            rng = np.random.default_rng((seed, number, run))
            records += lookup_records(asks, budget, runs=1, rng=rng, preparation=preparation, **asked)
        found = pd.concat([found, pd.DataFrame(records).assign(task=task.label, number=run)], ignore_index=True)
        if out is not None:
            found.to_csv(out, index=False)
        print(task.label, f"run {run + 1} of {runs}", flush=True)
    return found


def summary(found: Any, how: str = "median") -> Any:
    """Rankings down; splits, kinds of requests and both measures across."""
    each = found.groupby(["split", "method", "preparation", "ranking", "task"])[["share", "materialised"]].median()
    return each.groupby(level=[0, 1, 2, 3]).agg(how).unstack([0, 1]).round(2)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("tables", type=Path)
    options.add_argument("--runs", type=int, default=10)
    options.add_argument("--epsilon", default="1")
    options.add_argument("--only", nargs="*", default=())
    options.add_argument("--seed", type=int, default=31)
    options.add_argument("--prepared", nargs="+", choices=("paper", "public", "bought"), default=["paper"])
    options.add_argument("--least-rows", type=int, default=0)
    options.add_argument("--new-keys", action="store_true")
    options.add_argument("--out", type=Path, help="a CSV file for all records")
    given = options.parse_args()
    asked = {name: getattr(given, name) for name in ("runs", "seed", "only", "out", "prepared", "least_rows", "new_keys")}
    found = measured(given.tables, given.epsilon, **asked)
    print(f"{found['task'].nunique()} requests; candidates:", found.groupby("task")["candidates"].max().to_dict())
    for how in ("median", "mean"):
        print(f"{how} over requests of the medians over runs", summary(found, how).to_string(), sep="\n")


if __name__ == "__main__":
    main()
