"""One hop further: a provider that the request cannot reach, reached through another provider's counts.

The request has key a. Provider B is keyed by b, which the request does not have; provider A is keyed by (a, b). A's counts
say how the rows of each a spread over the b, so the mean of B's values over that spread is a value for a: what joining A
to B and averaging would give. All of it is arithmetic on sketches.
"""

from __future__ import annotations

import numpy as np

from saibot.estimate.lookup import lookup_values
from saibot.search.corpus import Corpus
from saibot.search.key_maps import View, Views
from saibot.search.shard import PROVIDER, ShardRows
from saibot.sketch import Sketch


def hop_shards(corpus: Corpus, views: Views) -> list[tuple[View, ShardRows]]:
    """Shards of all datasets that one hop makes reachable, each with the view on the key it is reached by."""
    found = []
    for bridge in corpus.key_ids:
        parts = bridge.split("+")
        if len(parts) != 2 or views.find(bridge) is not None:
            continue
        for near, far in ((0, 1), (1, 0)):
            view = views.find(parts[near])
            beyond = corpus.shards(parts[far])
            if view is None or views.find(parts[far]) is not None or not beyond:
                continue
            for digest in sorted({str(d) for shard in corpus.shards(bridge) for d in shard.text["digest"]}):
                spread = spread_over(corpus, digest, near)
                for shard in beyond:
                    if shard.values.shape[1] == spread.shape[1] + 1:
                        found.append((view, through(shard, spread, corpus.name_of(digest), digest)))
    return found


def spread_over(corpus: Corpus, digest: str, near: int) -> np.ndarray:
    """The spread of a bridge that the corpus holds."""
    return spread_of(corpus.sketch(digest), near)


def spread_of(bridge: Sketch, near: int) -> np.ndarray:
    """(near keys, far keys): the share of a bridge's rows that each far key has within a near one; rows sum to 1 or 0."""
    assert bridge.header.key is not None
    sizes = [part.size for part in bridge.header.key.parts]
    counts = np.maximum(lookup_values(bridge).counts[:-1], 0.0).reshape(sizes)
    counts = counts if near == 0 else counts.T
    total = counts.sum(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    return shares


def through(shard: ShardRows, spread: np.ndarray, bridge: str, digest: str) -> ShardRows:
    """A far shard's values averaged over the spread; keys without rows in the bridge get the mean, a deviation of 0.

    Names are for people, and several bridges may share one: `via` says which it was, by digest.
    """
    values = np.zeros((len(shard), len(spread) + 1), shard.values.dtype)
    values[:, :-1] = shard.values[:, :-1] @ spread.T
    names = np.array([f"{name} via {bridge}" for name in shard.text["dataset"]], dtype=object)
    via = np.full(len(shard), digest, dtype=object)
    whose = {PROVIDER: shard.extra[PROVIDER]} if PROVIDER in shard.extra else {}
    return ShardRows({**shard.text, "dataset": names, "via": via}, shard.numbers, values, whose)
