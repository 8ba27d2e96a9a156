"""Bounds bought from the budget: private quantiles by the exponential mechanism, on public candidates.

First among signed powers of two, then among evenly spaced points between the two that were found: four choices, each with a
quarter of the share. A candidate's score is how far its rank is from the wanted one, in whole numbers: one row moves every
score by at most the denominator of the quantile. OpenDP picks (permute and flip), and its own map states what that costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import ibis
import numpy as np

from saibot.privacy.budget import Budget
from saibot.privatize.aggregate import Rows, kept_rows
from saibot.privatize.noise import NoiseSource
from saibot.privatize.prepare import as_float
from saibot.privatize.schema import Column, numeric_feature, twelve_digits
from saibot.sketch.header import Feature

_CHOICES = 4
_FINE = 128
COARSE: tuple[float, ...] = tuple(sorted({0.0, *(sign * 2.0**j for j in range(-16, 41) for sign in (-1, 1))}))


def buy_bounds(rows: Rows, column: Column, epsilon: Decimal, noise: NoiseSource) -> Feature:
    """A numeric feature with private bounds; costs `epsilon`, pure."""
    facts = column.to_buy
    assert facts is not None
    each = float(epsilon) / _CHOICES * (1 - 1e-9)  # floats round; the four together must not pass the whole
    low_at, high_at = (Fraction(q).limit_denominator(1000) for q in facts.quantiles)

    def pick(below: np.ndarray, total: int, quantile: Fraction) -> int:
        return noise.choose(rank_scores(below, total, quantile), quantile.denominator * rows.rows_per_individual, each)

    below, total = ranks(rows, column, COARSE)
    low, high = pick(below, total, low_at), pick(below, total, high_at)
    if high <= low:
        low, high = max(low - 1, 0), min(low + 1, len(COARSE) - 1)
    # A rank is known at candidates only: widen by one, so that the quantile itself lies inside.
    fine = np.linspace(COARSE[max(low - 1, 0)], COARSE[min(high + 1, len(COARSE) - 1)], _FINE + 1)
    below, total = ranks(rows, column, tuple(fine))
    first, last = pick(below, total, low_at), pick(below, total, high_at)
    if last <= first:
        first, last = max(first - 1, 0), min(first + 1, _FINE)
    lower, upper = twelve_digits(fine[first]), twelve_digits(fine[last])
    # The card could not know these bounds: its missing value moves to the nearest one instead of failing after payment.
    missing = None if column.facts.missing is None else min(max(column.facts.missing, lower), upper)
    return numeric_feature(column.name, column.facts.model_copy(update={"missing": missing}), lower, upper)


def bought_shares(columns: list[Column], budget: Budget) -> dict[str, Decimal]:
    """What each feature's bounds cost: shares of epsilon, rounded down."""
    return {column.name: budget.share(facts.buy).epsilon for column in columns if (facts := column.to_buy) is not None}


def ranks(rows: Rows, column: Column, candidates: Sequence[float]) -> tuple[np.ndarray, int]:
    """How many values lie below each candidate, and how many there are; a missing value lies below none and is counted."""
    table = kept_rows(rows)
    value = as_float(table[column.column])
    present = value.notnull() & ~value.isnan()
    number = ibis.ifelse(present, value, ibis.literal(np.inf, "float64"))
    table = table.select(x=number)
    counts = {
        f"c{i}": (table.x < ibis.literal(float(c), "float64")).sum().fill_null(0).cast("int64")
        for i, c in enumerate(candidates)
    }
    fetched = rows.source.fetch(table.aggregate(n=table.count(), **counts))
    below = np.array([fetched.column(f"c{i}")[0].as_py() for i in range(len(candidates))], dtype=np.int64)
    return below, int(fetched.column("n")[0].as_py())


def rank_scores(below: np.ndarray, total: int, quantile: Fraction) -> np.ndarray:
    """Distance of every candidate's rank from the wanted one, times the quantile's denominator: whole numbers."""
    distance: np.ndarray = np.absolute(quantile.denominator * below - quantile.numerator * total)
    return distance
