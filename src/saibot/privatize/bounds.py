"""Bounds bought from the budget: private quantiles by the exponential mechanism, on public candidates.

Three choices. With half of the share, a magnitude: the power of two that most absolute values lie below. With a quarter
each, the two bounds, among evenly spaced points up to that magnitude on either side. Each choice is of an interval between
neighbouring candidates. Its score is by how many ranks it misses the wanted quantile (0 if that lies in it), a whole number:
one row moves every score by at most the denominator of the quantile. (Were a candidate itself scored, by its own rank, the
best score would be far from 0 wherever many values lie between two candidates, and needless ones would come near it.) All
intervals beyond the largest value score alike, so each doubling costs a fixed, public number of ranks on top: enough to make
them unlikely, and no secret. OpenDP picks (permute and flip), and its own map states what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import ibis
import numpy as np

from saibot.privacy.budget import Budget
from saibot.privatize.aggregate import Rows, kept_rows
from saibot.privatize.cells import number_in
from saibot.privatize.noise import NoiseSource
from saibot.privatize.schema import Column, numeric_feature, twelve_digits
from saibot.sketch.header import Feature

_FINE = 128
COARSE: tuple[float, ...] = tuple(2.0**j for j in range(-16, 41))


Ranks = Callable[[Sequence[float], bool], tuple[np.ndarray, int]]
"""How many values (where told so: absolute values) lie below each candidate, and how many values there are."""


def buy_bounds(rows: Rows, column: Column, epsilon: Decimal, noise: NoiseSource) -> Feature:
    """A numeric feature with private bounds; costs `epsilon`, pure."""

    def counted(candidates: Sequence[float], magnitude: bool) -> tuple[np.ndarray, int]:
        return ranks(rows, column, candidates, magnitude=magnitude)

    return feature_by_ranks(column, counted, epsilon, noise, rows_per_individual=rows.rows_per_individual)


def feature_by_ranks(
    column: Column, counted: Ranks, epsilon: Decimal, noise: NoiseSource, *, rows_per_individual: int
) -> Feature:
    """The three choices, whoever counts the rows."""
    facts = column.to_buy
    assert facts is not None
    low_at, high_at = (Fraction(q).limit_denominator(1000) for q in facts.quantiles)
    whole = float(epsilon) * (1 - 1e-9)  # floats round; the three together must not pass the whole

    def pick(below: np.ndarray, total: int, quantile: Fraction, price: float, *, doubling: bool = False) -> int:
        sensitivity = quantile.denominator * rows_per_individual
        scores = rank_scores(below, total, quantile)
        if doubling:  # one nat of the mechanism's preference for every doubling
            scores = scores + np.arange(len(below)) * math.ceil(2 * sensitivity / price)
        return noise.choose(scores, sensitivity, price)

    below, total = counted(COARSE, True)
    largest = COARSE[min(pick(below, total, max(high_at, 1 - low_at), whole / 2, doubling=True) + 1, len(COARSE) - 1)]
    fine = np.linspace(-largest, largest, _FINE + 1)
    below, total = counted(tuple(fine), False)
    first, last = pick(below, total, low_at, whole / 4), pick(below, total, high_at, whole / 4)
    first, last = min(first, _FINE - 1), min(last, _FINE - 1)  # beyond the last point there is no interval
    # The outer ends of the two intervals; where noise has put them in the wrong order, of both together.
    lower, upper = twelve_digits(fine[min(first, last)]), twelve_digits(fine[max(first, last) + 1])
    # The card could not know these bounds: its missing value moves to the nearest one instead of failing after payment.
    missing = None if column.facts.missing is None else min(max(column.facts.missing, lower), upper)
    return numeric_feature(column.name, column.facts.model_copy(update={"missing": missing}), lower, upper)


def bought_shares(columns: list[Column], budget: Budget) -> dict[str, Decimal]:
    """What each feature's bounds cost: shares of epsilon, rounded down."""
    return {column.name: budget.share(facts.buy).epsilon for column in columns if (facts := column.to_buy) is not None}


def ranks(rows: Rows, column: Column, candidates: Sequence[float], *, magnitude: bool = False) -> tuple[np.ndarray, int]:
    """How many values (or absolute values) lie below each candidate, and how many there are. Missing ones are no values."""
    table = kept_rows(rows)
    value = number_in(table[column.column])
    present = value.notnull() & ~value.isnan()
    number = ibis.ifelse(present, value.abs() if magnitude else value, ibis.literal(np.inf, "float64"))
    table = table.select(x=number, present=present)
    counts = {
        f"c{i}": (table.x < ibis.literal(float(c), "float64")).sum().fill_null(0).cast("int64")
        for i, c in enumerate(candidates)
    }
    fetched = rows.source.fetch(table.aggregate(n=table.present.sum().fill_null(0).cast("int64"), **counts))
    below = np.array([fetched.column(f"c{i}")[0].as_py() for i in range(len(candidates))], dtype=np.int64)
    return below, int(fetched.column("n")[0].as_py())


def rank_scores(below: np.ndarray, total: int, quantile: Fraction) -> np.ndarray:
    """By how many ranks the wanted one lies outside of [candidate, next candidate), times the quantile's denominator."""
    wanted = quantile.numerator * total
    before_next = np.append(below[1:], total)
    missed: np.ndarray = np.maximum(quantile.denominator * below - wanted, wanted - quantile.denominator * before_next)
    missed = np.maximum(missed, 0)
    return missed
