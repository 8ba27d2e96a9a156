"""A corpus of many shards, and a request that some of its datasets help; seeded, and small enough for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from saibot.estimate.moments import exact_moments
from saibot.search import Corpus, RequestKey, SearchRequest
from saibot.search.key_maps import view_id
from saibot.search.shard import ShardRows
from saibot.sketch import KeyDomain

KEYS, USEFUL = 100, 3


def world(folder: Path, *, candidates: int, shard: int, keys: int = KEYS) -> tuple[Corpus, SearchRequest]:
    """Datasets of two features each, `shard` features to a file; the first few explain the request's target."""
    rng = np.random.default_rng(7)
    domain = KeyDomain.of("spark", [f"k{i}" for i in range(keys)])
    corpus = Corpus.create(folder / "corpus")
    effect = np.zeros(keys)
    for start in range(0, candidates, shard):
        values = rng.standard_normal((shard, keys + 1), np.float32)
        values[:, -1] = 0
        if start == 0:
            effect = values[: 2 * USEFUL : 2, :-1].sum(axis=0)
        owner = np.array([f"d{i // 2}" for i in range(start, start + shard)], object)
        text = {
            "digest": np.array([f"{int(name[1:]):064x}" for name in owner], object),
            "dataset": owner,
            "feature": np.array([f"f{i % 2}" for i in range(shard)], object),
            "unit": np.full(shard, "", object),
        }
        numbers = {name: np.ones(shard) for name in ("spread", "scale", "rows")}
        numbers |= {name: np.zeros(shard) for name in ("mean", "offset")}
        numbers["reliability"] = rng.choice([0.001, 0.3, 0.9], shard)
        corpus.add_rows(view_id([domain.keys_digest]), ShardRows(text, numbers, values))
    places = rng.integers(0, keys, 20 * keys)
    own = rng.normal(size=len(places))
    y = 0.5 * own + 0.4 * effect[places] + rng.normal(size=len(places))
    moments = exact_moments(("x", "y"), np.column_stack([own, y]), places, keys + 1)
    return corpus, SearchRequest(moments, None, "y", RequestKey.product([("k", domain)]), own=("d1",))
