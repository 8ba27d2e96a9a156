"""Training together on real flights: airlines that agree, a join that a search chose, days that nobody has trained on.

    python -m research.real.federated --epsilon 1

Two airlines publish their delays by day. Virgin America searches them with its own flights, and trains on the join it finds
together with four others. Prints R2 on flights of held-out days: Virgin America's, and those of all who train. Everybody who
trains pays the same epsilon, for the sketch of its flights or for its rounds. `--folder DIR --prepare` writes the parties'
files and stops, for a training that somebody else runs; `--folder DIR --judge` judges what it came to.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from research.seeded import Seeded
from saibot.client import Augmented, Corpus, Domains, SearchOptions, find_augmentation, local_request, pack_sketches
from saibot.client.federating import TrainedModel, training_plan
from saibot.demo.flights import DAYS, write_airline
from saibot.federated import ModelState, TrainingPlan, first_state, next_state
from saibot.federated.training_plan import read_document
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.noise import NoiseSource
from saibot.privatize.training_round import train_round
from saibot.sketch import read_sketch, write_sketch

PUBLISHING = ("ua", "ev")
TRAINING = ("vx", "dl", "b6", "aa", "us")  # the first one is the requester
OWN = ("hour", "distance", "origin")
TARGET, KEY, DELTA = "arr_delay", "day", "1e-6"
HIDDEN, ROUNDS = 4, 4
CARD = f"""\
[dataset]
name = "CODE-flights-2013"
individual = "one flight"
neighbours = "replace-one"

[budget]
cap = {{ epsilon = "EPSILON", delta = "{DELTA}" }}

[features.arr_delay]
bounds = [-30, 120]
unit = "minute"
missing = 0

[features.hour]
bounds = [0, 23]

[features.distance]
bounds = [0, 3000]

[features.origin]
levels = ["EWR", "JFK"]

{DAYS}"""


@dataclass(frozen=True)
class Parties:
    """Where everybody's files are."""

    folder: Path
    epsilon: str

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def corpus(self) -> Corpus:
        return Corpus(self.folder / "corpus")

    def home(self, code: str) -> Path:
        return self.folder / code

    def table(self, code: str) -> Path:
        return self.home(code) / "flights.parquet"

    def card(self, code: str) -> Card:
        return Card.read(self.home(code) / "card.toml")

    def held_out(self, code: str) -> pd.DataFrame:
        return pd.read_parquet(self.home(code) / "held-out.parquet")


def prepare(parties: Parties, seed: int, noise: NoiseSource | None = None) -> None:
    """Write tables and cards, publish the two sketches, search, and write the plan that the airlines train by."""
    rng = np.random.default_rng(seed)
    days = pd.date_range("2013-01-01", "2013-12-31").strftime("%Y-%m-%d")
    held_out = set(rng.choice(days, len(days) // 4, replace=False))
    sketches = []
    for code in (*PUBLISHING, *TRAINING):
        flights = pd.read_parquet(write_airline(parties.home(code), code)[0]).dropna(subset=[TARGET])
        away = flights.day.isin(held_out) & (code in TRAINING)
        flights[~away].to_parquet(parties.table(code), index=False)
        flights[away].to_parquet(parties.home(code) / "held-out.parquet", index=False)
        (parties.home(code) / "card.toml").write_text(
            CARD.replace("CODE", code).replace("EPSILON", parties.epsilon), encoding="utf-8"
        )
        if code in PUBLISHING:
            sketches.append(sketch_of(parties, code, (TARGET,), noise))
    corpus, _ = pack_sketches(parties.folder / "corpus", sketches, unsafe=noise is not None)
    asked = local_request(
        pd.read_parquet(parties.table(TRAINING[0])), target=TARGET, keys=[KEY], features=OWN, domains=Domains(corpus)
    )
    found = find_augmentation(asked, corpus, SearchOptions(unions=False, engine="threads"))
    found.save(parties.result)
    plan = write_plan(parties, found, hidden=HIDDEN, rounds=ROUNDS)
    trainers = [
        {"table": parties.table(code), "card": parties.home(code) / "card.toml", "home": parties.home(code) / "training"}
        | {"accept": plan.digest}
        for code in TRAINING
    ]
    (parties.folder / "trainers.json").write_text(json.dumps(trainers, default=lambda path: str(path.resolve())))


def write_plan(parties: Parties, found: Augmented, *, hidden: int, rounds: int) -> TrainingPlan:
    cards = [parties.card(code) for code in TRAINING]
    plan = training_plan(found, cards, Budget(parties.epsilon, DELTA), hidden=hidden, rounds=rounds)
    for name, document in (("plan.json", plan), ("plan-state-0.json", first_state(plan))):
        (parties.folder / name).write_text(json.dumps(document.to_json()), encoding="utf-8")
    return plan


def sketch_of(parties: Parties, code: str, features: tuple[str, ...], noise: NoiseSource | None) -> Path:
    """One airline's flights by day, as a sketch."""
    request = ReleaseRequest(
        parties.card(code), Budget(parties.epsilon, DELTA), Neighbours.REPLACE_ONE, key=KEY, features=features
    )
    ledger = Ledger(parties.home(code) / f"ledger-{len(features)}")
    path = parties.home(code) / f"{len(features)}.saibot"
    path.write_bytes(write_sketch(privatize(parties.table(code), request, ledger, noise=noise).sketch))
    return path


def trained(parties: Parties, plan: TrainingPlan, noise: NoiseSource | None) -> ModelState:
    """All rounds, each trainer with its own ledger, without anything that moves files between them."""
    state = first_state(plan)
    for _ in range(plan.rounds):
        given = [
            train_round(
                parties.table(code),
                parties.card(code),
                plan,
                state,
                Ledger(parties.home(code) / f"training-{plan.digest[:8]}"),
                agreed=plan.digest,
                noise=noise,
            )
            for code in TRAINING
        ]
        state = next_state(plan, state, given)
    return state


def from_sketches(parties: Parties, found: Augmented, noise: NoiseSource | None) -> dict[str, float]:
    """Least squares on the same rows from sketches of them, which all trainers publish instead: held-out R2."""
    features = (TARGET, *OWN)
    sketches = [read_sketch(sketch_of(parties, code, features, noise)) for code in TRAINING]
    names = sketches[0].features
    gram: Any = 0
    keyed: Any = 0
    count = 0.0
    for sketch in sketches:
        whole = _moments(sketch)
        gram, keyed, count = gram + whole[0], keyed + whole[1], count + whole[2]
    plan = training_plan(found, [parties.card(TRAINING[0])], Budget(parties.epsilon, DELTA))
    joined = [one.scaled() for one in plan.joined]
    size = 1 + len(names)
    wide = np.zeros((size + len(joined),) * 2)
    wide[:size, :size] = gram
    for i, values in enumerate(joined):
        wide[size + i, :size] = wide[:size, size + i] = values @ keyed
        for j, second in enumerate(joined):
            wide[size + i, size + j] = (values * second) @ keyed[:, 0]
    others = [0, *range(2, len(wide))]
    weights = np.linalg.solve(wide[np.ix_(others, others)] + 1e-3 * count * np.eye(len(others)), wide[others, 1])
    model = TrainedModel(plan, ModelState(plan=plan.digest, round=1, weights=tuple(weights.tolist())), _card(parties))
    return judged(parties, model.predict)


def _moments(sketch: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Products of (1, features) over all rows, sums of (1, features) by key, and the number of rows; scaled units."""
    from saibot.estimate.totals import totals

    whole = totals(sketch)
    assert whole.products is not None
    head = np.concatenate([[whole.count], whole.sums])
    gram = np.block([[head[:1, None], whole.sums[None]], [whole.sums[:, None], whole.products]])
    return gram, np.asarray(sketch.levels[0].values), whole.count


def _card(parties: Parties) -> Card:
    return parties.card(TRAINING[0])


def judged(parties: Parties, predict: Any) -> dict[str, float]:
    """R2 on held-out days: of the requester's flights, and of all trainers'."""
    tables = {"requester": parties.held_out(TRAINING[0]), "all": pd.concat(map(parties.held_out, TRAINING))}
    found = {}
    for who, rows in tables.items():
        truth = rows[TARGET].clip(-30, 120).to_numpy(float)
        left = truth - predict(rows)
        found[who] = float(1 - (left @ left) / ((truth - truth.mean()) ** 2).sum())
    return found


def compared(parties: Parties, noise: NoiseSource | None, state: ModelState | None = None) -> pd.DataFrame:
    """The ways to a model, side by side."""
    found = Augmented.load(parties.result, parties.corpus)
    plan = read_document(TrainingPlan, parties.folder / "plan.json", "training plan")
    state = state or trained(parties, plan, noise)
    own, all_rows = (
        pd.read_parquet(parties.table(TRAINING[0])),
        pd.concat(pd.read_parquet(parties.table(c)) for c in TRAINING),
    )
    linear = plan.but(hidden=0, rounds=1)
    rows = {
        "own features, own rows (not sent)": judged(parties, _least_squares(parties, own, linear.but(joined=()))),
        "with the join, own rows (not sent)": judged(parties, _least_squares(parties, own, linear)),
        "linear, from everybody's sketches": from_sketches(parties, found, noise),
        f"{plan.hidden} hidden units, {plan.rounds} rounds": judged(
            parties, TrainedModel(plan, state, _card(parties)).predict
        ),
        "linear, raw rows (NOT PRIVATE)": judged(parties, _least_squares(parties, all_rows, linear)),
        "hidden units, raw rows (NOT PRIVATE)": judged(parties, _raw(parties, all_rows, plan)),
    }
    return pd.DataFrame(rows).T


def _columns(parties: Parties, plan: TrainingPlan, rows: pd.DataFrame) -> tuple[list[np.ndarray], np.ndarray]:
    model = TrainedModel(plan, first_state(plan), _card(parties))
    return model.columns(rows), (rows[TARGET].clip(-30, 120).to_numpy(float) - 45) / 75


def _least_squares(parties: Parties, rows: pd.DataFrame, plan: TrainingPlan) -> Any:
    columns, target = _columns(parties, plan, rows)
    wide = np.column_stack([np.ones(len(target)), *columns])
    weights, *_ = np.linalg.lstsq(wide, target, rcond=None)
    state = ModelState(plan=plan.digest, round=1, weights=tuple(weights.tolist()))
    return TrainedModel(plan, state, _card(parties)).predict


def _raw(parties: Parties, rows: pd.DataFrame, plan: TrainingPlan) -> Any:
    """The same steps from sums without clipping and without noise."""
    columns, target = _columns(parties, plan, rows)
    weights = np.array(first_state(plan).weights)
    for _ in range(plan.rounds):
        derived = np.array(plan.network.derived(columns, target, weights))
        sums = derived @ derived.T
        weights = weights + np.linalg.solve(sums[:-1, :-1] + 1e-3 * len(target) * np.eye(len(weights)), sums[:-1, -1])
    state = ModelState(plan=plan.digest, round=plan.rounds, weights=tuple(weights.tolist()))
    return TrainedModel(plan, state, _card(parties)).predict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--judge", type=Path, help="The weights that a training came to.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="saibot-research-") as name:
        parties = Parties(given.folder or Path(name), given.epsilon)
        noise = None if given.folder else Seeded((given.seed,))
        if given.judge is None:
            prepare(parties, given.seed, noise)
        if not given.prepare:
            state = read_document(ModelState, given.judge, "model state") if given.judge else None
            print(compared(parties, noise, state).to_string(float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
