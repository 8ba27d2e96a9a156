"""What kind of number a target is: any number, a yes or no, or a count. And the regression that goes with it.

A family has its canonical link: the model's linear part is the mean itself, its log odds, or its logarithm. Then the slope
of the mean is its variance, V(mu), and the score of a column z is SUM z (y - mu), whatever the family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from saibot.errors import InvalidInput, InvalidTable

FAR = 30.0  # the linear part is kept within it: beyond, a probability or a count is no number any more
ROUNDS = 50
STEADY = 1e-8  # of a column's own squares: keeps a column that says nothing from having any slope
LEAST = 1e-12  # a mean of 0 or 1 would make any other outcome impossible


@dataclass(frozen=True)
class Family:
    """How a mean follows from a linear part, how much its rows vary, and how bad a predicted mean is."""

    name: str
    measure: str  # what share of the loss is explained: R² of any number, deviance explained of the others
    mean: Callable[[np.ndarray], np.ndarray]  # of the linear part
    start: Callable[[float], float]  # the linear part of an overall mean
    weight: Callable[[np.ndarray], np.ndarray]  # V(mu)
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray]  # of each row: squared error, or deviance

    def check(self, target: np.ndarray) -> None:
        """Refuse a target that is not of this kind, without quoting it."""
        if self.name == "binomial" and not np.isin(target, (0.0, 1.0)).all():
            raise InvalidTable("a yes-or-no target holds 0 and 1 only.", hint="Or leave --family out: any number will do.")
        if self.name == "poisson" and not ((target >= 0) & (target == np.floor(target))).all():
            raise InvalidTable("a target of counts holds 0, 1, 2, ... only.", hint="Or leave --family out.")


def _probability(eta: np.ndarray) -> np.ndarray:
    answer: np.ndarray = 1 / (1 + np.exp(-np.clip(eta, -FAR, FAR)))
    return answer


def _surprise(y: np.ndarray, mu: np.ndarray) -> np.ndarray:
    sure = np.clip(mu, LEAST, 1 - LEAST)
    answer: np.ndarray = -2 * (y * np.log(sure) + (1 - y) * np.log1p(-sure))
    return answer


def _miscount(y: np.ndarray, mu: np.ndarray) -> np.ndarray:
    expected = np.maximum(mu, LEAST)
    ratio = np.log(np.maximum(y, LEAST) / expected)
    answer: np.ndarray = 2 * (np.where(y > 0, y * ratio, 0.0) - (y - expected))
    return answer


GAUSSIAN = Family("gaussian", "R²", lambda eta: eta, float, np.ones_like, lambda y, mu: (y - mu) ** 2)
BINOMIAL = Family(
    "binomial",
    "deviance explained",
    _probability,
    lambda mean: float(np.log(max(mean, LEAST) / max(1 - mean, LEAST))),
    lambda mu: np.maximum(mu * (1 - mu), LEAST),
    _surprise,
)
POISSON = Family(
    "poisson",
    "deviance explained",
    lambda eta: np.exp(np.clip(eta, -FAR, FAR)),
    lambda mean: float(np.log(max(mean, LEAST))),
    lambda mu: np.maximum(mu, LEAST),
    _miscount,
)
FAMILIES = {family.name: family for family in (GAUSSIAN, BINOMIAL, POISSON)}


def family_named(name: str) -> Family:
    if name not in FAMILIES:
        raise InvalidInput(f"there is no family {name!r}.", hint=f"There are {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def fit_family(X: np.ndarray, y: np.ndarray, family: Family) -> np.ndarray:
    """Intercept and slopes by iteratively reweighted least squares, which for any number is least squares itself."""
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 1e-12 * (1 + np.abs(centre)), spread, 1.0)
    columns = np.column_stack([np.ones(len(y)), (X - centre) / spread])
    theta = np.zeros(columns.shape[1])
    theta[0] = family.start(float(y.mean()))
    loss = float(family.loss(y, family.mean(columns @ theta)).sum())
    for _ in range(1 if family is GAUSSIAN else ROUNDS):
        mu = family.mean(columns @ theta)
        weight = family.weight(mu)
        matrix = columns.T @ (columns * weight[:, None])
        matrix[np.diag_indices_from(matrix)] += STEADY * max(float(matrix[0, 0]), LEAST)
        step = np.linalg.solve(matrix, columns.T @ (y - mu))
        size, before = 1.0, loss
        while (loss := float(family.loss(y, family.mean(columns @ (theta + size * step))).sum())) > before and size > 1e-3:
            size /= 2  # a step too far: a count's mean grows without limit
        theta = theta + size * step
        if abs(before - loss) <= 1e-10 * max(abs(before), LEAST):
            break
    slopes = theta[1:] / spread
    return np.append(theta[0] - slopes @ centre, slopes)
