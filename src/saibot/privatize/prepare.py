"""Rows to whole numbers: clip to public bounds, scale, quantise to the grid, clip the norm. Row by row, inside the engine.

What privacy rests on: no column leaves its box (monotone arithmetic between checked end points) and no row leaves here
longer than the bound (checked in integers). Only comparisons, + - * /, floor and sqrt are used, so that every engine gives
the same bits; rounding is floor(x + 1/2), which has no bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import ibis
import ibis.expr.types as ir

from saibot.errors import InvalidCard
from saibot.privatize.schema import Column
from saibot.sketch.header import Feature

NORM_CHECK = "norm_squared"


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


def grid_steps(number: ir.FloatingColumn, feature: Feature, grid: Grid) -> ir.IntegerColumn:
    """A float column as steps of the grid: clipped to its bounds, missing and NaN at the public value, rounded.

    Subtracting, multiplying by a positive constant, adding and floor are monotone in IEEE arithmetic, so all cells within
    the bounds land between the images of the bounds, and those are checked here, once, before any row is read.
    """
    one = float(grid.one)
    lower, upper, offset, factor = (_short(x) for x in (feature.lower, feature.upper, feature.offset, one / feature.scale))
    for limit in (lower, upper):
        if abs(math.floor((limit - offset) * factor + 0.5)) > grid.one:
            raise InvalidCard(
                f"the bounds of feature {feature.name!r} are too close together for their size.",
                hint="Shift the column so that its bounds lie nearer to 0.",
            )
    missing = math.floor((feature.missing - offset) * factor + 0.5) if feature.missing is not None else 0
    missing = min(max(missing, -grid.one), grid.one)  # not one of the checked end points: it may have lost other digits
    value = ibis.cases(
        ((number >= _float(lower)) & (number <= _float(upper)), (number - _float(offset)) * _float(factor)),
        (number < _float(lower), _float(-one)),
        (number.isnull() | number.isnan(), _float(missing)),
        else_=_float(one),
    )
    return (value + _float(0.5)).floor().cast("int64")


def indicator_steps(cell: ir.Column, feature: Feature, grid: Grid) -> ir.IntegerColumn:
    """2^bits steps where the cell is the feature's level, 0 elsewhere, also where it is missing."""
    hit = (cell.cast("string") == feature.level).fill_null(False)
    return ibis.ifelse(hit, _integer(grid.one), _integer(0))


def as_float(cell: ir.Column) -> ir.FloatingColumn:
    """A cell as a float; text that is no number counts as missing (the card allowed it, or the column had been refused)."""
    return cell.try_cast("float64") if cell.type().is_string() else cell.cast("float64")


def component_value(table: ibis.Table, columns: list[Column], component: Feature) -> ir.FloatingValue:
    """The weighted sum of scaled features that a component is, not yet clipped."""
    assert component.weights is not None
    total: ir.FloatingValue = _float(0.0)
    for column in columns:
        feature = column.feature
        assert feature is not None and feature.missing is not None
        number = as_float(table[column.column])
        filled = ibis.ifelse(number.isnull() | number.isnan(), _float(feature.missing), number)
        clipped = ibis.least(ibis.greatest(filled, _float(feature.lower)), _float(feature.upper))
        scaled = (clipped - _float(feature.offset)) * _float(1.0 / feature.scale)
        total = total + scaled * _float(component.weights[column.name])
    return total


def clip_norm(table: ibis.Table, names: list[str], grid: Grid, *, box_norm_squared: int) -> ibis.Table:
    """Shrink rows longer than the bound; add the new squared norm, which the caller checks in integers.

    A long row is scaled to length K - sqrt(m)/2 and rounded to the nearest step, which adds at most sqrt(m)/2 to it.
    """
    if box_norm_squared <= grid.norm_squared:
        return table  # no row of the box can be longer
    measured = table.mutate(**{NORM_CHECK: _sum_of_squares(table, names)})
    reach = math.sqrt(grid.norm_squared) - math.sqrt(len(names)) / 2 - 1e-6
    if reach <= 0:
        raise InvalidCard("the norm bound is smaller than a step of the grid.", hint="Raise --bound.")
    too_long = measured[NORM_CHECK] > _float(float(grid.norm_squared))
    shrink = ibis.ifelse(too_long, _float(reach) / measured[NORM_CHECK].sqrt(), _float(1.0))
    factored = measured.mutate(shrink=shrink)
    kept = [column for column in table.columns if column not in names]
    clipped = {
        name: (factored[name].cast("float64") * factored["shrink"] + _float(0.5)).floor().cast("int64") for name in names
    }
    short = factored.select(*(factored[c] for c in kept), **clipped)
    # In integers, whose squares the engine needs for the order-2 sums anyway.
    squares = [short[name] * short[name] for name in names]
    return short.mutate(**{NORM_CHECK: sum(squares[1:], start=squares[0])})


def _sum_of_squares(table: ibis.Table, names: list[str]) -> ir.FloatingColumn:
    """Whole numbers far below 2^53 in floats: exact, and without the overflow checks that engines put into integers."""
    first, *rest = (table[name].cast("float64") for name in names)
    total = first * first
    for cell in rest:
        total = total + cell * cell
    return total


def _float(value: float) -> ir.FloatingScalar:
    """A constant of at most 15 digits: engines may read it as a decimal, which they turn into the same float only then."""
    return ibis.literal(_short(value), "float64")


def _short(value: float) -> float:
    return float(f"{value:.15g}")


def _integer(value: int) -> ir.IntegerScalar:
    return ibis.literal(value, "int64")
