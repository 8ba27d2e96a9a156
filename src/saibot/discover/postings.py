"""Which of very many samples hold a given hash: the index in memory.

One uint64 per posting: the upper 42 bits of a key's hash, then 22 bits for the number of the set that holds it, sorted. Two
different keys share 42 bits with probability 2^-42; what is returned to people is counted again exactly. Insertions are
sorted runs that merge when they have grown alike, so that a set costs O(log) times its size and a query looks into few runs.
"""

from __future__ import annotations

import numpy as np

from saibot.errors import InvalidInput

SLOT_BITS = 22
MAX_SETS = 1 << SLOT_BITS
MAX_READ = 2_000_000  # postings one query reads before it asks with fewer keys
_SLOTS = np.uint64(MAX_SETS - 1)
_BITS = np.uint64(SLOT_BITS)


class Postings:
    """Samples by number. `add`, `drop`, and `hits` of a query in each of them."""

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []
        self._added: list[np.ndarray] = []
        self._dropped: set[int] = set()
        self._dead = 0  # postings of dropped sets that are still in the runs

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + sum(map(len, self._added)) - self._dead

    def add(self, slot: int, hashes: np.ndarray) -> None:
        """Numbers are never used twice."""
        if not 0 <= slot < MAX_SETS:
            raise InvalidInput(f"a domain index holds at most {MAX_SETS:,} different sets of keys.")
        self._added.append((hashes & ~_SLOTS) | np.uint64(slot))

    def drop(self, slot: int, sample: int) -> None:
        """Forget a set with a sample of this size; its postings go when they have become many."""
        self._dropped.add(slot)
        self._dead += sample

    def hits(self, hashes: np.ndarray, slots: int) -> tuple[np.ndarray, int]:
        """For every set number below `slots`, how many of the sorted hashes it holds; and how many hashes were asked.

        A prefix of the hashes is asked where all of them would read too much: fewer keys, wider bounds, same law.
        """
        self._settle()
        asked = hashes & ~_SLOTS
        ranges = [(run, *_range(run, asked)) for run in self._runs]
        reads = np.zeros(len(asked), np.int64)
        for _, first, last in ranges:
            reads += last - first
        used = len(asked)
        while used > 1 and reads[:used].sum() > MAX_READ:
            used //= 2
        counts = np.zeros(slots, np.int64)
        for run, first, last in ranges:
            found = _gather(run, first[:used], last[:used])
            counts += np.bincount((found & _SLOTS).astype(np.int64), minlength=slots)[:slots]
        return counts, used

    def _settle(self) -> None:
        if self._added:
            self._runs.append(np.sort(np.concatenate(self._added)))
            self._added = []
        if self._dropped and 2 * self._dead > sum(map(len, self._runs)):
            kept = np.ones(MAX_SETS, bool)
            kept[list(self._dropped)] = False
            self._runs = [run[kept[(run & _SLOTS).astype(np.int64)]] for run in self._runs]
            self._dropped, self._dead = set(), 0
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            # Timsort sees two sorted runs and merges them in one pass.
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")


def _range(run: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the postings of each hash begin and end in a run."""
    first = np.searchsorted(run, asked)
    there = first < len(run)
    there[there] = (run[first[there]] ^ asked[there]) <= _SLOTS
    last = first.copy()
    last[there] = np.searchsorted(run, asked[there] | _SLOTS, side="right")
    return first, last


def _gather(run: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    lengths = last - first
    starts = np.repeat(first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) if lengths.any() else lengths[:0]
    found: np.ndarray = run[starts + np.arange(len(starts))]
    return found
