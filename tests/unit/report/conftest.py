"""A result document with as many candidates as asked for, as a search would write it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

FEATURES = ("temp", "precip", "wind_speed", "visib")


def make_document(candidates: int = 40, steps: int = 3, *, held_out: bool = True, **changes: Any) -> dict[str, Any]:
    rng = random.Random(7)
    ranked: list[dict[str, Any]] = []
    for i in range(candidates):
        gain, error = 0.12 * 0.85**i, 0.01 * rng.uniform(0.5, 1.5)
        union = i == 5
        ranked.append({
            "kind": "union" if union else "join",
            "dataset": f"agency-{i}-2013",
            "digest": f"{i:064x}",
            "feature": None if union else FEATURES[i % 4],
            "key": [] if union else [{"part": "day", "level": None if i % 3 else "month"}],
            "gain": gain,
            "interval": [gain - 2 * error, gain + 2 * error],
            "coefficient": None if union else rng.uniform(-3, 3),
            "reliability": None if union else rng.uniform(0.2, 0.97),
            "rows": None if i == 7 else rng.randint(1000, 300_000),
            "note": "",
            "via": None,
            "features": [] if union else [FEATURES[i % 4]],
            "potential": None if union else 1.2 * gain,
            "potential_interval": None if union else [gain, 1.5 * gain],
            "coefficient_interval": None,
            "coverage": 1.0,
            "privacy_share": 0.4,
        })  # fmt: skip
    taken = [
        entry
        | {
            "train_r2": 0.31 + 0.08 * (i + 1),
            "test_r2": 0.29 + 0.07 * (i + 1) if held_out else None,
            "column": f"{entry['dataset']}.{entry['feature']}",
        }
        for i, entry in enumerate(ranked[:steps])
    ]
    document = {
        "format": "saibot-result",
        "version": 1,
        "request": "ua-flights-2013",
        "target": "arr_delay",
        "private": True,
        "base": {"train_r2": 0.31, "test_r2": 0.29 if held_out else None},
        "steps": taken,
        "ranked": ranked,
        "dropped": [{"reason": "its gain is not clear of its error", "count": 820, "examples": ["a.b", "c.d"]}],
        "candidates": candidates + 820,
        "stopped": "no gain is clear of its error",
        "rows": {"train": 40_000, "test": 18_000 if held_out else None},
        "keys": [
            {
                "name": "day",
                "column": "day",
                "domains": [{"id": "dates:2013-01-01:2013-12-31", "version": 1, "digest": "0" * 64}],
            }
        ],
        "columns": [],
        "model": None,
        "notes": [],
    }
    return document | changes


@pytest.fixture
def result_document() -> Callable[..., dict[str, Any]]:
    """Makes result documents of any size."""
    return make_document
