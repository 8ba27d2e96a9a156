"""How much of one set of keys lies in another, from small samples of both: MinHash for containment.

Every key has a fixed 64-bit hash, a number in [0, 1). A set of size N is represented by its keys with a hash below 2^-r (the
smallest ones: hence MinHash), where the *rung* r grows with N: all keys of a small set, 256 to 511 of a middling one, one in
8 of a large one. These are the MOD sketches that Broder (On the resemblance and containment of documents, 1997) proposes
for containment, with his 2^i ladder. Unlike the minima of k permutations, they do not lose a small set in a large one.

The threshold does not depend on the other set, so of a query Q exactly those keys with a hash below 2^-r can be looked up in
the sample of X: n of them, a simple random sample of Q. The number h of hits is hypergeometric with mean n |Q ∩ X| / |Q|.
With probability at least 1 - doubt, over the hash function, `lower <= |Q ∩ X| / |Q| <= upper`: Chernoff's bound in its
Kullback-Leibler form, which Hoeffding (1963, theorem 4) proves for samples without replacement. What was seen bounds
the share for certain as well: h keys are in X and n - h are not. Where the whole of Q is looked up the answer is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

KEPT = 256
LOWEST_RUNG = 3
QUERY_KEPT = 8192
QUERY_LOWEST_RUNG = 20
_PERSON = b"saibot-minhash-1"  # hashes are stored: another function needs another name and another index format


@dataclass(frozen=True)
class Containment:
    """The share of a query's keys that lie in another set: estimate, bounds, and how many keys it was estimated from."""

    value: float
    lower: float
    upper: float
    sample: int

    @classmethod
    def of(cls, hits: int, sample: int, lower: float, upper: float) -> Containment:
        """The share of hits as far as the bounds allow it; 0 where nothing could be looked up."""
        seen = hits / sample if sample else 0.0
        return cls(min(max(seen, lower), upper), lower, upper, sample)

    @property
    def exact(self) -> bool:
        return self.lower == self.upper


@dataclass(frozen=True, eq=False)
class KeySample:
    """The keys of a set with a hash below 2^-rung, as sorted hashes, and the size of the whole set."""

    size: int
    rung: int
    hashes: np.ndarray  # uint64

    @classmethod
    def of(cls, keys: Iterable[str], *, kept: int = KEPT, lowest: int = LOWEST_RUNG) -> KeySample:
        """At least about `kept` keys of a set that has them, and at least one in 2^lowest."""
        return cls.of_hashes(key_hashes(keys), kept=kept, lowest=lowest)

    @classmethod
    def of_hashes(cls, hashes: np.ndarray, *, kept: int = KEPT, lowest: int = LOWEST_RUNG) -> KeySample:
        rung = rung_of(len(hashes), kept=kept, lowest=lowest)
        return cls(len(hashes), rung, below(hashes, rung))

    @classmethod
    def query(cls, keys: Iterable[str]) -> KeySample:
        """As a question: more keys of it than an index keeps, because there is only one."""
        return cls.of(keys, kept=QUERY_KEPT, lowest=QUERY_LOWEST_RUNG)


def key_hashes(keys: Iterable[str]) -> np.ndarray:
    """The hashes of a set of keys, sorted, each once. The same on every machine."""
    packed = b"".join([blake2b(key.encode(), digest_size=8, person=_PERSON).digest() for key in keys])
    return np.unique(np.frombuffer(packed, "<u8").astype(np.uint64))


def rung_of(size: int, *, kept: int = KEPT, lowest: int = LOWEST_RUNG) -> int:
    """0 for sets of fewer than 2 kept keys, one more for each doubling, at most `lowest`."""
    return min(lowest, max(0, (size // kept).bit_length() - 1))


def below(hashes: np.ndarray, rung: int) -> np.ndarray:
    """Those of sorted hashes that lie below 2^-rung."""
    if rung == 0:
        return hashes
    return hashes[: int(np.searchsorted(hashes, np.uint64(1 << (64 - rung))))]


def containment(query: KeySample, other: KeySample, *, doubt: float) -> Containment:
    """The share of the query's keys that lie in the other set."""
    rung = max(query.rung, other.rung)
    asked = below(query.hashes, rung)
    hits = len(np.intersect1d(asked, other.hashes, assume_unique=True))
    lower, upper = bounds(np.array([hits]), np.array([len(asked)]), np.array([other.size]), query.size, doubt=doubt)
    return Containment.of(hits, len(asked), float(lower[0]), float(upper[0]))


def bounds(
    hits: np.ndarray, samples: np.ndarray, sizes: np.ndarray, query_size: int, *, doubt: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bound of the share, for many sets at once; each holds with probability at least 1 - doubt."""
    if not 0 < doubt < 1:
        raise ValueError(f"doubt is a probability between 0 and 1, not {doubt}")
    size = max(query_size, 1)
    lower, upper = _chernoff(hits, samples, math.log(2 / doubt))
    lower = np.maximum(lower, hits / size)
    upper = np.minimum(np.minimum(upper, (size - (samples - hits)) / size), sizes / size)
    return np.minimum(lower, upper), upper


def _chernoff(hits: np.ndarray, samples: np.ndarray, nats: float) -> tuple[np.ndarray, np.ndarray]:
    """All shares c with n KL(h/n || c) <= nats: in closed form where nothing was hit, else by bisection."""
    lower, upper = np.zeros(len(hits)), np.ones(len(hits))
    misses = (hits == 0) & (samples > 0)
    upper[misses] = -np.expm1(-nats / samples[misses])
    (some,) = np.nonzero(hits)
    pairs, place = np.unique(hits[some] + 1j * samples[some], return_inverse=True)
    n, seen = pairs.imag, pairs.real / pairs.imag
    for ends, far in ((lower, np.zeros_like(seen)), (upper, np.ones_like(seen))):
        near, outer = seen, far
        for _ in range(40):
            middle = (near + outer) / 2
            inside = n * _divergence(seen, middle) <= nats
            near, outer = np.where(inside, middle, near), np.where(inside, outer, middle)
        ends[some] = outer[place]
    return lower, upper


def _divergence(seen: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Kullback-Leibler divergence of two coins, 0 log 0 being 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = np.where(seen > 0, seen * np.log(seen / true), 0.0)
        tails = np.where(seen < 1, (1 - seen) * np.log((1 - seen) / (1 - true)), 0.0)
    total: np.ndarray = heads + tails
    return total
