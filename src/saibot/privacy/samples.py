"""Whether rows look like rows that were seen before: bottom-k samples of keyed hashes, and how far two of them overlap.

The samples stay in the ledger. They change nothing that leaves this machine; they only let a provider be warned who is about
to give individuals a second cap under another name. What they cannot see is in docs/explanation/not-protected.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

VERSION = 1  # of the hashed form: samples of different versions are not compared
KEPT = 1024  # hashes of a sample
FEWEST = 16  # hashes that an overlap is judged by
ALIKE = 0.25  # share of either sample that the other has

Kind = Literal["row", "column", "individual"]


@dataclass(frozen=True, slots=True)
class Sample:
    """All hashes up to `reach` of what a table holds: its rows, one column's cells, or its individuals."""

    kind: Kind
    name: str
    hashes: np.ndarray  # sorted, different, of 60 bits
    reach: int
    version: int = VERSION

    @classmethod
    def of(cls, kind: Kind, name: str, hashes: Iterable[int], *, below: int) -> Sample:
        """From all hashes below a limit: the least `KEPT` of them."""
        found = np.unique(np.fromiter(hashes, np.int64))
        if len(found) <= KEPT:
            return cls(kind, name, found, below - 1)
        return cls(kind, name, found[:KEPT], int(found[KEPT - 1]))


@dataclass(frozen=True, slots=True)
class Known:
    """A sample and where it is from: an account, or a split that no account has used yet."""

    account: str | None
    split: str | None
    sample: Sample


def overlap(one: Sample, other: Sample) -> float:
    """The larger of the shares that each has of the other, 0 where too few hashes tell."""
    if one.version != other.version or (one.kind == "individual") != (other.kind == "individual"):
        return 0.0
    if (one.kind == "row") != (other.kind == "row"):
        return 0.0
    reach = min(one.reach, other.reach)
    mine, theirs = one.hashes[one.hashes <= reach], other.hashes[other.hashes <= reach]
    if min(len(mine), len(theirs)) < FEWEST:
        return 0.0
    return len(np.intersect1d(mine, theirs, assume_unique=True)) / min(len(mine), len(theirs))


def looks_known(samples: Iterable[Sample], known: Iterable[Known]) -> list[tuple[Known, Sample]]:
    """What the samples look like, with the sample that gives it away; once for each account or split."""
    mine = list(samples)
    found: dict[tuple[str | None, str | None], tuple[Known, Sample]] = {}
    for old in known:
        for sample in mine:
            if overlap(sample, old.sample) >= ALIKE:
                found.setdefault((old.account, old.split), (old, sample))
    return list(found.values())


def to_bytes(hashes: np.ndarray) -> bytes:
    return np.ascontiguousarray(hashes, dtype="<i8").tobytes()


def from_bytes(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype="<i8").astype(np.int64)
