"""Two clinics that train together: small made-up tables, a card each, and a plan with a joined column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from saibot.federated import JoinedColumn, ModelColumn, TrainingPlan
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.privatize.schema import resolve_key
from saibot.privatize.training_round import trainer_of

TOWNS = 6


AGREED = Budget("100", "1e-3")  # to any plan of the tests


def clinic_card(name: str, *, epsilon: str = "1", **dataset: Any) -> Card:
    return Card.parse(
        {
            "budget": {"cap": {"epsilon": epsilon, "delta": "1e-6"}},
            "dataset": {"name": name, "neighbours": "replace-one", **dataset},
            "features": {
                "nights": {"bounds": (0, 10)},
                "age": {"bounds": (0, 100), "column": "years"},
                "ward": {"levels": ("a",)},
                "long": {"levels": ("1",)},
            },
            "keys": {"town": {"domain": {"range": (1, TOWNS), "of": "town"}}},
        }
    )


def clinic_rows(seed: int, rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, town, ward = rng.uniform(0, 100, rows), rng.integers(1, TOWNS + 1, rows), rng.choice(["a", "b"], rows)
    nights = 2 + 0.03 * age + 0.5 * town + (ward == "a") + rng.normal(0, 0.7, rows)
    chance = 1 / (1 + np.exp(-(0.06 * (age - 60))))
    long = (rng.uniform(size=rows) < chance).astype(int)
    who = np.arange(rows)
    return pd.DataFrame({"who": who, "nights": nights, "years": age, "town": town, "ward": ward, "long": long})


def clinic_plan(*cards: Card, **changes: Any) -> TrainingPlan:
    """Nights by age, ward and what the towns are said to have; `changes` are fields of the plan."""
    key = resolve_key(cards[0], "town")
    assert key is not None
    joined = JoinedColumn(
        name="towns.beds", domains=(key.parts[0].domain.keys_digest,), parts=("town",), values=(1, 2, 3, 4, 5, 6, 3.5)
    )
    document: dict[str, Any] = {
        "target": ModelColumn(name="nights", bounds=(0, 10)),
        "columns": (ModelColumn(name="age", bounds=(0, 100)), ModelColumn(name="ward", levels=("a",))),
        "joined": (joined,),
        "clip": 2.0,
        "epsilon": "1",
        "delta": "1e-6",
        "trainers": tuple(trainer_of(card) for card in cards),
    }
    return TrainingPlan(**(document | changes))
