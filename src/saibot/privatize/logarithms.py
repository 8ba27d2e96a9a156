"""Logarithms by a public rule that every engine computes alike, to the last bit: comparisons, a division and a sum.

The rule is that of log2 at whole powers of two and straight lines between them, at most 0.09 off: 2^k + part of the way to
2^(k+1) becomes k + that part. Numbers beyond 2^-20 and 2^41 count as those. What is not above 0 has no logarithm, and counts
as missing. A cell's logarithm depends on that cell alone.
"""

from __future__ import annotations

import math

import ibis
import ibis.expr.types as ir

LEAST, MOST = -20, 41  # powers of two in this range have few enough digits for every engine to read them alike


def log2_of(number: float) -> float:
    """The rule for one public number above 0, such as a bound."""
    if number <= 2.0**LEAST:
        return float(LEAST)
    if number >= 2.0**MOST:
        return float(MOST)
    power = math.frexp(number)[1] - 1
    return (number / 2.0**power - 1.0) + power


def log2_in(number: ir.FloatingColumn) -> ir.FloatingColumn:
    """The rule for a column of numbers; missing where there is no number above 0."""
    inside = ibis.cases(
        (number <= _float(2.0**LEAST), _float(float(LEAST))),
        (number >= _float(2.0**MOST), _float(float(MOST))),
        else_=_between(number, LEAST, MOST),
    )
    known = number.notnull() & ~number.isnan() & (number > _float(0.0))
    return ibis.ifelse(known, inside, ibis.null("float64"))


def _between(number: ir.FloatingColumn, low: int, high: int) -> ir.FloatingValue:
    """By halving: a number between two powers of two."""
    if high - low == 1:
        return (number / _float(2.0**low) - _float(1.0)) + _float(float(low))
    middle = (low + high) // 2
    return ibis.ifelse(number < _float(2.0**middle), _between(number, low, middle), _between(number, middle, high))


def _float(value: float) -> ir.FloatingScalar:
    return ibis.literal(value, "float64")
