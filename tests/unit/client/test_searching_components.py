"""Bought components are features like others: each is looked up, ranked and joined by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from saibot.client import Corpus, Domains, SearchOptions, find_augmentation, local_request
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from tests.support.buying import buy

KEYS = 40


def test_two_components_are_two_columns_to_join(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    along, across = rng.uniform(-0.6, 0.6, KEYS + 1), rng.uniform(-0.35, 0.35, KEYS + 1)
    key = rng.integers(1, KEYS + 1, 40_000)
    one, two = along[key] + rng.normal(0, 0.05, len(key)), across[key] + rng.normal(0, 0.05, len(key))
    table = pd.DataFrame({"k": key, "x": (one + two) / 2**0.5, "y": (one - two) / 2**0.5})
    card = {
        "dataset": {"name": "plane"},
        "features": {"x": {"bounds": [-1, 1]}, "y": {"bounds": [-1, 1]}},
        "keys": {"k": {"domain": {"range": [1, KEYS], "of": "thing"}}},
        "component": {"of": ["x", "y"], "keep": 2},
    }
    sketch = buy(table, Ledger(tmp_path), card, Budget("4", "1e-6"), key="k").sketch
    corpus = Corpus.create(tmp_path / "corpus")
    assert corpus.add([sketch]) == []
    mine = pd.DataFrame({"thing": rng.integers(1, KEYS + 1, 4000)})
    mine["cost"] = 3 * along[mine.thing] - 4 * across[mine.thing] + rng.normal(0, 0.2, len(mine))
    request = local_request(mine, target="cost", keys=["thing"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads"))
    assert set(found.columns) == {"plane.component1", "plane.component2"}
    wide = found.augment(mine)
    assert abs(np.corrcoef(wide["plane.component1"], along[mine.thing])[0, 1]) > 0.95
    assert abs(np.corrcoef(wide["plane.component2"], across[mine.thing])[0, 1]) > 0.9
