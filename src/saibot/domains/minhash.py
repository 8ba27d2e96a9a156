"""Whether two sets of keys can have much in common, from a small signature of each: MinHash.

A signature answers "certainly not" cheaply; what it cannot rule out is counted key by key, because domains are public and
nothing has to rest on an estimate. Keys are folded first, so that two spellings of one key agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from saibot.domains.spelling import folded

PERMUTATIONS = 256
SCHEME = "affine32"  # signatures are stored: another scheme or seed needs another name in the file
SEED = 1
DOUBT = 1e-4  # of calling two sets strangers that are not
_AT_ONCE = 10_000


def signature(keys: Sequence[str]) -> np.ndarray:
    """256 minima of hashes of the folded keys, the same on every machine."""
    from datasketch import MinHash

    made = MinHash(num_perm=PERMUTATIONS, seed=SEED, scheme=SCHEME)
    texts = (folded(key).encode() for key in keys)
    while batch := list(islice(texts, _AT_ONCE)):
        made.update_batch(batch)
    return np.asarray(made.hashvalues, np.uint32)


def most_shared(ours: np.ndarray, our_size: int, theirs: np.ndarray, their_size: int, *, doubt: float = DOUBT) -> float:
    """How many keys the two sets have in common at most, but with probability `doubt`.

    Equal entries are binomial with the sets' Jaccard similarity J (of MinHash's ideal hash functions, which datasketch's
    come close to); Clopper and Pearson bound J from above, and shared <= (a + b) J / (1 + J).
    """
    from scipy.special import betaincinv  # here, because everybody who reads a sketch loads this module

    equal = int(np.count_nonzero(ours == theirs))
    similar = 1.0 if equal == len(ours) else float(betaincinv(equal + 1, len(ours) - equal, 1 - doubt))
    return min((our_size + their_size) * similar / (1 + similar), our_size, their_size)
