"""The scores of candidates at one step: what they are ordered by, and the first of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import fdtri, stdtrit

from saibot.search.scored_sweep import best, order_by
from saibot.wire import Dropped


@dataclass(frozen=True)
class Board:
    """The scores of candidates, which are numbered in order.

    Arrays, or columns in a GPU's memory (`saibot.search.gpu.DeviceColumn`) that are indexed and read like arrays.
    """

    gain: Any
    lower: Any
    deviation: Any
    coefficient: Any
    keys: np.ndarray  # with rows, in the candidate's domain
    features: np.ndarray | None = None  # of each candidate; None: one
    wald: np.ndarray | None = None  # of several features: their joint test statistic
    rank: tuple[np.ndarray, np.ndarray] | None = None  # another gain, and its lower bound, to order by
    device_rank: Any = None  # on a GPU, what `order` orders by there
    ordered_by: np.ndarray | None = None  # the same of gain and lower bound, where the sweep has it
    providers: np.ndarray | None = None  # the number of each candidate's provider; None: nobody's

    def of_new_keys(self) -> Board:
        """The same, ordered by what candidates would gain on keys that training never saw.

        Slopes are fitted to these very keys, which flatters a gain by the variance of its root, once for the fit here and
        once for the miss elsewhere: g - 2 var (mathematics.md, "Known and new keys"). What is sure is so in proportion.
        """
        gain, lower = self.rank or (np.asarray(self.gain), np.asarray(self.lower))
        usable = np.maximum(np.asarray(self.gain), 1e-300)
        share = 1 - self.flattery(np.arange(len(gain))) / usable
        return replace(self, rank=(gain * share, lower * np.maximum(share, 0.0)))

    def flattery(self, numbers: np.ndarray) -> np.ndarray:
        """By how much the gains of these candidates are larger here than on new keys."""
        count = 1 if self.features is None else self.features[numbers]
        answer: np.ndarray = 2 * count * np.asarray(self.deviation[numbers]) ** 2
        return answer

    def order(self, most: int | None = None) -> np.ndarray:
        """Best first: by lower bound, and by gain among those whose bound is 0. Only the first `most` are sorted out."""
        if self.device_rank is not None and self.rank is None and most is not None:
            return np.asarray(self.device_rank.best(most))
        key = self.sort_key()
        return best(key, len(key) if most is None else most)

    def sort_key(self) -> np.ndarray:
        """What candidates are ordered by: the largest comes first."""
        if self.ordered_by is not None and self.rank is None:
            return self.ordered_by
        return order_by(*(self.rank or (np.asarray(self.gain), np.asarray(self.lower))))

    def clear(self, numbers: np.ndarray, levels: Mapping[int, float]) -> np.ndarray:
        """Which of these candidates gain more than luck gives, each held to the level of its provider.

        Student's law, or Fisher's for several features at once: the error is estimated from the keys themselves, of which
        there may be few.
        """
        whose = np.zeros(len(numbers), np.int64) if self.providers is None else self.providers[numbers]
        table = np.zeros(max(levels, default=0) + 1)
        table[list(levels)] = list(levels.values())
        level = np.where(whose < len(table), table[np.minimum(whose, len(table) - 1)], 0.0)
        count = np.ones(len(numbers)) if self.features is None else np.asarray(self.features[numbers], np.float64)
        free = np.maximum(np.asarray(self.keys[numbers], np.float64) - 1 - count, 1.0)
        gain, error = (np.asarray(column[numbers], np.float64) for column in (self.gain, self.deviation))
        alone = np.sqrt(gain) > stdtrit(free, 1 - level / 2) * error
        if self.wald is None:
            return np.asarray(alone & (level > 0))
        together = np.asarray(self.wald[numbers]) / count > fdtri(count, free, 1 - level)
        return np.asarray(np.where(count > 1, together, alone) & (level > 0))

    def listed(self, wanted: WantedBest, without: np.ndarray) -> np.ndarray:
        """The numbers that a step wants, best first: the first `most`, the first that are clear of their noise wherever they
        stand, and where one provider has more than half of the first, the first of the others."""
        order = self.order(wanted.most + len(without))
        first = order[np.isin(order, without, invert=True)][: wanted.most]
        lists = [first, self.first_clear(wanted.levels, wanted.most, without=without)]
        if self.providers is not None and len(first):
            whose, counts = np.unique(self.providers[first], return_counts=True)
            crowd = int(whose[counts.argmax()])
            if crowd and 2 * counts.max() > len(first):
                others = self.providers != crowd
                others[without] = False
                left = np.flatnonzero(others)
                lists.append(left[best(self._keys_of(left), wanted.most)])
        numbers = np.unique(np.concatenate(lists)).astype(np.intp)
        return np.asarray(numbers[np.argsort(-self._keys_of(numbers), kind="stable")])

    def first_clear(self, levels: Mapping[int, float], most: int, *, without: np.ndarray) -> np.ndarray:
        """The numbers of the first candidates, best first, that are clear of their noise."""
        if not levels or not len(self.keys):
            return np.zeros(0, np.intp)
        gain, error = np.asarray(self.gain), np.asarray(self.deviation)
        could = np.ones(len(gain), bool)
        if self.features is None:  # at the easiest level, with the most keys: few are left to be looked at one by one
            easiest = float(stdtrit(max(float(np.max(self.keys)) - 2, 1.0), 1 - max(levels.values()) / 2))
            could = gain > (easiest * error) ** 2
        could[without] = False
        left = np.flatnonzero(could)
        key = self._keys_of(left)
        order = left[best(key, 8 * most)]  # nearly always these will do
        found = order[self.clear(order, levels)]
        if len(found) < most and len(order) < len(left):
            order = left[best(key, len(left))]
            found = order[self.clear(order, levels)]
        return np.asarray(found[:most])

    def _keys_of(self, numbers: np.ndarray) -> np.ndarray:
        """What these candidates are ordered by, in a GPU's memory too."""
        on_device = self.device_rank is not None and self.rank is None
        return np.asarray(self.device_rank[numbers] if on_device else self.sort_key()[numbers])

    def only(self, numbers: np.ndarray) -> Board:
        """The scores of these candidates alone, in this order."""

        def of(column: Any) -> Any:
            return None if column is None else np.asarray(column[numbers])

        return Board(
            gain=of(self.gain),
            lower=of(self.lower),
            deviation=of(self.deviation),
            coefficient=of(self.coefficient),
            keys=of(self.keys),
            features=of(self.features),
            wald=of(self.wald),
            rank=None if self.rank is None else (of(self.rank[0]), of(self.rank[1])),
            ordered_by=of(self.ordered_by),
            providers=of(self.providers),
        )


@dataclass(frozen=True)
class WantedBest:
    """What a step wants: its first `most` candidates, by usable or by potential gain, for known or for new keys."""

    most: int
    quantile: float  # errors that a gain is lowered by before candidates are ordered
    potential: bool = False
    new_keys: bool = False
    levels: Mapping[int, float] = field(default_factory=dict)  # that candidates of each provider are held to


@dataclass(frozen=True)
class Shortlist:
    """The first candidates of a step, best first, without the requester's own; and why others were left aside."""

    numbers: np.ndarray
    board: Board  # of these alone, in this order, ranked as was asked
    aside: Callable[[], tuple[Dropped, ...]]  # worked out when it is asked for: few steps do
