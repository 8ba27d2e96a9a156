"""Keyed relations: one element of the semi-ring for every key, as one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from saibot.semiring.element import ROWS_PER_BLOCK, Element, aligned
from saibot.semiring.errors import BasisMismatch, KeyPartError, SemiringError
from saibot.semiring.exact import (
    Indices,
    Values,
    add,
    as_values,
    converted,
    frozen,
    sealed,
    sum_groups,
    sum_rows,
)
from saibot.semiring.keys import Key, KeyColumn, as_key, check_parts, encode, group, pairs, same, stacked
from saibot.semiring.monomial import Basis, as_rows, check_features, lift
from saibot.semiring.product import distinct, multiply, product_basis


@dataclass(frozen=True, eq=False, repr=False)
class KeyedRelation:
    """An annotated relation: row i of `values` is the element of the key (keys[0][i], keys[1][i], ...).

    `+` is union, `*` natural join on the parts that both sides have, `gamma` sums keys away. A key that is
    not listed has the zero element, and equality follows that: it compares the element of every key, whatever
    the order of keys, parts and features. Arrays are read-only.
    """

    basis: Basis
    parts: tuple[str, ...]
    keys: Key
    values: Values

    def __post_init__(self) -> None:
        values = as_values(self.values, what="values of a relation")
        if values.ndim != 2 or values.shape[1] != self.basis.size:
            raise SemiringError(f"Values must have the shape (keys, {self.basis.size}), not {values.shape}.")
        parts = check_parts(self.parts)
        keys = as_key(parts, self.keys, length=len(values))
        first, _ = group(parts, keys, len(values))
        if len(first) != len(values):
            raise KeyPartError(f"Keys must be unique, but {len(values) - len(first)} of {len(values)} repeat others.")
        _fill(self, self.basis, parts, keys, frozen(values))

    @classmethod
    def of_rows(
        cls, features: Sequence[str], order: int, keys: Mapping[str, npt.ArrayLike], rows: npt.ArrayLike
    ) -> KeyedRelation:
        """Group an (n, m) array by its key columns and sum all monomials.

        Keys come out sorted, and integers stay integers.
        """
        basis = Basis(check_features(features), order)
        table = as_rows(basis, rows)
        parts = check_parts(keys)
        columns = as_key(parts, tuple(keys.values()), length=len(table))
        first, groups = group(parts, columns, len(table))
        sums = np.zeros((len(first), basis.size), dtype=table.dtype)
        for start in range(0, len(table), ROWS_PER_BLOCK):
            block = slice(start, start + ROWS_PER_BLOCK)
            present, local = np.unique(groups[block], return_inverse=True)
            sums[present] = add(sums[present], sum_groups(lift(basis, table[block]), local, len(present)))
        return _trusted(basis, parts, _rows(columns, first), sums)

    # Reading

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        # No values: a relation of raw rows must not end up in a log.
        parts, features = ", ".join(self.parts), ", ".join(self.basis.features)
        return f"KeyedRelation({len(self)} keys of ({parts}), order {self.basis.order} over ({features}))"

    @property
    def counts(self) -> Values:
        """c of each key, (d,)."""
        return self.values[:, 0]

    @property
    def sums(self) -> Values:
        """s of each key, (d, m)."""
        return self.values[:, self.basis.slice(1)]

    @property
    def products(self) -> Values:
        """Q of each key, (d, m, m) and symmetric."""
        return self.values[:, self.basis.squares]

    def at(self, *key: object) -> Element:
        """The element of one key; the zero element where it is not listed."""
        probe = as_key(self.parts, [np.array([value]) for value in key], length=1)
        (own, wanted), _ = encode(self.parts, [self.keys, probe], [len(self), 1])
        found = np.flatnonzero(own == wanted)
        return Element(self.basis, self.values[found[0]]) if len(found) else Element.zero(self.basis)

    # The algebra

    @overload
    def gamma(self) -> Element: ...
    @overload
    def gamma(self, keep: Sequence[str]) -> KeyedRelation: ...
    def gamma(self, keep: Sequence[str] = ()) -> Element | KeyedRelation:
        """Sum keys away: to an Element, or to a relation on the parts to keep, as listed and sorted by key.

        An empty `keep` is the same as none: an Element.
        """
        kept = (keep,) if isinstance(keep, str) else tuple(keep)
        if not kept:
            return Element(self.basis, sealed(sum_rows(self.values)))
        columns = tuple(self._column(part) for part in check_parts(kept))
        first, groups = group(kept, columns, len(self))
        return _trusted(self.basis, kept, _rows(columns, first), sum_groups(self.values, groups, len(first)))

    def __add__(self, other: KeyedRelation) -> KeyedRelation:
        """Union: elements of the same key add, keys of one side only stay. Left keys come first."""
        if not isinstance(other, KeyedRelation):
            return NotImplemented
        keys, values = self._aligned(other)
        if len(self) == len(other) and same(self.keys, keys):
            return _trusted(self.basis, self.parts, self.keys, add(self.values, values))
        d = len(self)
        (left, right), count = encode(self.parts, [self.keys, keys], [d, len(other)])
        row_of = np.full(count, -1, dtype=np.intp)
        row_of[left] = np.arange(d)
        new = np.flatnonzero(row_of[right] < 0)
        row_of[right[new]] = d + np.arange(len(new))
        union = np.zeros((d + len(new), self.basis.size), dtype=np.result_type(self.values, values))
        union[:d] = self.values
        union[row_of[right]] = add(union[row_of[right]], values)
        added = _rows(keys, new)
        columns = tuple(stacked(part, pair) for part, *pair in zip(self.parts, self.keys, added, strict=True))
        return _trusted(self.basis, self.parts, columns, union)

    def join(self, other: KeyedRelation) -> KeyedRelation:
        """Natural join on the parts that both sides have, elements multiplied; without any, all pairs.

        The result has the parts of the left, then the right's own. Its keys follow the left's order, then the
        right's. Features that both sides have are renamed on the right: see `distinct`.
        """
        shared = tuple(part for part in self.parts if part in other.parts)
        own = tuple(part for part in other.parts if part not in self.parts)
        right = other.basis.rename(distinct(self.basis.features, other.basis.features))
        basis = product_basis(self.basis, right)
        ours = tuple(self._column(part) for part in shared)
        theirs = tuple(other._column(part) for part in shared)
        if len(shared) == len(self.parts) == len(other.parts) and shared and same(ours, theirs):
            return _trusted(basis, self.parts, self.keys, multiply(self.basis, self.values, right, other.values))
        (left_codes, right_codes), count = encode(shared, [ours, theirs], [len(self), len(other)])
        i, j = pairs(left_codes, right_codes, count)
        keys = _rows(self.keys, i) + _rows(tuple(other._column(part) for part in own), j)
        values = multiply(self.basis, self.values[i], right, other.values[j])
        return _trusted(basis, self.parts + own, keys, values)

    def __mul__(self, other: KeyedRelation) -> KeyedRelation:
        return self.join(other) if isinstance(other, KeyedRelation) else NotImplemented

    # Reshaping

    def rename(self, features: Mapping[str, str] | None = None, *, parts: Mapping[str, str] | None = None) -> KeyedRelation:
        """The same numbers under other names of features, of key parts, or both."""
        new = parts or {}
        for part in new:
            self._column(part)
        names = check_parts(new.get(part, part) for part in self.parts)
        return _trusted(self.basis.rename(features or {}), names, self.keys, self.values)

    def project(self, features: Sequence[str], order: int | None = None) -> KeyedRelation:
        """Only these features, as listed, and only monomials up to this order if one is given."""
        part = self.basis.project(features, order)
        return _trusted(part, self.parts, self.keys, self.values.take(self.basis.columns(part), axis=1))

    def to_domain(self, keys: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike], *, drop: bool = False) -> KeyedRelation:
        """Exactly the keys of a domain, in its order; keys without rows get the zero element.

        The domain is one column per part, by name or in the order of `parts`. A key outside the domain is an
        error, unless `drop` says that it may go.
        """
        if isinstance(keys, Mapping):
            if {*keys} != {*self.parts}:
                raise KeyPartError(f"The domain has the parts {tuple(keys)}, the relation {self.parts}.")
            keys = [keys[part] for part in self.parts]
        domain = as_key(self.parts, keys)
        d = len(domain[0]) if domain else 1
        if len(self) == d and same(self.keys, domain):
            return self
        (own, wanted), count = encode(self.parts, [self.keys, domain], [len(self), d])
        row_of = np.full(count, -1, dtype=np.intp)
        row_of[wanted] = np.arange(d)
        if repeats := int((row_of[wanted] != np.arange(d)).sum()):
            raise KeyPartError(f"The keys of a domain must be unique, but {repeats} of {d} repeat others.")
        target = row_of[own]
        inside = target >= 0
        if not drop and not inside.all():
            raise KeyPartError(
                f"{len(self) - int(inside.sum())} of {len(self)} keys lie outside the domain.",
                hint="Pass drop=True to leave them out.",
            )
        values = np.zeros((d, self.basis.size), dtype=self.values.dtype)
        values[target[inside]] = self.values[inside]
        return _trusted(self.basis, self.parts, domain, values)

    def astype(self, dtype: npt.DTypeLike) -> KeyedRelation:
        """The same relation in other numbers: `float`, `int`, or `object` for exact integers of any size."""
        return _trusted(self.basis, self.parts, self.keys, converted(self.values, dtype))

    # Comparison

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyedRelation):
            return NotImplemented
        try:
            return np.array_equal(*self._on_one_domain(other))
        except (BasisMismatch, KeyPartError):
            return False

    __hash__ = None  # type: ignore[assignment]

    def isclose(self, other: KeyedRelation, *, rtol: float = 1e-9, atol: float = 0.0) -> bool:
        """Equality up to rounding; features, orders or parts that differ are an error here, not a False."""
        ours, theirs = self._on_one_domain(other)
        return bool(np.allclose(ours.astype(float), theirs.astype(float), rtol=rtol, atol=atol))

    def _on_one_domain(self, other: KeyedRelation) -> tuple[Values, Values]:
        keys, values = self._aligned(other)
        codes, count = encode(self.parts, [self.keys, keys], [len(self), len(other)])
        spread = []
        for code, part in zip(codes, (self.values, values), strict=True):
            full = np.zeros((count, self.basis.size), dtype=part.dtype)
            full[code] = part
            spread.append(full)
        return spread[0], spread[1]

    def _aligned(self, other: KeyedRelation) -> tuple[Key, Values]:
        """The other relation's keys and values, parts and features in this one's order."""
        if {*self.parts} != {*other.parts}:
            raise KeyPartError(f"Both sides need the same key parts, not {self.parts} and {other.parts}.")
        keys = tuple(other._column(part) for part in self.parts)
        return keys, aligned(self.basis, other.basis, other.values)

    def _column(self, part: str) -> KeyColumn:
        if part not in self.parts:
            raise KeyPartError(f"There is no key part {part!r}; the key has {self.parts}.")
        return self.keys[self.parts.index(part)]


def _rows(keys: Key, rows: Indices) -> Key:
    return tuple(column[rows] for column in keys)


def _trusted(basis: Basis, parts: tuple[str, ...], keys: Key, values: Values) -> KeyedRelation:
    """A relation of fresh arrays, its keys unique by construction: no need for the sort that proves it."""
    made = object.__new__(KeyedRelation)
    _fill(made, basis, parts, tuple(sealed(column) for column in keys), sealed(values))
    return made


def _fill(relation: KeyedRelation, basis: Basis, parts: tuple[str, ...], keys: Key, values: Values) -> None:
    for name, value in (("basis", basis), ("parts", parts), ("keys", keys), ("values", values)):
        object.__setattr__(relation, name, value)
