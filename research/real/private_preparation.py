"""Preparation that is itself private: one bounded feature of a table, with everything about it public or paid for.

Two ways to come by the bounds of columns, before the second moments of a few of them are bought and give direction, centre
and spread of the component (`saibot.privatize.component`), a fifth of mu^2:

* `public`: ranges that a data dictionary states, or anyone would guess. None came with the tables, so a column's range to
  one digit of its width (300..700, 60..100, 0..5) stands in for what its owner would write down without looking.
* `bought`: nothing is known. A fifth of epsilon buys private quantiles, 5 % and 95 %, of every column used, by the steps of
  `saibot.privatize.bounds`.

Which columns, and how many, is decided by public facts alone: names that speak of a result come first (means, scores,
percentages, rates), and the number of rows says how many second moments can be told from noise.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import numpy as np

from research.baselines import EntryNoise
from research.baselines.noise import moment_matrices
from research.plans import plan_for
from saibot.privacy import Budget
from saibot.privatize.bounds import COARSE, rank_scores
from saibot.privatize.component import leading_direction

Preparation = Literal["paper", "public", "bought"]
BOUNDS_SHARE, MOMENTS_SHARE = Decimal("0.2"), Decimal("0.2")  # of epsilon, and of mu^2 of the rest
ROWS_PER_COLUMN, MOST_COLUMNS = 1500, 4
QUANTILES = (Fraction(1, 20), Fraction(19, 20))
FINE = 128
_RESULTS = re.compile(r"(?i)mean|average|avg|score|percent|%|pct|rate|proficien|grad|index|per ")


@dataclass(frozen=True)
class Price:
    """What is left for the release, and which share of its mu^2."""

    budget: Budget
    share: Decimal


def price(preparation: Preparation, budget: Budget) -> Price:
    if preparation == "paper":
        return Price(budget, Decimal(1))
    left = budget if preparation == "public" else Budget(budget.epsilon * (1 - BOUNDS_SHARE), budget.delta)
    return Price(left, 1 - MOMENTS_SHARE)


def preferred_columns(names: tuple[str, ...]) -> list[int]:
    """Places of the columns that a component may be made of, the best first: public, because names are."""
    return sorted(range(len(names)), key=lambda place: (_RESULTS.search(names[place]) is None, place))[:MOST_COLUMNS]


def prepared_component(
    values: np.ndarray, preparation: Preparation, budget: Budget, *, width: float, rng: np.random.Generator
) -> np.ndarray:
    """One feature (n,) in [-1, 1] of preferred columns (n, m), its bounds `width` standard deviations from its centre."""
    used = min(max(int(len(values) * float(budget.epsilon) / ROWS_PER_COLUMN), 1), values.shape[1])
    scaled = _bounded(values[:, :used], preparation, budget, rng)
    mean, squares = _bought_moments(scaled, preparation, budget, rng)
    weights, lower, upper = leading_direction(mean, squares, spread=width)
    return _between(scaled @ weights, lower, upper)


def prepared_request(
    raw: np.ndarray,
    preparation: Preparation,
    budget: Budget,
    *,
    widths: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """One own feature and the target, each in [-1, 1], so many standard deviations to either side of its centre."""
    scaled = _bounded(raw, preparation, budget, rng)
    mean, squares = _bought_moments(scaled, preparation, budget, rng)
    found = []
    for place, (column, square) in enumerate(zip(scaled.T, (squares[0], squares[2]), strict=True)):
        one = np.array([mean[place]]), np.array([square])
        _, lower, upper = leading_direction(*one, spread=widths[place])
        found.append(_between(column, lower, upper))
    return found[0], found[1]


def _bounded(values: np.ndarray, preparation: Preparation, budget: Budget, rng: np.random.Generator) -> np.ndarray:
    if preparation == "public":
        limits = [documented_range(column) for column in values.T]
    else:
        each = float(budget.epsilon * BOUNDS_SHARE) / values.shape[1]
        limits = [bought_range(column, each, rng) for column in values.T]
    low, high = np.array(limits).T
    # A missing value takes a fixed public one: the middle of the bounds.
    return _between(np.where(np.isnan(values), (low + high) / 2, values), low, high)


def _between(values: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    half = np.maximum((np.asarray(high) - low) / 2, 1e-300)
    return np.asarray(np.clip((values - (np.asarray(low) + high) / 2) / half, -1.0, 1.0))


def _bought_moments(
    scaled: np.ndarray, preparation: Preparation, budget: Budget, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Private means and packed second moments of columns in [-1, 1]."""
    n, m = scaled.shape
    left = price(preparation, budget).budget
    plan = plan_for(
        "joint", "union", features=m, bound_squared=Decimal(m), budget=left, share=MOMENTS_SHARE, allocation="auto"
    )
    noisy = moment_matrices(scaled) + EntryNoise.of_plan(plan, "global").drawn(rng, ())
    return noisy[0, 1:] / n, noisy[1:, 1:][np.triu_indices(m)] / n


def documented_range(column: np.ndarray) -> tuple[float, float]:
    """The range of a column to one digit of its width: 300..700, 60..100, 0..5."""
    present = column[~np.isnan(column)]
    low, high = float(present.min(initial=np.inf)), float(present.max(initial=-np.inf))
    if not high > low:
        return (low - 1, low + 1) if math.isfinite(low) else (-1.0, 1.0)
    step = 10.0 ** math.floor(math.log10(high - low))
    return math.floor(low / step) * step, math.ceil(high / step) * step


def bought_range(column: np.ndarray, epsilon: float, rng: np.random.Generator) -> tuple[float, float]:
    """Private quantiles: a magnitude for half of epsilon, then each bound for a quarter."""
    present = np.sort(column[~np.isnan(column)])
    low_at, high_at = QUANTILES

    def pick(sorted_values: np.ndarray, candidates: np.ndarray, quantile: Fraction, share: float, *, doubling: bool) -> int:
        below = np.searchsorted(sorted_values, candidates, side="left")
        scores = rank_scores(below, len(sorted_values), quantile).astype(float)
        sensitivity = quantile.denominator
        if doubling:
            scores = scores + np.arange(len(scores)) * math.ceil(2 * sensitivity / (epsilon * share))
        # Permute and flip is the maximum of scores with exponential noise.
        return int(np.argmin(scores - rng.exponential(2 * sensitivity / (epsilon * share), len(scores))))

    place = pick(np.sort(np.abs(present)), np.array(COARSE), max(high_at, 1 - low_at), 0.5, doubling=True)
    largest = COARSE[min(place + 1, len(COARSE) - 1)]
    fine = np.linspace(-largest, largest, FINE + 1)
    ends = [min(pick(present, fine, at, 0.25, doubling=False), FINE - 1) for at in (low_at, high_at)]
    return float(fine[min(ends)]), float(fine[max(ends) + 1])
