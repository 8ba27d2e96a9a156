"""The scores of candidates at one step: what they are ordered by, and the first of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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
        )


@dataclass(frozen=True)
class WantedBest:
    """What a step wants: its first `most` candidates, by usable or by potential gain, for known or for new keys."""

    most: int
    quantile: float  # errors that a gain is lowered by before candidates are ordered
    potential: bool = False
    new_keys: bool = False


@dataclass(frozen=True)
class Shortlist:
    """The first candidates of a step, best first, without the requester's own; and why others were left aside."""

    numbers: np.ndarray
    board: Board  # of these alone, in this order, ranked as was asked
    aside: Callable[[], tuple[Dropped, ...]]  # worked out when it is asked for: few steps do
