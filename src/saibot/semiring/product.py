"""The product of the semi-ring on whole arrays of elements.

For disjoint features the paper's tensor convolution collapses: a monomial of the joined features is one
monomial of the left times one monomial of the right, so each column of the result is one column of the left
times one column of the right. Order 2 spelled out: c = ca cb; s = [cb sa, ca sb]; Q = [cb Qa, sa sb^T; ., ca
Qb].
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from saibot.semiring import layout
from saibot.semiring.errors import BasisMismatch
from saibot.semiring.exact import INT64_MAX, Values, narrowed, peak
from saibot.semiring.monomial import Basis

# Numbers of the result computed at a time: both gathered operands stay in the processor's cache.
_BLOCK = 1 << 16


def distinct(left: Iterable[str], right: Iterable[str]) -> dict[str, str]:
    """New names for those on the right that the left has too: x becomes x.2, or the next number that is free.

    Only colliding names change, and only on the right, so a name once on the left keeps its meaning along a
    chain of products: ((a x b) x c) gives x, x.2, x.3. The values are associative whatever the names; the
    names are not: in
    (a x (b x c)) it is b's x that becomes x.3. Rename first where that matters.

    >>> distinct(("x", "y"), ("x", "x.2", "z"))
    {'x': 'x.3'}
    """
    kept, renamed = tuple(left), tuple(right)
    taken = {*kept, *renamed}
    mapping: dict[str, str] = {}
    for name in renamed:
        if name in kept:
            number = 2
            while f"{name}.{number}" in taken:
                number += 1
            mapping[name] = f"{name}.{number}"
            taken.add(mapping[name])
    return mapping


def product_basis(left: Basis, right: Basis) -> Basis:
    """The basis of a product: the features of the left, then those of the right."""
    if left.order != right.order:
        raise BasisMismatch(
            f"A product needs one order on both sides, not {left.order} and {right.order}."
            " Dropping the higher orders is `project(features, order)`."
        )
    if shared := sorted({*left.features} & {*right.features}):
        raise BasisMismatch(f"A product needs disjoint features; both sides have {', '.join(shared)}.")
    return Basis(left.features + right.features, left.order)


def multiply(left: Basis, left_values: Values, right: Basis, right_values: Values) -> Values:
    """Multiply (..., left.size) by (..., right.size) elements; the leading dimensions broadcast.

    The columns of the result are those of `product_basis(left, right)`.
    """
    size = product_basis(left, right).size
    of_left, of_right = layout.split(len(left.features), len(right.features), left.order)
    leading = np.broadcast_shapes(left_values.shape[:-1], right_values.shape[:-1])
    dtype = np.result_type(left_values, right_values)
    if dtype == np.int64 and _may_overflow(left, left_values, right, right_values):
        exact = multiply(left, left_values.astype(object), right, right_values)
        return narrowed(exact, what="product")
    if not leading:
        single: Values = left_values.take(of_left) * right_values.take(of_right)
        return single
    a = np.broadcast_to(left_values, leading + left_values.shape[-1:])
    b = np.broadcast_to(right_values, leading + right_values.shape[-1:])
    result = np.empty((*leading, size), dtype=dtype)
    step = max(1, _BLOCK // max(1, size * prod(leading[1:])))
    for start in range(0, leading[0], step):
        block = slice(start, start + step)
        np.multiply(a[block].take(of_left, axis=-1), b[block].take(of_right, axis=-1), out=result[block])
    return result


def _may_overflow(left: Basis, a: Values, right: Basis, b: Values) -> bool:
    of_left, of_right = layout.split(len(left.features), len(right.features), left.order)
    a_peaks = peak(a.reshape(-1, a.shape[-1]), axis=0)
    b_peaks = peak(b.reshape(-1, b.shape[-1]), axis=0)
    if (a_peaks[of_left] * b_peaks[of_right]).max() <= INT64_MAX:
        return False
    # The peaks of two columns may belong to different keys: look at the products themselves, rounded.
    magnitudes = multiply(left, np.abs(a.astype(np.float64)), right, np.abs(b.astype(np.float64)))
    return bool(magnitudes.max(initial=0.0) >= 2.0**62)
