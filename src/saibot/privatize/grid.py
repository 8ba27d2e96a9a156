"""Rows to whole numbers: clip to public bounds, scale, clip the norm, round to the grid. Row by row, inside the engine.

What privacy rests on: no column leaves its box (monotone arithmetic between checked end points) and no row leaves here
longer than the bound (the aggregation checks that in integers). Only comparisons, + - * /, floor and sqrt are used, so that
every engine gives the same bits; rounding, once per cell, is floor(x + 1/2), which has no bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import reduce
from operator import add

import ibis
import ibis.expr.types as ir

from saibot.errors import InvalidCard
from saibot.privatize.cells import is_level
from saibot.privatize.schema import Column
from saibot.sketch.header import Feature

_LENGTH = "length_of_row"  # of a table whose columns are all ours: f0, f1, ..., k0, k1, ...
_OFF_THE_BOX = 1e-4  # how far the images of bounds may miss the sides of the box, of its size: bounds have 15 digits here


@dataclass(frozen=True)
class Grid:
    """Scaled value 1 is 2^bits steps; rows keep to sum of squares <= `norm_squared` steps squared."""

    bits: int
    bound_squared: Decimal

    @property
    def one(self) -> int:
        return 1 << self.bits

    @property
    def norm_squared(self) -> int:
        return int(self.bound_squared * (1 << (2 * self.bits)))  # rounds down


def check_bounds(feature: Feature, grid: Grid) -> None:
    """Both bounds land on the sides of the box, never beyond; so does everything between them. Needs no row."""
    lower, upper, offset, factor = _constants(feature, grid)
    for limit, side in ((lower, -grid.one), (upper, grid.one)):
        image = (limit - offset) * factor
        if abs(image - side) > _OFF_THE_BOX * grid.one or abs(math.floor(image + 0.5)) > grid.one:
            raise InvalidCard(
                f"the bounds of feature {feature.name!r} are too close together for their size.",
                hint="Shift the column so that its bounds lie nearer to 0.",
            )


def grid_values(number: ir.FloatingColumn, feature: Feature, grid: Grid) -> ir.FloatingColumn:
    """A float column in steps of the grid, not yet rounded: clipped to its bounds, missing and NaN at the public value.

    Subtracting, multiplying by a positive constant, adding and floor are monotone in IEEE arithmetic, so all cells within
    the bounds land between the images of the bounds, and those are checked once, before any row is read.
    """
    check_bounds(feature, grid)
    lower, upper, offset, factor = _constants(feature, grid)
    missing = math.floor((feature.missing - offset) * factor + 0.5) if feature.missing is not None else 0
    missing = min(max(missing, -grid.one), grid.one)  # not one of the checked end points: it may have lost other digits
    return ibis.cases(
        # First of all: DuckDB may find from a Parquet file's statistics, in which no NaN counts, that all cells lie between.
        (number.isnull() | number.isnan(), _float(missing)),
        (number.between(_float(lower), _float(upper)), (number - _float(offset)) * _float(factor)),
        (number < _float(lower), _float(-grid.one)),
        else_=_float(grid.one),
    )


def indicator_values(cell: ir.Column, feature: Feature, levels: Sequence[str], grid: Grid) -> ir.FloatingColumn:
    """2^bits steps where the cell is the feature's level, 0 elsewhere, also where it is missing."""
    assert feature.level is not None
    hit = is_level(cell, feature.level, levels)
    return hit.cast("float64") * _float(grid.one)  # two constants might be decimals to an engine, and so their squares


def component_value(
    table: ibis.Table, numbers: Mapping[str, str], columns: list[Column], component: Feature
) -> ir.FloatingValue:
    """The weighted sum of scaled features that a component is, not yet clipped; `numbers` says where each feature's are."""
    assert component.weights is not None
    total: ir.FloatingValue = _float(0.0)
    for column in columns:
        feature = column.feature
        assert feature is not None and feature.missing is not None
        number = table[numbers[column.name]]
        filled = ibis.ifelse(number.isnull() | number.isnan(), _float(feature.missing), number)
        clipped = ibis.least(ibis.greatest(filled, _float(feature.lower)), _float(feature.upper))
        scaled = (clipped - _float(feature.offset)) * _float(1.0 / feature.scale)
        total = total + scaled * _float(component.weights[column.name])
    return total


def to_steps(table: ibis.Table, names: list[str], grid: Grid, *, card_features: int) -> ibis.Table:
    """Whole numbers of steps, in no row longer than the bound. Proof: integer_release.proof.md, lemma I2.

    Rounding moves one column of each card feature (the other levels of a category are 0) by at most half a step. So a row
    that is shorter than the bound by sqrt(card features)/2 is rounded as it is, and a longer one is shrunk to that first.
    """
    if box_fits(grid, card_features):
        return table.mutate(**{name: _rounded(table[name]) for name in names})
    reach = clip_length(grid, columns=len(names), card_features=card_features)
    squares = [table[name] * table[name] for name in names]
    measured = table.mutate(**{_LENGTH: reduce(add, squares)})
    # At least reach^2, so that a row is never made longer: sqrt rounds to nearest, and reach is a float.
    limit = _short_above(Fraction(reach) ** 2)
    shrink = ibis.ifelse(measured[_LENGTH] > _float(limit), _float(reach) / measured[_LENGTH].sqrt(), _float(1.0))
    shrunk = measured.mutate(**{_LENGTH: shrink})
    kept = [column for column in table.columns if column not in names]
    return shrunk.select(*kept, **{name: _rounded(shrunk[name] * shrunk[_LENGTH]) for name in names})


def box_fits(grid: Grid, card_features: int) -> bool:
    """Whether no row of the box can be longer than the bound."""
    return card_features * grid.one**2 <= grid.norm_squared


def clip_length(grid: Grid, *, columns: int, card_features: int) -> float:
    """How long a row may be that is about to be rounded, in steps; refused where rounding alone fills the ball."""
    bound = math.sqrt(grid.norm_squared)
    lost_in_floats = 1e-6 + bound * (columns + 8) * 2.0**-50
    reach = _short(bound - math.sqrt(card_features) / 2 - lost_in_floats)
    if reach <= 0:
        raise InvalidCard("the norm bound is smaller than a step of the grid.", hint="Raise --bound.")
    return reach


def norm_squared(table: ibis.Table, names: list[str]) -> ir.IntegerColumn:
    """The squared length of every row, in integers; the engine needs most of it for the order-2 sums anyway."""
    return reduce(add, [table[name] * table[name] for name in names])


def _rounded(value: ir.FloatingColumn) -> ir.IntegerColumn:
    return (value + _float(0.5)).floor().cast("int64")


def _constants(feature: Feature, grid: Grid) -> tuple[float, float, float, float]:
    """Lower and upper bound, offset and steps per unit, as the engine reads them."""
    lower, upper, offset, factor = map(_short, (feature.lower, feature.upper, feature.offset, grid.one / feature.scale))
    return lower, upper, offset, factor


def _float(value: float) -> ir.FloatingScalar:
    """A constant of at most 15 digits: engines may read it as a decimal, which they turn into the same float only then."""
    return ibis.literal(_short(value), "float64")


def _short(value: float) -> float:
    return float(f"{value:.15g}")


def _short_above(value: Fraction) -> float:
    """A float of 15 digits that is not below the value, nor by more than a digit above it."""
    digits = Context(prec=15, rounding=ROUND_CEILING)
    short = digits.divide(Decimal(value.numerator), Decimal(value.denominator))
    while Fraction(float(short)) < value:  # the nearest float may be the one below
        short = digits.next_plus(short)
    return float(short)
