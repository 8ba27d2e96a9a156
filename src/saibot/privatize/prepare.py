"""Rows to whole numbers: clip to public bounds, scale, quantise to the grid, clip the norm. Row by row, inside the engine.

What privacy rests on is the last step of each column, a clamp of integers, and the norm clip, checked in integers. Whatever
the floats before did, no row leaves here longer than the bound. Only comparisons, + - * /, floor and sqrt are used, so that
every engine gives the same bits; rounding is floor(x + 1/2), which has no bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import ibis
import ibis.expr.types as ir

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


def scaled_value(cell: ir.Column, feature: Feature, *, is_text: bool) -> ir.FloatingValue:
    """A cell in scaled units, in [-1, 1] up to the rounding of floats; missing and NaN take the public value."""
    if feature.kind == "indicator":
        hit = (cell.cast("string") == feature.level).fill_null(False)
        return ibis.ifelse(hit, _float(1.0), _float(0.0))
    number = cell.try_cast("float64") if is_text else cell.cast("float64")
    assert feature.missing is not None
    filled = ibis.ifelse(number.isnull() | number.isnan(), _float(feature.missing), number)
    clipped = ibis.least(ibis.greatest(filled, _float(feature.lower)), _float(feature.upper))
    return (clipped - _float(feature.offset)) * _float(1.0 / feature.scale)


def component_value(table: ibis.Table, columns: list[Column], component: Feature) -> ir.FloatingValue:
    """A weighted sum of scaled features, in its own scaled units."""
    assert component.weights is not None
    total: ir.FloatingValue = _float(0.0)
    for column in columns:
        assert column.feature is not None
        value = scaled_value(table[column.column], column.feature, is_text=table[column.column].type().is_string())
        total = total + value * _float(component.weights[column.name])
    clipped = ibis.least(ibis.greatest(total, _float(component.lower)), _float(component.upper))
    return (clipped - _float(component.offset)) * _float(1.0 / component.scale)


def on_grid(value: ir.FloatingValue, grid: Grid) -> ir.IntegerColumn:
    """Round to the grid, then clamp in integers: the clamp is what bounds the column."""
    steps = (value * _float(float(grid.one)) + _float(0.5)).floor().cast("int64")
    return ibis.least(ibis.greatest(steps, _integer(-grid.one)), _integer(grid.one))


def clip_norm(table: ibis.Table, names: list[str], grid: Grid, *, box_norm_squared: int) -> ibis.Table:
    """Shrink rows longer than the bound, towards zero; add the new squared norm, which the caller checks in integers."""
    if box_norm_squared <= grid.norm_squared:
        return table  # no row of the box can be longer
    norm = _sum_of_squares(table, names)
    measured = table.mutate(**{NORM_CHECK: norm})
    too_long = measured[NORM_CHECK] > _integer(grid.norm_squared)
    factor = ibis.ifelse(
        too_long, (_float(float(grid.norm_squared)) / measured[NORM_CHECK].cast("float64")).sqrt(), _float(1.0)
    )
    shrunk = measured.mutate(shrink=factor)
    towards_zero = {}
    for name in names:
        size = (shrunk[name].abs().cast("float64") * shrunk["shrink"]).floor().cast("int64")
        towards_zero[name] = ibis.ifelse(shrunk[name] < _integer(0), _integer(0) - size, size)
    kept = [column for column in table.columns if column not in names]
    clipped = shrunk.select(*(shrunk[c] for c in kept), **towards_zero)
    return clipped.mutate(**{NORM_CHECK: _sum_of_squares(clipped, names)})


def _sum_of_squares(table: ibis.Table, names: list[str]) -> ir.IntegerColumn:
    first, *rest = names
    total = table[first] * table[first]
    for name in rest:
        total = total + table[name] * table[name]
    return total


def _float(value: float) -> ir.FloatingScalar:
    return ibis.literal(value, "float64")


def _integer(value: int) -> ir.IntegerScalar:
    return ibis.literal(value, "int64")
