"""What `tpm`, `sf1` and `sf2` share: every row sends one report, its key randomised and its monomials noisy.

Generalised randomised response keeps a row's key with probability p = e^e / (e^e + d - 1) and otherwise sends one of the
d - 1 others, each with probability q = 1 / (e^e + d - 1). A key's sum T_k over the reports that name it then has expectation
p t_k + q (sum of all - t_k), so t_k = (T_k - q sum_j T_j) / (p - q) is unbiased: for counts, sums and products alike. The
reported count of a key needs no noise of its own, because every row sends exactly one report.

Guarantee: a report is (e_key, 0)- and its values (e_values, delta)-indistinguishable for any two rows, so together they are
(e_key + e_values, delta)-locally private by basic composition; a table is a collection of independent reports, of which
replacing one row changes one. Debiasing and adding are post-processing. The number of rows is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from research.baselines.noise import EntryNoise, keyed_moment_matrices


@dataclass(frozen=True)
class RandomisedKey:
    """Generalised randomised response over d keys (Kairouz, Bonawitz and Ramage 2016)."""

    epsilon: float
    keys: int

    @property
    def kept(self) -> float:
        """p: the probability that a report names the row's own key."""
        return 1 / (1 + (self.keys - 1) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """q: that it names a given other one."""
        return math.exp(-self.epsilon) * self.kept

    def reported(self, place: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        elsewhere = (place + rng.integers(1, max(self.keys, 2), len(place))) % self.keys
        return np.where(rng.random(len(place)) < self.kept, place, elsewhere)

    def debiased(self, totals: np.ndarray) -> np.ndarray:
        """Sums over reports, by reported key on the first axis, to unbiased sums by true key."""
        if self.keys == 1:
            return totals
        found: np.ndarray = (totals - self.other * totals.sum(axis=0)) / (self.kept - self.other)
        return found


@dataclass(frozen=True)
class PerTuple:
    """The report of one row. `values` is the noise of its monomials; order 0 has none. `epsilon` is that of the whole."""

    mechanism: str
    epsilon: float
    values: EntryNoise
    key: RandomisedKey | None = None

    def release_whole(self, moments: np.ndarray, rows: np.ndarray | int, rng: np.random.Generator) -> np.ndarray:
        """Moment matrices (..., m+1, m+1) of tables of so many rows: as if every row had been noised, then added up."""
        return np.asarray(moments + self.values.drawn(rng, moments.shape[:-2], copies=rows))

    def release_keyed(self, rows: np.ndarray, place: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(n, m) rows with the places of their keys, to debiased moment matrices by key (d, m+1, m+1)."""
        assert self.key is not None
        reported = self.key.reported(place, rng)
        totals = keyed_moment_matrices(rows, reported, self.key.keys)
        counts = totals[:, 0, 0].copy()
        return self.key.debiased(totals + self.values.drawn(rng, (self.key.keys,), copies=counts))
