"""How much of each table's values the shared factors of its key domain explain.

Shards keep every feature's values, and factors are orthogonal columns over the same keys: the share of a feature's spread
over keys that one factor explains is their squared correlation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saibot.search.corpus import Corpus
from saibot.search.shared_factors import SharedFactors


@dataclass(frozen=True)
class Loading:
    """One feature of one sketch: the share of its spread over keys that a factor explains, with the sign of the factor."""

    digest: str
    dataset: str
    feature: str
    share: float


def explained(shared: SharedFactors) -> np.ndarray:
    """The share of the values of a typical table that each factor explains, (r,); the rest is each table's own."""
    return np.asarray((shared.grouped.everyone.loadings**2).mean(axis=0))


def strongest(corpus: Corpus, shared: SharedFactors, *, most: int) -> list[list[Loading]]:
    """For each factor the features that load on it most."""
    columns = _standard(shared.grouped.everyone.loadings.T)
    found: list[list[Loading]] = [[] for _ in range(shared.rank)]
    for shard in corpus.shards(shared.key):
        correlations = _standard(shard.values[:, :-1]) @ columns.T
        for factor, column in enumerate(correlations.T):
            for row in np.argsort(-np.abs(column), kind="stable")[:most]:
                text = {name: str(shard.text[name][row]) for name in ("digest", "dataset", "feature")}
                found[factor].append(Loading(**text, share=float(np.sign(column[row]) * column[row] ** 2)))
    return [sorted(one, key=lambda loading: -abs(loading.share))[:most] for one in found]


def _standard(rows: np.ndarray) -> np.ndarray:
    """Each row with a mean of 0 and a length of 1; a row that is the same for all keys becomes 0."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-12))
