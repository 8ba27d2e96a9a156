"""The story: a ministry wants to predict what people spend in communes that it has not surveyed.

Five offices keep one fact each about every household of the country and may hand out none of them. Each publishes a private
sketch by commune, the guided way, with epsilon 1 and bounds that it buys. The ministry searches them at home with its own
rows, and is judged on communes it has never seen, where its own averages by commune say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saibot.client import (
    Augmented,
    Domains,
    Platform,
    Provider,
    Requester,
    SigningKeys,
    find_augmentation,
    local_request,
    pack_sketches,
)
from saibot.client.guiding import table_request
from saibot.demo.households import CARD, COMMUNES, KEY, OFFICES, OWN, TARGET, HouseholdTables
from saibot.embedded import embedded
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import privatize
from saibot.safe_file import write_safely
from saibot.search.packed_rows import own_values
from saibot.sketch import Sketch, write_sketch

if TYPE_CHECKING:
    import pandas as pd

EPSILON, DELTA = "1", "1e-6"
FOLDS = 5
# What an office may choose: a budget, and what it says of its column where that holds numbers. The first is what they did.
CHOICES = {
    f"ε = {EPSILON}, bounds bought": (EPSILON, ""),
    f"ε = {EPSILON}, bounds 0 to 100": (EPSILON, "=0:100"),
    "ε = 0.1, bounds 0 to 100": ("0.1", "=0:100"),  # so little buys no bounds: the guided way asks for public ones
}
CHOSEN, *_, SMALL = CHOICES

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class SpendingScores:
    """R2 of linear models of spending. What is not private needs everybody's raw rows, which no real party has."""

    own: float  # the ministry's own features, on communes that it has not surveyed
    own_means: float  # with its own averages by commune, which are one and the same on new communes
    private: float  # with the columns that the search chose
    same_raw: float  # NOT PRIVATE: the same columns without noise
    all_raw: float  # NOT PRIVATE: all five columns without noise
    known_own: float  # the same three on new rows of the communes that it has surveyed
    known_means: float
    known_private: float
    train_rows: int
    test_rows: int

    @property
    def share(self) -> float:
        """Of what raw columns would give, how much the private ones do."""
        return self.private / self.same_raw if self.same_raw > 0 else 0.0


@dataclass(frozen=True)
class SpendingStory:
    """What happened."""

    folder: Path
    spent: dict[str, float]  # by office, in its own ledger
    local: Augmented
    private: Augmented
    scores: SpendingScores
    small: float  # R2 on the unseen communes had all offices taken the smallest budget
    follows: dict[str, dict[str, float]]  # by choice and office: how well private averages follow the true ones, R2
    token: str  # the ministry's, for whoever wants to look around on the platform

    def to_json(self) -> dict[str, Any]:
        chosen = {"selected": list(self.local.columns), "small": self.small, "follows": self.follows}
        return {"scores": asdict(self.scores), **chosen}


def tell_spending(folder: Path, tables: HouseholdTables, *, progress: Progress) -> SpendingStory:
    """Play all parts. A second run in the same folder costs nothing: the ledgers hand out the same sketches."""
    import pandas as pd

    train, test = tables.surveyed, tables.unseen
    home = folder / "ministry"
    home.mkdir(parents=True, exist_ok=True)
    card = home / "request.toml"
    card.write_text(CARD, encoding="utf-8")
    with embedded(folder / "platform") as platform:
        spent = {}
        for place, (office, (column, said, title)) in enumerate(OFFICES.items()):
            progress("five offices publish their columns", place / len(OFFICES))
            spent[office] = publish_column(platform, folder / "offices" / office, office, tables, column, said, title)
        client = platform.as_account("ministry", ["requester"])
        ministry = Requester(client, home / "ledger", cache=home / "cache", note=lambda sentence: None)
        progress("the ministry searches at home, with its own rows", None)
        asked: dict[str, Any] = {"target": TARGET, "key": KEY}
        local = ministry.search(train, features=OWN, local=True, **asked)
        progress("the ministry asks the platform, with sketches of its own rows", None)
        private = _asked_privately(ministry, train, card, asked)
        assert client.wire.token is not None
        token = client.wire.token
        local.save(home / "result.json")
        private.save(home / "private-result.json")
        pd.DataFrame(local.augment(test)).to_csv(home / "unseen.augmented.csv", index=False)
        progress("training on the surveyed communes, judging on the others", None)
        scores = judge(tables, local)
    progress("what other choices would have given", None)
    tried = {}
    for place, (name, choice) in enumerate(CHOICES.items()):
        tried[name] = _released(tables, folder / ("offices" if name == CHOSEN else f"other-choices/{place}"), *choice)
    follows = {name: {office: _follows(tables, office, one) for office, one in made.items()} for name, made in tried.items()}
    small = _found_in(tables, folder / "other-choices" / "corpus", tried[SMALL])
    return SpendingStory(folder, spent, local, private, scores, small, follows, token)


def publish_column(
    platform: Platform, folder: Path, office: str, tables: HouseholdTables, column: str, said: str, title: str
) -> float:
    """One office's whole work, as `saibot publish TABLE` does it; gives back what its ledger says it has spent."""
    ledger = Ledger(folder / "ledger")
    account_of_office = platform.as_account(f"{office}-office", ["provider"])
    keys = SigningKeys(folder / "signing-keys.pem")
    provider = Provider(account_of_office, ledger, note=lambda sentence: None, keys=keys)
    provider.publish(tables.households[[KEY, column]], epsilon=EPSILON, delta=DELTA, **_answers(office, said, title))
    (account,) = ledger.accounts()
    return account.spent_epsilon


def judge(tables: HouseholdTables, found: Augmented) -> SpendingScores:
    """The three numbers on communes that were not surveyed and on those that were, and the ceiling without noise."""
    train, test, means = tables.surveyed, tables.unseen, tables.means()
    rows, unseen = (found.augment(part).join(means, on=KEY) for part in (train, test))
    own, new = list(OWN), list(found.columns)
    raw = [f"raw {column.feature.partition('=')[0]}" for column in found.result.columns]
    averaged = _with_means(rows, rows, nested=True)
    overall = float(rows[TARGET].mean())
    fold = np.arange(len(rows)) % FOLDS  # rows of the file are in no order
    known = {name: np.empty(len(rows)) for name in ("own", "means", "private")}
    for held in range(FOLDS):
        seen, rest = rows[fold != held], rows[fold == held]
        for name, columns in (("own", own), ("private", [*own, *new])):
            known[name][fold == held] = _predicted(seen, rest, columns)
        known["means"][fold == held] = _predicted(
            _with_means(seen, seen, nested=True), _with_means(rest, seen), [*own, "mean"]
        )
    truth = rows[TARGET].to_numpy(float)
    return SpendingScores(
        own=_r2(unseen, _predicted(rows, unseen, own)),
        own_means=_r2(unseen, _predicted(averaged, unseen.assign(mean=overall), [*own, "mean"])),
        private=_r2(unseen, _predicted(rows, unseen, [*own, *new])),
        same_raw=_r2(unseen, _predicted(rows, unseen, [*own, *raw])),
        all_raw=_r2(unseen, _predicted(rows, unseen, [*own, *means.columns])),
        known_own=_share_explained(truth, known["own"]),
        known_means=_share_explained(truth, known["means"]),
        known_private=_share_explained(truth, known["private"]),
        train_rows=len(train),
        test_rows=len(test),
    )


# ------------------------------------------------------------------------------------------------ inside


def _answers(office: str, said: str, title: str) -> dict[str, Any]:
    return {
        "name": f"{office}-office",
        "title": title,
        "individual": "one household",
        "key": KEY,
        "domain": f"range:{KEY}:1:{COMMUNES}",
        "features": [said],
    }


def _asked_privately(ministry: Requester, train: pd.DataFrame, card: Path, asked: dict[str, Any]) -> Augmented:
    """The same question with two sketches of the ministry's own rows, which are charged to its ledger once."""
    home = card.parent
    kept = home / "split.json"
    if not kept.exists():
        parts = ministry.split(train, test="0.3")
        parts.train.to_parquet(home / "train.parquet", index=False)
        parts.test.to_parquet(home / "test.parquet", index=False)
        write_safely(kept, json.dumps(parts.id).encode())
    files = [home / f"{part}.parquet" for part in ("train", "test")]
    features = ["educ", "insurance"]
    return ministry.search(
        *files, features=features, card=card, epsilon=EPSILON, split=json.loads(kept.read_text()), **asked
    )


def _released(tables: HouseholdTables, folder: Path, epsilon: str, bounds: str) -> dict[str, Sketch]:
    """What each office would release with such a choice; where its ledger has that release already, the same sketch."""
    found = {}
    for office, (column, said, title) in OFFICES.items():
        answers = _answers(office, said if "=" in said else f"{said}{bounds}", title)
        rows = tables.households[[KEY, column]]
        request = table_request(rows, answers, Budget(epsilon, DELTA), card=None, yes=True)
        found[office] = privatize(rows, request, Ledger(folder / office / "ledger")).sketch
    return found


def _follows(tables: HouseholdTables, office: str, sketch: Sketch) -> float:
    """NOT PRIVATE. The squared correlation of an office's private averages by commune with the true ones."""
    truth = tables.means()[f"raw {OFFICES[office][0]}"].reindex(range(1, COMMUNES + 1)).to_numpy()
    private = own_values(sketch, None).values[0, :-1]  # the last is of all other keys
    there = ~np.isnan(truth)
    if np.ptp(private[there]) == 0:
        return 0.0  # nothing but noise was there, and all communes are given the same
    return float(np.corrcoef(private[there], truth[there])[0, 1] ** 2)


def _found_in(tables: HouseholdTables, folder: Path, sketches: Mapping[str, Sketch]) -> float:
    """R2 on the unseen communes with what the ministry finds among such sketches. Nothing of this is published."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{office}.saibot" for office in sketches]
    for file, sketch in zip(files, sketches.values(), strict=True):
        file.write_bytes(write_sketch(sketch))
    corpus, _ = pack_sketches(folder / "packed", files)
    asked = local_request(tables.surveyed, target=TARGET, keys=[KEY], features=OWN, domains=Domains(corpus))
    found = find_augmentation(asked, corpus)
    rows, unseen = found.augment(tables.surveyed), found.augment(tables.unseen)
    return _r2(unseen, _predicted(rows, unseen, [*OWN, *found.columns]))


def _with_means(rows: pd.DataFrame, seen: pd.DataFrame, *, nested: bool = False) -> pd.DataFrame:
    """With the mean target of each commune among `seen`; where those are the rows themselves, of the other folds only."""
    overall = float(seen[TARGET].mean())
    if not nested:
        return rows.assign(mean=rows[KEY].map(seen.groupby(KEY)[TARGET].mean()).fillna(overall))
    fold, mean = np.arange(len(rows)) % FOLDS, np.empty(len(rows))
    for held in range(FOLDS):
        others = rows[fold != held].groupby(KEY)[TARGET].mean()
        mean[fold == held] = rows[fold == held][KEY].map(others).fillna(overall)
    return rows.assign(mean=mean)


def _predicted(train: pd.DataFrame, test: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """By least squares with a constant."""
    seen, unseen = (np.column_stack([np.ones(len(part)), part[list(columns)].to_numpy(float)]) for part in (train, test))
    weights, *_ = np.linalg.lstsq(seen, train[TARGET].to_numpy(float), rcond=None)
    return np.asarray(unseen @ weights)


def _r2(rows: pd.DataFrame, predicted: np.ndarray) -> float:
    return _share_explained(rows[TARGET].to_numpy(float), predicted)


def _share_explained(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float(1 - ((truth - predicted) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
