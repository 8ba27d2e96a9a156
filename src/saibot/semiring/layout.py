"""Where each monomial sits in a packed coefficient array.

The positions depend on nothing but the number of features m and the order k, so every table here is computed
once per (m, k) and cached. A monomial is written as the sorted tuple of its features' positions: with
features (x, y), `(0, 1)` is x*y and `(1, 1)` is y*y. Columns are graded by order; within one order they
follow `combinations_with_replacement`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, combinations_with_replacement
from math import comb
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from saibot.semiring.exact import Indices, sealed

Positions: TypeAlias = tuple[int, ...]

# Bounded because a table grows like m^k; a search meets a handful of shapes.
_CACHED = 64


def size(m: int, k: int) -> int:
    """How many monomials of order 0..k there are: C(m+k, k).

    The paper's (1 - m^k)/(1 - m) counts x*y and y*x apart, and stops short of order k.
    """
    return comb(m + k, k)


def order_slice(m: int, order: int) -> slice:
    """The columns of the monomials of exactly this order."""
    return slice(size(m, order - 1) if order else 0, size(m, order))


@lru_cache(_CACHED)
def monomials(m: int, k: int) -> tuple[Positions, ...]:
    """All monomials in column order."""
    return tuple(chain.from_iterable(combinations_with_replacement(range(m), i) for i in range(k + 1)))


@lru_cache(_CACHED)
def columns(m: int, k: int) -> MappingProxyType[Positions, int]:
    """The column of each monomial."""
    return MappingProxyType({positions: column for column, positions in enumerate(monomials(m, k))})


@lru_cache(_CACHED)
def parents(m: int, k: int) -> tuple[Indices, Indices]:
    """For each monomial of order >= 1: the column of the monomial less its last feature, and that feature."""
    column_of = columns(m, k)
    tail = monomials(m, k)[1:]
    return _array([column_of[p[:-1]] for p in tail]), _array([p[-1] for p in tail])


@lru_cache(_CACHED)
def squares(m: int, k: int) -> Indices:
    """The m x m matrix of the columns of order 2: entry (i, j) and entry (j, i) are the same column."""
    column_of = columns(m, k)
    table = [column_of[min(i, j), max(i, j)] for i in range(m) for j in range(m)]
    return sealed(_array(table).reshape(m, m))


@lru_cache(_CACHED)
def selection(m: int, k: int, chosen: Positions, order: int) -> Indices:
    """The columns that make up the basis of this order (<= k) over the chosen features, in that order."""
    column_of = columns(m, k)
    wanted = monomials(len(chosen), order)
    return _array([column_of[tuple(sorted(chosen[i] for i in positions))] for positions in wanted])


@lru_cache(_CACHED)
def split(left: int, right: int, k: int) -> tuple[Indices, Indices]:
    """For each monomial over left + right features: the columns of its left part and of its right part.

    A product of disjoint features is, column by column, the product of these two: a sum over pairs
    factorises.
    """
    of_left, of_right = columns(left, k), columns(right, k)
    joined = monomials(left + right, k)
    return (
        _array([of_left[tuple(i for i in positions if i < left)] for positions in joined]),
        _array([of_right[tuple(i - left for i in positions if i >= left)] for positions in joined]),
    )


def _array(indices: list[int]) -> Indices:
    return sealed(np.array(indices, dtype=np.intp))
