"""Privatise one airline's flights and compare what the sketch says with the truth that only the airline knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saibot.demo.flights import write_airline
from saibot.estimate import Profile, profile
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Released, ReleaseRequest, privatize
from saibot.privatize.privatize import Progress, write_safely
from saibot.sketch import SUFFIX


@dataclass(frozen=True)
class Story:
    table: Path
    card: Path
    sketch: Path
    released: Released
    profile: Profile
    truth: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "card": str(self.card),
            "sketch": str(self.sketch),
            "digest": self.released.sketch.digest,
            "budget": self.released.sketch.header.budget,
            "profile": self.profile.to_json(),
            "true_means": self.truth,
        }


def tell_story(folder: Path, code: str, *, progress: Progress) -> Story:
    """Everything a provider does, on real data. The true means are shown because flights are public anyway."""
    import pandas as pd

    progress("writing the airline's table and card", None)
    table, card_path = write_airline(folder, code)
    card = Card.read(card_path)
    request = ReleaseRequest(
        card, Budget("1", "1e-6"), Neighbours.REPLACE_ONE, key="day", features=("arr_delay", "dep_delay")
    )
    released = privatize(table, request, Ledger(folder / "home"), progress=progress)
    sketch = folder / f"{code}-day{SUFFIX}"
    write_safely(sketch, released.content)
    frame = pd.read_parquet(table)
    truth = {name: float(frame[name].fillna(0).clip(-30, 120).mean()) for name in ("arr_delay", "dep_delay")}
    return Story(table, card_path, sketch, released, profile(released.sketch), truth)
