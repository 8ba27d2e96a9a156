"""Boosted trees as the requester's own model, on five real requests, for keys that it has not seen.

    python -m research.real.trees FOLDER --epsilon 1

FOLDER holds the New York tables. Flights and households come from the demo's packages. For each request and for both models
it prints R2 of own features, of own averages (on rows of known keys) and of the private columns, and which columns each
model took; for trees also what the columns would have given that the linear model took and the trees did not.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from research.real.households import FEATURES, KEY, OWN, TARGET
from research.real.own_models import published, requests
from research.real.protocol import DELTA, ask_on, library, tasks_on
from research.real.publishing import X, Y, provider_release
from research.searching import corpus_of
from research.seeded import Seeded
from saibot.client import Augmented, Corpus, Domains, SearchOptions, find_augmentation, local_request, pack_sketches
from saibot.client.exact_request import LocalRequest
from saibot.client.guiding import table_request
from saibot.client.judging import judge
from saibot.client.values import looked_up
from saibot.demo.households import COMMUNES, read_households
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import privatize
from saibot.sketch import write_sketch

Asked = Callable[[str], LocalRequest]  # by the model
NEW_YORK = ("math by district", "grad by district", "attendance by district")
MOST_ROWS = 6_000  # of a request: trees are fitted five times a step


@contextmanager
def flights(epsilon: str, seed: int) -> Iterator[tuple[Asked, Corpus]]:
    with tempfile.TemporaryDirectory(prefix="saibot-research-") as name:
        corpus, _ = published(Path(name), epsilon, seed)
        rows = requests(Path(name))["arr_delay"].sample(MOST_ROWS, random_state=seed)
        yield _asked(rows, "arr_delay", ["hour", "distance"], "day", corpus), corpus


@contextmanager
def households(epsilon: str, seed: int) -> Iterator[tuple[Asked, Corpus]]:
    survey = read_households()
    with tempfile.TemporaryDirectory(prefix="saibot-research-") as name:
        files = []
        for number, (column, said) in enumerate(FEATURES.items()):
            facts = {"name": column, "key": KEY, "domain": f"range:{KEY}:1:{COMMUNES}", "individual": "one household"}
            request = table_request(
                survey.households[[KEY, column]], facts | {"features": [said]}, Budget(epsilon, DELTA), card=None, yes=True
            )
            noise = Seeded((seed, number))
            sketch = privatize(survey.households[[KEY, column]], request, Ledger(Path(name) / column), noise=noise).sketch
            files.append(Path(name) / f"{column}.saibot")
            files[-1].write_bytes(write_sketch(sketch))
        corpus, _ = pack_sketches(Path(name) / "corpus", files, unsafe=True)
        rows = survey.individuals.sample(MOST_ROWS, random_state=seed)
        yield _asked(rows, TARGET, OWN, KEY, corpus), corpus


@contextmanager
def new_york(tables: Path, label: str, epsilon: str, seed: int) -> Iterator[tuple[Asked, Corpus]]:
    books = library(tables)
    world = books.world(next(task for task in tasks_on(books.tables) if task.label == label))
    ask, noise = ask_on(world, split="keys"), Seeded((seed,))
    budget = Budget(epsilon, DELTA)
    sketches = [provider_release(world, i, "paper", budget, levels=True).sketch(noise) for i in range(len(world.names))]
    train = np.flatnonzero(ask.train)
    train = np.sort(np.random.default_rng(seed).permutation(train)[:MOST_ROWS])
    with corpus_of(world.domain, sketches) as corpus:

        def asked(model: str) -> LocalRequest:
            parts = [
                pa.table({X: world.x[rows], Y: world.y[rows], world.domain.id: _keys(world, rows)})
                for rows in (train, np.flatnonzero(~ask.train)[:MOST_ROWS])
            ]
            keys = {world.domain.id: world.domain}
            return local_request(parts[0], test=parts[1], target=Y, features=(X,), keys=keys, model=model)

        yield asked, corpus


def _keys(world: Any, rows: np.ndarray) -> pa.Array:
    return pa.array(np.array(world.domain.values, dtype=object)[world.place[rows]], pa.string())


def _asked(rows: pd.DataFrame, target: str, own: list[str], key: str, corpus: Corpus) -> Asked:
    """A quarter of the keys, every fourth in their order, is held out."""
    out = rows[key].rank(method="dense").astype(int) % 4 == 0

    def asked(model: str) -> LocalRequest:
        terms: dict[str, Any] = {"target": target, "features": own, "keys": [key], "domains": Domains(corpus)}
        return local_request(rows[~out], test=rows[out], model=model, **terms)

    return asked


def measured(name: str, asked: Asked, corpus: Corpus) -> list[dict[str, Any]]:
    """A record for each model."""
    records, taken = [], dict[str, Augmented]()
    for model in ("linear", "gbm"):
        request = asked(model)
        found = taken[model] = find_augmentation(request, corpus, SearchOptions(unions=False, engine="threads"))
        worth = found.worth
        assert worth is not None and worth.new is not None and worth.known is not None
        record = {"request": name, "model": model, "taken": len(found.columns), "own": worth.new.own.score}
        record |= {"private": worth.new.private.score if worth.new.private else np.nan}
        record |= {
            "known, own": worth.known.own.score,
            "own averages": worth.known.means.score if worth.known.means else np.nan,
        }
        records.append(record)
    left = [column for column in taken["linear"].result.columns if column.name not in taken["gbm"].columns]
    if left and request.key is not None and request.rows is not None:
        both = [*taken["gbm"].result.columns, *left]
        values = np.column_stack([looked_up(corpus, column, request.key).values for column in both])
        codes = np.arange(len(request.key))
        forced = judge(request.rows, values, codes, request.model, key="key", confidence=0.9)
        assert forced.new is not None and forced.new.private is not None
        records[-1] |= {"left out": len(left), "with them": forced.new.private.score}
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=("households", "flights", *NEW_YORK))
    given = parser.parse_args()
    found = []
    for name in given.only:
        makers = {"flights": flights, "households": households}
        made = makers[name](given.epsilon, given.seed) if name in makers else None
        with made or new_york(given.tables, name, given.epsilon, given.seed) as (asked, corpus):
            found += measured(name, asked, corpus)
        print(pd.DataFrame(found[-2:]).to_string(index=False, float_format="{:.3f}".format), flush=True)


if __name__ == "__main__":
    main()
