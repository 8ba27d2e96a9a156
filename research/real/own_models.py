"""Models and targets of one's own on real flights: JetBlue asks fourteen airlines' sketches by day for days it has not seen.

    python -m research.real.own_models --epsilon 1

prints, for four ways to model a target, own features alone, the private columns that a search at home took, and the same
model with the raw daily means of the same columns, all on the same held-out days.

    python -m research.real.own_models --private

asks with a sketch of JetBlue's own flights instead, at the same epsilon, for the targets that are yes or no and counts:
least squares from sketches, as it is and rescaled around the base rate, beside the search at home and the raw joins.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from research.seeded import Seeded
from saibot.client import Domains, SearchOptions, find_augmentation, local_request, pack_sketches, private_request
from saibot.client.families import family_named
from saibot.client.judging import judge
from saibot.demo.flights import airlines, write_airline
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import write_sketch
from saibot.wire import Judged

OWN = ["hour", "distance"]
LATE = 15  # minutes
ASKED = {  # target, model, family
    "minutes late, linear": ("arr_delay", "linear", "gaussian"),
    "minutes late, boosted trees": ("arr_delay", "gbm", "gaussian"),
    "late or not": ("late", "linear", "binomial"),
    "late flights per hour": ("late_flights", "linear", "poisson"),
}


def published(folder: Path, epsilon: str, seed: int) -> tuple[Any, pd.DataFrame]:
    """A corpus of every other airline's flights by day, and the raw means that the sketches are about."""
    raw = {}
    for number, code in enumerate(code for code in airlines() if code != "b6"):
        table, card = write_airline(folder, code)
        terms: dict[str, Any] = {"key": "day", "neighbours": Neighbours.REPLACE_ONE, "features": ("arr_delay", "dep_delay")}
        request = ReleaseRequest(Card.read(card), Budget(epsilon, "1e-6"), **terms)
        sketch = privatize(table, request, Ledger(folder / f"ledger-{code}"), noise=Seeded((seed, number))).sketch
        (folder / f"{code}.saibot").write_bytes(write_sketch(sketch))
        rows = pd.read_parquet(table)
        for column in ("arr_delay", "dep_delay"):
            raw[f"{code}-flights-2013.{column}"] = rows[column].fillna(0).clip(-30, 120).groupby(rows.day).mean()
    corpus, _ = pack_sketches(folder / "corpus", sorted(folder.glob("*.saibot")), unsafe=True)
    return corpus, pd.DataFrame(raw)


def requests(folder: Path) -> dict[str, pd.DataFrame]:
    """JetBlue's flights that arrived, and for every day and hour how many of them were late."""
    flights = pd.read_parquet(write_airline(folder, "b6")[0]).dropna(subset=["arr_delay"])
    flights = flights.assign(late=(flights.arr_delay > LATE).astype(float))
    by_hour = flights.groupby(["day", "hour"], as_index=False).agg(
        late_flights=("late", "sum"), distance=("distance", "mean")
    )
    return {"arr_delay": flights, "late": flights, "late_flights": by_hour}


def measured(name: str, tables: dict[str, pd.DataFrame], corpus: Any, raw: pd.DataFrame, seed: int) -> dict[str, Any]:
    """One way to model one target, on a quarter of the days that neither search nor model has seen."""
    target, model, family = ASKED[name]
    table = tables[target]
    days = np.unique(table.day)
    out = table.day.isin(np.random.default_rng(seed).choice(days, len(days) // 4, replace=False))
    asked: dict[str, Any] = {
        "target": target,
        "features": OWN,
        "keys": ["day"],
        "domains": Domains(corpus),
        "model": model,
        "family": family,
    }
    request = local_request(table[~out], test=table[out], **asked)
    found = find_augmentation(request, corpus, SearchOptions(unions=False, engine="threads"))
    assert found.worth is not None and request.rows is not None and request.key is not None
    columns = [column for column in found.columns if column in raw]
    keys = list(request.key.parts[0][1].values)
    values = raw.reindex(keys)[columns]
    values = np.vstack([values.fillna(values.mean()).to_numpy(), np.zeros(len(columns))])
    ceiling = judge(request.rows, values, np.arange(len(request.key)), request.model, key="day", confidence=0.9)
    assert found.worth.new is not None and ceiling.new is not None
    score = {"own": found.worth.new.own, "private": found.worth.new.private, "raw joins": ceiling.new.private}
    return {"asked": name, "columns": len(columns)} | {how: _told(one) for how, one in score.items()}


def asked_privately(
    name: str, tables: dict[str, pd.DataFrame], corpus: Any, folder: Path, epsilon: str, seed: int
) -> dict[str, Any]:
    """The same target from sketches alone: AUC and deviance explained on the days that `measured` holds out."""
    target, _, family = ASKED[name]
    table = tables[target]
    days = np.unique(table.day)
    out = table.day.isin(np.random.default_rng(seed).choice(days, len(days) // 4, replace=False))
    most = 1 if family == "binomial" else 20
    card = Card.parse(
        {
            "dataset": {"name": f"b6-{target}", "neighbours": "replace-one"},
            "features": {target: {"bounds": (0, most)}, "hour": {"bounds": (0, 23)}, "distance": {"bounds": (0, 3000)}},
            "keys": {"day": {"domain": {"dates": ("2013-01-01", "2013-12-31")}}},
        }
    )
    terms: dict[str, Any] = {"key": "day", "neighbours": Neighbours.REPLACE_ONE, "part": "train"}
    request = ReleaseRequest(card.for_request("train"), Budget(epsilon, "1e-6"), **terms)
    sketch = privatize(table[~out], request, Ledger(folder / f"ledger-{target}"), noise=Seeded((seed, 99))).sketch
    options = SearchOptions(unions=False, engine="threads")
    found = find_augmentation(private_request(sketch, target=target), corpus, options)
    truth, guess = table[out][target].to_numpy(float), found.model().predict(table[out])
    base = float(guess.mean())
    # Around the base rate, least squares is the likelihood of order 2: slopes divided by the variance that goes with it.
    score = (guess - base) / (base * (1 - base) if family == "binomial" else base)
    start = np.log(base / (1 - base)) if family == "binomial" else np.log(base)
    rescaled = family_named(family).mean(start + score)
    as_it_is = np.clip(guess, base / 10, 1 - base / 10 if family == "binomial" else np.inf)
    null = _deviance(family, truth, np.full(len(truth), truth.mean()))
    explained = {
        how: f"{1 - _deviance(family, truth, mean) / null:.3f}"
        for how, mean in (("least squares from sketches", as_it_is), ("rescaled", rescaled))
    }
    auc = {"its AUC": f"{_auc(truth, guess):.3f}"} if family == "binomial" else {}
    return {"asked": name} | explained | auc | {"columns then": len(found.columns)}


def _deviance(family: str, truth: np.ndarray, mean: np.ndarray) -> float:
    if family == "binomial":
        mean = np.clip(mean, 1e-6, 1 - 1e-6)
        return float(-2 * (truth * np.log(mean) + (1 - truth) * np.log(1 - mean)).sum())
    mean = np.maximum(mean, 1e-6)
    return float(2 * (np.where(truth > 0, truth * np.log(np.maximum(truth, 1e-12) / mean), 0.0) - truth + mean).sum())


def _auc(truth: np.ndarray, score: np.ndarray) -> float:
    ranks = pd.Series(score).rank().to_numpy()
    yes = truth > 0.5
    return float((ranks[yes].sum() - yes.sum() * (yes.sum() + 1) / 2) / (yes.sum() * (~yes).sum()))


def _told(judged: Judged | None) -> str:
    if judged is None:
        return "nothing taken"
    return f"{judged.score:.3f}" + (f", AUC {judged.auc:.3f}" if judged.auc is not None else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--private", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="saibot-research-") as name:
        corpus, raw = published(Path(name), given.epsilon, given.seed)
        tables = requests(Path(name))
        chosen = [one for one, (_, _, family) in ASKED.items() if not given.private or family != "gaussian"]
        found = pd.DataFrame([measured(one, tables, corpus, raw, given.seed) for one in chosen])
        if given.private:
            asked = [asked_privately(one, tables, corpus, Path(name), given.epsilon, given.seed) for one in chosen]
            found = found.merge(pd.DataFrame(asked), on="asked")
    print(found.to_string(index=False))


if __name__ == "__main__":
    main()
