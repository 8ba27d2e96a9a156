"""Bounds bought from the budget: two private quantiles by the exponential mechanism, on public candidates.

Every choice is of a cell between neighbouring candidates. Its score is by how many ranks it misses the wanted quantile (0 if
that lies in it), a whole number. Values beyond the outermost candidates count in the outermost cells. A choice costs its
epsilon times the share below; what all of them cost together is in `bounds_event`, and fixed before the first of them.

First both quantiles are placed on a coarse grid: a signed logarithmic one that fits every column, or 128 cells of the range
that the card gives. Where they lie apart, each is refined around its cell. Where they lie close together (a year, a time
stamp), both are refined in one window, which is zoomed into once more if they are still within a few cells. What even that
does not tell apart is one value that most rows have. The bounds are then put next to it, on the side with more of the other
rows: clipped to them, the column says which rows lie beyond that value.
Proof: ../privacy/mechanisms/preparation.proof.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

import ibis
import numpy as np

from saibot.errors import InvalidInput
from saibot.privacy.budget import Budget, plain
from saibot.privacy.events import ChoiceEvent, Event, PureEvent, Spent, bounded_range_mu
from saibot.privacy.mechanisms import Plan
from saibot.privacy.neighbours import Neighbours
from saibot.privatize.aggregate import Rows, kept_rows
from saibot.privatize.card import AUTO, BoughtBounds
from saibot.privatize.cells import feature_number
from saibot.privatize.noise import NoiseSource
from saibot.privatize.schema import Column, numeric_feature, twelve_digits
from saibot.sketch.header import Feature

_POSITIVE = tuple(2.0 ** (j / 4) for j in range(-40, 161))
COARSE: tuple[float, ...] = (*(-x for x in reversed(_POSITIVE)), 0.0, *_POSITIVE)
CELLS = 128  # of a window, and of a range that the card gives
AROUND = 2  # coarse cells on either side of the one chosen that it is refined in
CLOSE, STILL_CLOSE, ONE_VALUE = 1, 6, 3  # cells apart at most: on the coarse grid, in the first window, in the second

# Shares of the price that single choices cost. There are two ways through them: far apart, and close together.
PLACE, REFINE, REFINE_CLOSE, ZOOM, SIDE = 1 / 6, 1 / 3, 0.23, 0.18, 0.22
WAYS = (2 * (PLACE, REFINE), (*(2 * (PLACE, REFINE_CLOSE, ZOOM)), SIDE))

QUARTILES, WIDE = (0.25, 0.75), (0.05, 0.95)
LEAST_LEFT = Decimal("0.1")  # of the budget, for the release that the bounds are for
ENOUGH = 500  # rows times epsilon of a purchase, below which noise may place quartiles anywhere
_SAFE = 1 - 1e-9  # floats round; all choices together must not pass the price

Ranks = Callable[[Sequence[float]], tuple[np.ndarray, int]]
"""How many values lie below each candidate, and how many values there are."""


@dataclass(frozen=True)
class Bought:
    """A feature with private bounds, and what the provider is told about them."""

    feature: Feature
    told: str = ""


# ------------------------------------------------------------------------------------------------ the price


def prices(columns: list[Column], budget: Budget) -> dict[str, Decimal]:
    """What each feature's bounds are bought for: epsilon, a share of the budget's, rounded down."""
    bought = {column.name: facts.buy for column in columns if (facts := column.to_buy) is not None}
    return {
        name: budget.share(_usual_share(len(bought), budget) if buy == AUTO else buy).epsilon for name, buy in bought.items()
    }


def _usual_share(columns: int, budget: Budget) -> Decimal:
    """A tenth of epsilon each, which is 2 % of mu^2 at epsilon 1; of many columns less, a fifth of it all together."""
    most = 0.2 / columns if budget.pure else math.sqrt(0.1 / columns)
    return Decimal(math.floor(min(0.1, most) * 10_000)) / 10_000


def bounds_event(price: Decimal, budget: Budget) -> Event:
    """What the bounds of one feature cost the ledger: the dearer of the two ways through the choices."""
    if budget.pure:
        return PureEvent(price)
    ways = [math.fsum(bounded_range_mu(price * Decimal(share)) ** 2 for share in way) for way in WAYS]
    return ChoiceEvent(math.sqrt(max(ways)))


def price_in_words(price: Decimal, budget: Budget) -> str:
    """What the ledger is charged for the bounds of one feature."""
    event = bounds_event(price, budget)
    return f"μ={event.mu:.3g}" if isinstance(event, ChoiceEvent) else f"ε={plain(price)}"


def share_left(
    bought: dict[str, Decimal], whole: Plan, *, found: Decimal = Decimal(0), also: Sequence[Event] = ()
) -> Decimal:
    """What purchases leave of a plan that has the whole budget: a share of its mu^2 (or of epsilon), rounded down.

    `bought` are bounds, `found` is the share that keys are found with, `also` is what else is bought.
    """
    budget = whole.request.budget
    if whole.mu is None:
        left = 1 - found - (sum(bought.values(), Decimal(0)) + Spent.of(also).pure_epsilon) / budget.epsilon
    else:
        spent = Spent.of([*(bounds_event(price, budget) for price in bought.values()), *also]).mu_squared
        left = 1 - found - Decimal(spent * (1 + 1e-9) / whole.mu**2)
    if left < LEAST_LEFT:
        what = "buying bounds" if not found else "finding keys and buying bounds" if bought else "finding keys"
        raise InvalidInput(
            f"{what} would take the whole budget.", hint="Lower the shares, or declare public bounds and lists of keys."
        )
    return left.quantize(Decimal("1e-12"), rounding=ROUND_FLOOR)


def check_enough_rows(bought: dict[str, Decimal], rows: int, rows_per_individual: int) -> None:
    """Refuse a purchase that so few rows make worthless. `rows` is public, or the most that the card declares."""
    for name, price in bought.items():
        if rows * price < ENOUGH * rows_per_individual:
            least = Decimal(math.ceil(1000 * ENOUGH * rows_per_individual / rows)) / 1000
            raise InvalidInput(
                f"bounds of {name!r} are not worth buying for ε={plain(price)} from {rows:,} rows: noise would place them.",
                hint=f"It takes ε={plain(least)} or more for them: raise buy or --epsilon, or declare public bounds.",
            )


# ------------------------------------------------------------------------------------------------ the choices


def with_quantiles(columns: list[Column], quantiles: tuple[float, float]) -> list[Column]:
    """Columns whose purchase says which quantiles, by default these."""

    def settled(column: Column) -> Column:
        facts = column.to_buy
        if facts is None or facts.quantiles is not None:
            return column
        chosen = facts.model_copy(update={"quantiles": quantiles})
        return replace(column, facts=column.facts.model_copy(update={"bounds": chosen}))

    return [settled(column) for column in columns]


def buy_bounds(
    rows: Rows, column: Column, price: Decimal, budget: Budget, neighbours: Neighbours, noise: NoiseSource
) -> Bought:
    """A numeric feature with private bounds, for the price."""

    def counted(candidates: Sequence[float]) -> tuple[np.ndarray, int]:
        return ranks(rows, column, candidates)

    choices = Choices(counted, choice_unit(price, budget), neighbours, rows.rows_per_individual, noise)
    return feature_by_ranks(column, choices)


def choice_unit(price: Decimal, budget: Budget) -> float:
    """The epsilon that the shares are of. Under pure DP epsilons add up, so the longer way must not pass the price."""
    return float(price) * _SAFE / (max(map(sum, WAYS)) if budget.pure else 1)


@dataclass(frozen=True)
class Choices:
    """Private choices from the ranks of one column, whoever counts them. `unit` is the epsilon that shares are of."""

    counted: Ranks
    unit: float
    neighbours: Neighbours
    rows_per_individual: int
    noise: NoiseSource

    def cells(self, edges: np.ndarray, quantiles: Sequence[float], share: float) -> list[int]:
        """The cells between edges that quantiles lie in, one choice each, in ascending order."""
        below, total = self.counted(tuple(map(float, edges)))
        found = []
        for quantile in map(as_fraction, quantiles):
            sensitivity = rank_sensitivity(quantile, self.neighbours)
            found.append(self._choose(rank_scores(below, total, quantile), sensitivity, share))
        return sorted(found)

    def more_above(self, lower: float, upper: float, share: float) -> bool:
        """Whether more values lie at `upper` and beyond than below `lower`, by one choice."""
        (below, until), total = self.counted((lower, upper))
        return self._choose(side_scores(int(below), int(until), total), 1, share) == 1

    def _choose(self, scores: np.ndarray, sensitivity: int, share: float) -> int:
        return self.noise.choose(scores, sensitivity * self.rows_per_individual, self.unit * share)


def feature_by_ranks(column: Column, choices: Choices) -> Bought:
    """The whole purchase; see the top of this module."""
    facts = column.to_buy
    assert facts is not None
    lower, upper, one_value = _bounds(facts, choices)
    lower, upper = twelve_digits(lower), twelve_digits(upper)
    # The card could not know these bounds: its missing value moves to the nearest one instead of failing after payment.
    missing = None if column.facts.missing is None else min(max(column.facts.missing, lower), upper)
    feature = numeric_feature(column.name, column.facts.model_copy(update={"missing": missing}), lower, upper)
    said = (
        f"most values of {column.name!r} are one and the same, as far as can be told: its bounds lie next to it, "
        "so that it says which rows lie beyond. Declare public bounds if that is not what it should say."
    )
    return Bought(feature, said if one_value else "")


def _bounds(facts: BoughtBounds, choices: Choices) -> tuple[float, float, bool]:
    """Both bounds, and whether the quantiles were one value."""
    assert facts.quantiles is not None
    coarse = np.array(COARSE) if facts.range is None else np.linspace(*facts.range, CELLS + 1)
    low, high = choices.cells(coarse, facts.quantiles, PLACE)
    if high - low > CLOSE:
        below, above = _window(coarse, low, low, around=AROUND), _window(coarse, high, high, around=AROUND)
        (low,) = choices.cells(below, facts.quantiles[:1], REFINE)
        (high,) = choices.cells(above, facts.quantiles[1:], REFINE)
        # Noise may have crossed them over: the bounds are the outer ends of both cells.
        return float(min(below[low], above[high])), float(max(below[low + 1], above[high + 1])), False
    window = _window(coarse, low, high, around=1)
    low, high = choices.cells(window, facts.quantiles, REFINE_CLOSE)
    if high - low > STILL_CLOSE:
        return float(window[low]), float(window[high + 1]), False
    window = _window(window, low, high, around=STILL_CLOSE)
    low, high = choices.cells(window, facts.quantiles, ZOOM)
    lower, upper = float(window[low]), float(window[high + 1])
    if high - low > ONE_VALUE:
        return lower, upper, False
    step = upper - lower
    return (upper, upper + step, True) if choices.more_above(lower, upper, SIDE) else (lower - step, lower, True)


def _window(edges: np.ndarray, low: int, high: int, *, around: int) -> np.ndarray:
    """Evenly spaced edges from `around` cells below one cell to as many above another."""
    first, last = edges[max(low - around, 0)], edges[min(high + 1 + around, len(edges) - 1)]
    return np.linspace(first, last, CELLS + 1)


# ------------------------------------------------------------------------------------------------ ranks and scores


def ranks(rows: Rows, column: Column, candidates: Sequence[float]) -> tuple[np.ndarray, int]:
    """How many values lie below each candidate, and how many there are. Missing ones are no values."""
    table = kept_rows(rows)
    table = table.select(x=feature_number(table[column.column], log=column.facts.log))
    table = table.filter(table.x.notnull() & ~table.x.isnan())
    places = table.group_by(place=_place(table.x, candidates, 0, len(candidates))).aggregate(n=ibis._.count())
    found = rows.source.fetch(places).to_pydict()
    counts = np.zeros(len(candidates) + 1, dtype=np.int64)
    counts[found["place"]] = found["n"]
    return np.cumsum(counts)[:-1], int(counts.sum())


def _place(value: Any, candidates: Sequence[float], first: int, last: int) -> Any:
    """How many candidates a value reaches, `first` to `last` of them: by halving, with comparisons that engines agree on."""
    if first == last:
        return ibis.literal(first, "int64")
    middle = (first + last) // 2
    lower, upper = _place(value, candidates, first, middle), _place(value, candidates, middle + 1, last)
    return ibis.ifelse(value < ibis.literal(float(candidates[middle]), "float64"), lower, upper)


def as_fraction(quantile: float) -> Fraction:
    return Fraction(quantile).limit_denominator(1000)


def rank_scores(below: np.ndarray, total: int, quantile: Fraction) -> np.ndarray:
    """By how many ranks the wanted one misses each cell, times the quantile's denominator; outermost cells have no end."""
    wanted = quantile.numerator * total
    before, until = np.append(0, below[1:-1]), np.append(below[1:-1], total)
    missed = np.maximum(quantile.denominator * before - wanted, wanted - quantile.denominator * until)
    return np.asarray(np.maximum(missed, 0))


def side_scores(below: int, until: int, total: int) -> np.ndarray:
    """Of two sides, how many values are not on it: below the first candidate, and from the second one on."""
    return np.array([total - below, until])


def rank_sensitivity(quantile: Fraction, neighbours: Neighbours) -> int:
    """By how much one row can move any score: a replaced one passes a candidate, an added one also moves the wanted rank."""
    if neighbours is Neighbours.REPLACE_ONE:
        return quantile.denominator
    return max(quantile.numerator, quantile.denominator - quantile.numerator)
