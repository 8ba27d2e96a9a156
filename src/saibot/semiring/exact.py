"""Arithmetic on coefficient arrays: integers stay exact, and arrays stay as they are.

Three kinds of numbers are kept apart: float64, int64 and object (Python integers or fractions). Narrower
types widen to the first two. numpy wraps int64 around in silence, so every integer sum and product here is
either exact or an `IntegerOverflow`: cheap bounds clear nearly all of them, and only what they cannot clear
is redone with Python integers.
"""

from __future__ import annotations

from numbers import Number
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from saibot.semiring.errors import IntegerOverflow, SemiringError

Values: TypeAlias = npt.NDArray[Any]
Indices: TypeAlias = npt.NDArray[np.intp]
# A coefficient: an int or a float, or whatever exact number an object array holds.
Scalar: TypeAlias = Any

INT64_MAX = 2**63 - 1


def as_values(data: npt.ArrayLike, *, what: str) -> Values:
    """The data as float64, int64 or object numbers, without a copy where none is needed."""
    array = np.asarray(data)
    match array.dtype.kind:
        case "b" | "i":
            return array.astype(np.int64, copy=False)
        case "u":
            return array.astype(np.int64 if peak(array) <= INT64_MAX else object)
        case "f":
            return array.astype(np.float64, copy=False)
        case "O" if all(isinstance(value, Number) for value in array.flat):
            return array
    raise SemiringError(f"The {what} must be numbers, not {array.dtype}.")


def sealed(array: Values) -> Values:
    """Make a *fresh* array, one that nobody else holds, read-only."""
    array.flags.writeable = False
    return array


def frozen(array: Values) -> Values:
    """A read-only array that nobody can write to: a copy, unless the memory is read-only all the way down.

    Read-only memory (a memory-mapped file, the result of another operation) is therefore shared, not copied.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return sealed(array.copy())
        owner = owner.base
    return array


def peak(values: Values, axis: int | None = None) -> Any:
    """The largest magnitude, overall (a Python integer) or along an axis (an object array of them)."""
    if axis is None:
        return max(-int(values.min()), int(values.max())) if values.size else 0
    highest = values.max(axis=axis, initial=0).astype(object)
    lowest = values.min(axis=axis, initial=0).astype(object)
    return np.maximum(highest, -lowest)


def narrowed(exact: Values, *, what: str) -> Values:
    """Python integers back to int64, or an error where one does not fit."""
    try:
        return exact.astype(np.int64)
    except OverflowError:
        raise IntegerOverflow(what) from None


def add(left: Values, right: Values) -> Values:
    """Elementwise sum."""
    result: Values = left + right
    # A sum wrapped around iff its sign differs from the signs of both summands.
    if result.dtype == np.int64 and bool((((left ^ result) & (right ^ result)) < 0).any()):
        raise IntegerOverflow("sum")
    return result


def converted(values: Values, dtype: npt.DTypeLike) -> Values:
    """The same numbers in another type; an error where integers cannot hold them."""
    with np.errstate(invalid="ignore"):  # NaN has no integer, and is caught below
        result = narrowed(values, what="value") if np.dtype(dtype).kind in "iu" else values.astype(dtype)
    result = as_values(result, what="values")
    if result.dtype == np.int64 and not np.array_equal(result, values):
        raise SemiringError("Only whole numbers within 64 bits convert to integers.")
    return result


def _sum_may_overflow(values: Values) -> bool:
    if values.dtype != np.int64 or peak(values) * len(values) <= INT64_MAX:
        return False
    # Half of the range absorbs the rounding of the sum of magnitudes.
    return bool(np.abs(values.astype(np.float64)).sum(axis=0).max(initial=0.0) >= 2.0**62)


def sum_rows(values: Values) -> Values:
    """The sum of all rows of a 2-d array."""
    if _sum_may_overflow(values):
        return narrowed(values.astype(object).sum(axis=0), what="sum")
    result: Values = values.sum(axis=0)
    return result


def sum_groups(values: Values, groups: Indices, count: int) -> Values:
    """The sums of the rows of each group 0..count-1. No group may be empty: `reduceat` cannot say that."""
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(count))
    gathered = values[order]
    if _sum_may_overflow(values):
        return narrowed(np.add.reduceat(gathered.astype(object), starts, axis=0), what="sum")
    return np.add.reduceat(gathered, starts, axis=0)
