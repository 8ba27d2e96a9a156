"""What public tables do for private ones: how well private values agree with the truth, with some open tables and without.

    python -m research.real.open_tables FOLDER --open 0 5 10 --runs 2 --only "math by DBN"

Of the tables of a task ten are drawn that might be public; all others are private throughout, and judged. Among them stand
none, the first five, or all ten of those ten as open tables, exact; the rest of the ten are private, too. The noise of
whatever is private is the same in all three, so a difference is what the open tables teach. `r2` is the squared correlation
over keys of a table's values with its exact means: `alone` of values that each table gives by itself.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from research.real.protocol import DELTA, about, library, tasks_on
from research.real.publishing import provider_release
from research.real.world import World
from research.searching import dataset_name
from research.seeded import Seeded
from saibot.estimate.factors import KeyTree, Readings, apply, learn
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card
from saibot.privatize.open_table import OpenRequest, exact_sketch
from saibot.sketch import Sketch

MIGHT_BE_OPEN = 10
WIDTH = 1.5  # standard deviations: bounds that nobody has to narrow for the sake of noise
DEFAULT = ("math by DBN", "regents by DBN", "math by district", "asthma by geo_key")


def open_records(
    world: World, budget: Budget, *, runs: int, rng: np.random.Generator, open_tables: Sequence[int] = (0, 5, 10)
) -> list[dict[str, Any]]:
    """One record for each run and number of open tables."""
    noise, tree = Seeded(rng), KeyTree.of(world.domain, world.domain.level_names)
    providers = [provider_release(world, i, "paper", budget) for i in range(len(world.names))]
    found = []
    for run in range(runs):
        drawn = rng.permutation(len(world.names))[: min(MIGHT_BE_OPEN, len(world.names) // 3)]
        judged = np.setdiff1d(np.arange(len(world.names)), drawn)
        private = [Readings.of_sketch(provider.sketch(noise), tree, world.domain) for provider in providers]
        for count in open_tables:
            tables = list(private)
            for number in drawn[:count]:
                tables[number] = Readings.of_sketch(public_sketch(world, int(number)), tree, world.domain)
            readings = Readings.join(tables)
            factors = learn(readings)
            values = apply(factors, readings).values
            told: dict[str, float] = {
                "run": run,
                "open": min(count, len(drawn)),
                "rank": factors.rank,
                "judged": len(judged),
            }
            for name, those in (("alone", readings.plain), ("shared", values)):
                r2 = agreement(those[judged], world.raw_values[judged])
                told |= {name: float(r2.mean()), f"{name}_median": float(np.median(r2))}
            found.append({**about(world), **told})
    return found


def public_sketch(world: World, number: int) -> Sketch:
    """A table of the task as its owner would publish it openly."""
    keys = np.append(np.array(world.domain.values, dtype=object), "elsewhere")[world.places[number]]
    frame = pd.DataFrame({"key": keys, "z": world.features[number].clipped(WIDTH)})
    facts = {
        "dataset": {"name": dataset_name(number)},
        "features": {"z": {"bounds": (-1.0, 1.0)}},
        "keys": {"key": {"domain": {"id": world.domain.id, "values": world.domain.values}}},
    }
    with tempfile.TemporaryDirectory(prefix="saibot-research-") as home:
        request = OpenRequest(Card.parse(facts), "a table that was drawn to be public", "key")
        return exact_sketch(frame, request, Ledger(Path(home))).sketch


def agreement(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """R2 of each table's values (N, d) with its exact means; 0 where either is constant."""
    pairs = zip(values, truth, strict=True)
    return np.array([np.corrcoef(a, b)[0, 1] ** 2 if a.std() * b.std() > 0 else 0.0 for a, b in pairs])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("tables", type=Path)
    options.add_argument("--open", type=int, nargs="+", default=[0, 5, 10])
    options.add_argument("--runs", type=int, default=2)
    options.add_argument("--epsilon", default="1")
    options.add_argument("--only", nargs="*", default=list(DEFAULT))
    options.add_argument("--seed", type=int, default=47)
    given = options.parse_args()
    books, records = library(given.tables), list[dict[str, Any]]()
    for number, task in enumerate(tasks_on(books.tables)):
        if task.label in given.only:
            rng = np.random.default_rng((given.seed, number))
            budget = Budget(given.epsilon, DELTA)
            records += open_records(books.world(task), budget, runs=given.runs, rng=rng, open_tables=given.open)
            frame = pd.DataFrame(records)
            columns = ["candidates", "keys", "rank", "alone", "shared", "alone_median", "shared_median"]
            print(frame.groupby(["request", "key", "open"])[columns].mean().round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
