"""Small exact worlds: tables as arrays, and corpora of their exact values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from saibot.search import Corpus
from saibot.search.key_maps import view_id
from saibot.search.shard import ShardRows
from saibot.sketch import KeyDomain


def rows_of(values: np.ndarray, names: list[str], *, spread: float = 1.0) -> ShardRows:
    """Shard rows with given deviations; one dataset a row."""
    count = len(values)
    ones = np.ones(count)
    return ShardRows(
        {
            "digest": np.array([f"{abs(hash(name)):064x}" for name in names], object),
            "dataset": np.array(names, object),
            "feature": np.full(count, "z", object),
            "unit": np.full(count, "", object),
        },
        {
            "mean": 0 * ones,
            "spread": spread * ones,
            "reliability": ones,
            "offset": 0 * ones,
            "scale": ones,
            "rows": 100 * ones,
        },
        values,
    )


class ExactCorpus(Corpus):
    """A corpus whose shards give float64 values as they were put in: for the algebra, which files round to float32."""

    def add_rows(self, id: str, rows: ShardRows) -> None:
        super().add_rows(id, rows)
        self.__dict__.setdefault("exact", {})[self.shard_names(id)[-1]] = rows

    def shard(self, name: str) -> ShardRows:
        exact: ShardRows = self.__dict__["exact"][name]
        return exact


@pytest.fixture
def exact_corpus(tmp_path: Path):
    """A corpus of given values over a domain, exact to float64; the catch-all's value is 0."""

    def make(domain: KeyDomain, values: np.ndarray, names: list[str] | None = None) -> Corpus:
        corpus = ExactCorpus.create(tmp_path / f"corpus{len(list(tmp_path.iterdir()))}")
        padded = np.column_stack([values, np.zeros(len(values))])
        corpus.add_rows(view_id([domain.keys_digest]), rows_of(padded, names or [f"d{i}" for i in range(len(values))]))
        return corpus

    return make
