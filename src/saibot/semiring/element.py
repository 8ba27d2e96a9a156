"""One element of the monomial semi-ring: a number for every monomial of order 0..k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from saibot.semiring.errors import BasisMismatch, SemiringError
from saibot.semiring.exact import Scalar, Values, add, as_values, converted, frozen, sealed, sum_rows
from saibot.semiring.monomial import ONE, Basis, MonomialLike, as_rows, check_features, lift
from saibot.semiring.product import distinct, multiply, product_basis

# Rows lifted at a time: a lifted row is C(m+k, k)/m times as wide as the row.
ROWS_PER_BLOCK = 1 << 16


def aligned(basis: Basis, other: Basis, values: Values) -> Values:
    """The values of another basis over the same features, with their columns in this basis's order."""
    if basis == other:
        return values
    if basis.order != other.order or {*basis.features} != {*other.features}:
        raise BasisMismatch(
            f"Sums and comparisons need one basis, not order {basis.order} over ({', '.join(basis.features)})"
            f" and order {other.order} over ({', '.join(other.features)})."
        )
    return values.take(other.columns(basis), axis=-1)


@dataclass(frozen=True, eq=False)
class Element:
    """Sums of all monomials over some rows: `values[basis.index(p)]` is the sum of p.

    `+` is the union of two sets of rows, `*` (the paper's x) all pairs of their rows. Equality is
    mathematical: the same number for every monomial, in whatever order the features were listed. The array is
    read-only.
    """

    basis: Basis
    values: Values

    def __post_init__(self) -> None:
        values = as_values(self.values, what="values of an element")
        if values.shape != (self.basis.size,):
            raise SemiringError(f"This basis needs {self.basis.size} values, not an array of shape {values.shape}.")
        object.__setattr__(self, "values", frozen(values))

    # Constructors

    @classmethod
    def zero(cls, basis: Basis) -> Element:
        """No rows: neutral for `+`."""
        return cls(basis, sealed(np.zeros(basis.size, dtype=np.int64)))

    @classmethod
    def one(cls, basis: Basis) -> Element:
        """One row of zeros: neutral for `*`, where features that are 0 throughout are as good as absent."""
        values = np.zeros(basis.size, dtype=np.int64)
        values[0] = 1
        return cls(basis, sealed(values))

    @classmethod
    def of_rows(cls, features: Sequence[str], order: int, rows: npt.ArrayLike) -> Element:
        """The sums of all monomials over the rows of an (n, m) array. Integers stay integers."""
        basis = Basis(check_features(features), order)
        table = as_rows(basis, rows)
        total = sum_rows(lift(basis, table[:ROWS_PER_BLOCK]))
        for start in range(ROWS_PER_BLOCK, len(table), ROWS_PER_BLOCK):
            total = add(total, sum_rows(lift(basis, table[start : start + ROWS_PER_BLOCK])))
        return cls(basis, sealed(total))

    # The semi-ring

    def __add__(self, other: Element) -> Element:
        if not isinstance(other, Element):
            return NotImplemented
        return Element(self.basis, sealed(add(self.values, aligned(self.basis, other.basis, other.values))))

    def __mul__(self, other: Element) -> Element:
        """All pairs of rows. Features that both sides have are renamed on the right: see `distinct`."""
        if not isinstance(other, Element):
            return NotImplemented
        right = other.basis.rename(distinct(self.basis.features, other.basis.features))
        values = multiply(self.basis, self.values, right, other.values)
        return Element(product_basis(self.basis, right), sealed(values))

    # Reading

    def __getitem__(self, monomial: MonomialLike) -> Scalar:
        """The sum of a monomial, given as a Monomial, as text (`e["x*y"]`) or as `e["x", "y"]`."""
        value = self.values[self.basis.index(monomial)]
        return value.item() if isinstance(value, np.generic) else value

    @property
    def count(self) -> Scalar:
        """c, the sum of 1."""
        return self[ONE]

    @property
    def sums(self) -> Values:
        """s, the sums of the features, in the basis's order."""
        return self.values[self.basis.slice(1)]

    @property
    def products(self) -> Values:
        """Q, the symmetric matrix of the sums of products of two features."""
        return self.values[self.basis.squares]

    def expectation(self, monomial: MonomialLike) -> Scalar:
        """E[p] = s[p] / s[c], with the rows as the whole population."""
        if self.count == 0:
            raise SemiringError("An element whose count is 0 has no expectations.")
        return self[monomial] / self.count

    # Reshaping

    def rename(self, mapping: Mapping[str, str]) -> Element:
        """The same numbers under other feature names."""
        return Element(self.basis.rename(mapping), self.values)

    def project(self, features: Sequence[str], order: int | None = None) -> Element:
        """Only these features, as listed, and only monomials up to this order if one is given."""
        part = self.basis.project(features, order)
        return Element(part, sealed(self.values.take(self.basis.columns(part))))

    def astype(self, dtype: npt.DTypeLike) -> Element:
        """The same element in other numbers: `float`, `int`, or `object` for exact integers of any size."""
        return Element(self.basis, sealed(converted(self.values, dtype)))

    # Comparison

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Element):
            return NotImplemented
        try:
            return np.array_equal(self.values, aligned(self.basis, other.basis, other.values))
        except BasisMismatch:
            return False

    # Equal elements may order their columns differently, so no cheap hash agrees with equality.
    __hash__ = None  # type: ignore[assignment]

    def isclose(self, other: Element, *, rtol: float = 1e-9, atol: float = 0.0) -> bool:
        """Equality up to rounding; features or orders that differ are an error here, not a False."""
        theirs = aligned(self.basis, other.basis, other.values)
        return bool(np.allclose(self.values.astype(float), theirs.astype(float), rtol=rtol, atol=atol))
