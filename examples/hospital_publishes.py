"""A hospital publishes what its admissions say about neighbourhoods, and nothing about any patient.

python hospital_publishes.py                                                    on a platform inside this process
python hospital_publishes.py --platform https://saibot.example --ledger FOLDER  on one that somebody runs
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from saibot.client import Dataset, Platform, Provider, SigningKeys, connect
from saibot.embedded import embedded
from saibot.privatize import Card
from saibot.wire import ShownDataset

NEIGHBOURHOODS = [f"N{number:02d}" for number in range(1, 41)]  # the city's own list: public

# Everything here is known without looking at a patient. What is not is left out, or bought from the budget.
CARD = Card.parse({
    "dataset": {
        "name": "city-hospital-admissions",
        "title": "Admissions to the City Hospital, by neighbourhood",
        "individual": "one patient",
        "neighbours": "add-remove",  # also hides whether somebody was a patient at all
        "rows_per_individual": 3,  # further admissions of the same patient are left out
        "id": "patient",
        "max_rows": 100_000,
    },
    "budget": {"cap": {"epsilon": "2", "delta": "1e-6"}},
    "features": {
        "respiratory": {"bounds": [0, 1], "unit": "share"},
        "nights": {"bounds": [0, 14], "unit": "night"},
    },
    "keys": {"neighbourhood": {"domain": {"values": NEIGHBOURHOODS, "id": "city-neighbourhoods"}}},
})  # fmt: skip


def admissions(patients: int = 60_000) -> pd.DataFrame:
    """The hospital's table. It stays in the hospital."""
    rng = np.random.default_rng(1)
    risk = dict(zip(NEIGHBOURHOODS, sickliness(), strict=True))
    home = rng.choice(NEIGHBOURHOODS, patients)
    respiratory = rng.random(patients) < np.array([risk[place] for place in home])
    nights = np.clip(rng.gamma(2 + 2 * respiratory, 1.2), 0, 14)
    patient = [f"P{number}" for number in rng.integers(0, patients, patients)]
    return pd.DataFrame(
        {"patient": patient, "neighbourhood": home, "respiratory": respiratory.astype(float), "nights": nights}
    )


def sickliness() -> np.ndarray:
    """How the world of these examples is made: some neighbourhoods breathe worse air."""
    return np.random.default_rng(2).uniform(0.1, 0.7, len(NEIGHBOURHOODS))


def publish(platform: Platform, ledger: Path) -> Dataset:
    """Privatise at home, send the sketch, signed with the hospital's own key."""
    provider = Provider(platform, ledger, keys=SigningKeys(ledger / "signing-keys.pem"))
    sketch = provider.privatize(admissions(), CARD, epsilon="1", key="neighbourhood")
    return provider.publish(sketch, card=CARD, visibility="restricted")


def main() -> None:
    parser = argparse.ArgumentParser(description="A hospital publishes a sketch of its admissions.")
    parser.add_argument("--platform", help="address of a platform; the token is SAIBOT_TOKEN or that of `saibot login`")
    parser.add_argument("--ledger", type=Path, help="folder of the hospital's ledger; needed with --platform")
    asked = parser.parse_args()
    if asked.platform and asked.ledger is None:
        parser.error("--platform needs --ledger: what was spent there has to be known the next time too")
    with TemporaryDirectory() as folder:
        ledger = asked.ledger or Path(folder)
        if asked.platform:
            platform = connect(asked.platform)
            tell(platform.dataset(publish(platform, ledger).id))
            return
        with embedded() as admin:
            hospital = admin.as_account("city-hospital", ["provider"])
            published = publish(hospital, ledger)
            tell(hospital.dataset(published.id))
            Provider(hospital, ledger).withdraw(published.id)
            print(f"withdrawn again; {len(list(hospital.datasets()))} datasets left on the platform")


def tell(dataset: ShownDataset) -> None:
    print(f"{dataset.title}: version {dataset.version}, ε={dataset.budget.epsilon}, {dataset.neighbours}")
    for feature in (dataset.profile or {}).get("features", []):
        print(f"  anyone can see: mean {feature['name']} {feature['mean']['value']:.2f} ± {feature['mean']['error']:.2f}")


if __name__ == "__main__":
    main()
