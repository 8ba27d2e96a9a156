"""A school district asks which published data explain absences, and never shows a pupil to anybody.

python school_district_searches.py                                                    on a platform inside this process
python school_district_searches.py --platform https://saibot.example --ledger FOLDER  on one that somebody runs
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from hospital_publishes import NEIGHBOURHOODS, publish, sickliness

from saibot.client import Platform, Requester, connect
from saibot.embedded import embedded
from saibot.privatize import Card

# Needed only where sketches of the district's own table go to the platform.
CARD = Card.parse({
    "dataset": {"name": "absences", "individual": "one pupil", "neighbours": "replace-one"},
    "budget": {"cap": {"epsilon": "1", "delta": "1e-6"}},
    "features": {
        "days_absent": {"bounds": [0, 40], "unit": "day"},
        "grade": {"bounds": [1, 12]},
    },
    "keys": {"home": {"domain": {"values": NEIGHBOURHOODS, "id": "city-neighbourhoods"}}},
})  # fmt: skip


def pupils(count: int = 20_000) -> pd.DataFrame:
    """The district's table. Where the air is bad, pupils are absent more often."""
    rng = np.random.default_rng(3)
    risk = dict(zip(NEIGHBOURHOODS, sickliness(), strict=True))
    home, grade = rng.choice(NEIGHBOURHOODS, count), rng.integers(1, 13, count)
    expected = 2 + 20 * np.array([risk[place] for place in home]) + 0.2 * grade
    return pd.DataFrame({"home": home, "grade": grade, "days_absent": np.clip(rng.normal(expected, 3), 0, 40)})


def search(platform: Platform, ledger: Path, cache: Path) -> None:
    requester = Requester(platform, ledger, cache=cache)
    # Divided by the operating system's randomness, and noted in the ledger: nobody is in both parts, so each may have the
    # whole budget.
    parts = requester.split(pupils())
    train, test = parts.train, parts.test

    found = requester.search(train, test, target="days_absent", key="home", features=["grade"], local=True)
    print("at home, with exact rows: nothing was sent and nothing spent")
    print(found.path().round(3).to_string(index=False))

    asked = requester.search(train, test, target="days_absent", key="home", card=CARD, epsilon="1", split=parts.id)
    print("\nwith a private request: two sketches were sent")
    print(asked.path().round(3).to_string(index=False))

    model = found.model()
    print(f"\n{model!r}")
    print(f"on held-out pupils: R² {model.score(test):.3f}")
    wider = found.augment(test)
    print(f"any other model can use the new columns too: {', '.join(found.columns)} in {len(wider):,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description="A school district looks for data that explain absences.")
    parser.add_argument("--platform", help="address of a platform; the token is SAIBOT_TOKEN or that of `saibot login`")
    parser.add_argument("--ledger", type=Path, help="folder of the district's ledger; needed with --platform")
    asked = parser.parse_args()
    if asked.platform and asked.ledger is None:
        parser.error("--platform needs --ledger: what was spent there has to be known the next time too")
    with TemporaryDirectory() as folder:
        ledger, cache = asked.ledger or Path(folder) / "ledger", Path(folder) / "cache"
        if asked.platform:
            search(connect(asked.platform), ledger, cache)
            return
        with embedded() as admin:
            publish(admin.as_account("city-hospital", ["provider"]), Path(folder) / "hospital")
            search(admin.as_account("school-district", ["requester"]), ledger, cache)


if __name__ == "__main__":
    main()
