"""The model that is trained together: linear in its columns, plus a hidden layer where one is asked for.

    score(x) = c0 + SUM_i d_i x_i + SUM_j c_j s(b_j + SUM_i W_ji x_i),   s(a) = a / (1 + |a|)

Without a hidden layer this is least squares (family gaussian) or logistic regression (family binomial). Every operation is
one of + - * / or the size of a number, entry by entry, on whole columns: what comes out for a row depends on
that row and the weights alone, to the last bit, wherever in the table it stands. A matrix product would not promise that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Family = Literal["gaussian", "binomial"]
_HALVINGS = 10  # of the argument of the exponential function, before its series is taken
_FARTHEST = 30.0  # a score beyond this says yes or no for sure


@dataclass(frozen=True)
class Network:
    """The shape of the model: how many columns go in, how many hidden units it has, and what its score means."""

    columns: int
    hidden: int
    family: Family

    @property
    def size(self) -> int:
        """The number of weights."""
        return 1 + self.columns + self.hidden * (2 + self.columns)

    def first_weights(self, seed: int) -> np.ndarray:
        """Where training starts, from a public seed: hidden units look in different directions and say nothing yet."""
        weights = np.zeros(self.size)
        inner = np.random.default_rng(seed).normal(size=self.hidden * (1 + self.columns))
        weights[1 + self.columns + self.hidden :] = inner
        return weights

    def mean(self, columns: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        """The expected target of every row: in scaled units (gaussian), or a probability (binomial)."""
        return self._link(self._forward(columns, weights)[0])

    def derived(self, columns: list[np.ndarray], target: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
        """The columns of the least squares problem that the next step of the weights solves.

        For every weight how the score moves with it, then what is left of the target. In logistic regression both are in
        units of the largest spread that a yes or no can have, 1/2. The curvature is then at least the true one (Böhning
        1992): no step is too long, and no row is longer for being a surprise, which clipping would turn into a bias.
        """
        score, hidden, slopes = self._forward(columns, weights)
        outer = weights[1 + self.columns : 1 + self.columns + self.hidden]
        found = [np.ones(len(target)), *columns, *hidden]
        for unit in range(self.hidden):
            back = outer[unit] * slopes[unit]
            found += [back, *(back * column for column in columns)]
        left = target - self._link(score)
        if self.family == "gaussian":
            return [*found, left]
        return [*(0.5 * column for column in found), 2.0 * left]

    def _forward(
        self, columns: list[np.ndarray], weights: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """Every row's score, its hidden units, and how fast each of those moves with what goes into it."""
        m, h = self.columns, self.hidden
        score = np.full(len(columns[0]), float(weights[0]))
        for column, weight in zip(columns, weights[1 : 1 + m], strict=True):
            score = score + weight * column
        units, slopes = [], []
        for number in range(h):
            inner = weights[1 + m + h + number * (1 + m) :][: 1 + m]
            reach = np.full(len(columns[0]), float(inner[0]))
            for column, weight in zip(columns, inner[1:], strict=True):
                reach = reach + weight * column
            wide = 1.0 + np.abs(reach)
            units.append(reach / wide)
            slopes.append(1.0 / (wide * wide))
            score = score + weights[1 + m + number] * units[-1]
        return score, units, slopes

    def _link(self, score: np.ndarray) -> np.ndarray:
        return score if self.family == "gaussian" else 1.0 / (1.0 + _exponential(-score))


def _exponential(x: np.ndarray) -> np.ndarray:
    """exp(x), x kept within ±30: its series at x/2^10, squared ten times. Libraries may round it otherwise elsewhere."""
    x = np.minimum(np.maximum(x, -_FARTHEST), _FARTHEST) / 2.0**_HALVINGS
    value = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0))))
    for _ in range(_HALVINGS):
        value = value * value
    return value
