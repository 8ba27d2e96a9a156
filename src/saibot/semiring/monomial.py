"""Monomials, and the basis that gives each of them a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import factorial, prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from saibot.semiring import layout
from saibot.semiring.errors import (
    BasisMismatch,
    FeatureNameError,
    IntegerOverflow,
    SemiringError,
    UnknownMonomial,
)
from saibot.semiring.exact import INT64_MAX, Indices, Values, as_values, peak


def check_features(names: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple, each fit to be written into a monomial and read back."""
    if isinstance(names, str):
        raise FeatureNameError(names, "must come in a sequence of names")
    checked = tuple(names)
    for name in checked:
        if not isinstance(name, str):
            raise FeatureNameError(name, "must be text")
        if not name:
            raise FeatureNameError(name, "must not be empty")
        # `*` joins features, `:` ends a prefix in a sketch's columns, `1` is the empty product.
        if "*" in name or ":" in name:
            raise FeatureNameError(name, "must not contain '*' or ':'")
        if name == "1":
            raise FeatureNameError(name, "is reserved for the monomial of order 0")
    return checked


@dataclass(frozen=True, slots=True)
class Monomial:
    """A product of features: `Monomial.of("x", "y", "x")` is x*x*y, whatever the order of writing."""

    powers: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        names = check_features(name for name, _ in self.powers)
        if any(later <= earlier for earlier, later in pairwise(names)):
            raise SemiringError("The powers of a monomial must be sorted by feature, each feature once.")
        if any(power < 1 for _, power in self.powers):
            raise SemiringError("The powers of a monomial must be at least 1.")

    @classmethod
    def of(cls, *features: str) -> Monomial:
        """The product of these features; of none, the monomial 1."""
        return cls(tuple(sorted(Counter(features).items())))

    @classmethod
    def parse(cls, text: str) -> Monomial:
        """The inverse of `str`."""
        return ONE if text == "1" else cls.of(*text.split("*"))

    @property
    def features(self) -> tuple[str, ...]:
        """The features, each repeated as often as its power says."""
        return tuple(name for name, power in self.powers for _ in range(power))

    @property
    def order(self) -> int:
        """The sum of the powers."""
        return sum(power for _, power in self.powers)

    @property
    def multiplicity(self) -> int:
        """How many of the m^i entries of the paper's vector are this one monomial: i!/(a1!..am!)."""
        return factorial(self.order) // prod(factorial(power) for _, power in self.powers)

    def __mul__(self, other: Monomial) -> Monomial:
        return Monomial.of(*self.features, *other.features)

    def __str__(self) -> str:
        return "*".join(self.features) or "1"


ONE = Monomial(())
MonomialLike: TypeAlias = Monomial | str | tuple[str, ...]


def as_monomial(like: MonomialLike) -> Monomial:
    """A monomial, its text such as `x*y`, or a tuple of its features."""
    match like:
        case Monomial():
            return like
        case str():
            return Monomial.parse(like)
        case _:
            return Monomial.of(*like)


@dataclass(frozen=True)
class Basis:
    """All monomials of order 0..`order` over `features`, in the order that coefficient arrays are stored in.

    >>> [str(monomial) for monomial in Basis(("x", "y"), 2).monomials]
    ['1', 'x', 'y', 'x*x', 'x*y', 'y*y']
    """

    features: tuple[str, ...]
    order: int

    def __post_init__(self) -> None:
        features = check_features(self.features)
        object.__setattr__(self, "features", features)
        for name, count in Counter(features).items():
            if count > 1:
                raise FeatureNameError(name, "must be unique")
        if isinstance(self.order, bool) or not isinstance(self.order, int) or self.order < 1:
            raise SemiringError(f"The order must be an integer of at least 1, not {self.order!r}.")

    @property
    def size(self) -> int:
        """The number of columns, C(m+k, k)."""
        return layout.size(len(self.features), self.order)

    @cached_property
    def monomials(self) -> tuple[Monomial, ...]:
        """All monomials in column order."""
        names = self.features
        return tuple(Monomial.of(*(names[i] for i in positions)) for positions in layout.monomials(len(names), self.order))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.features)}

    def position(self, feature: str) -> int:
        """The position of a feature."""
        try:
            return self._positions[feature]
        except KeyError:
            raise FeatureNameError(feature, f"is not one of ({', '.join(self.features)})") from None

    def index(self, monomial: MonomialLike) -> int:
        """The column of a monomial."""
        wanted = as_monomial(monomial)
        known = self._positions
        if wanted.order > self.order or not all(name in known for name, _ in wanted.powers):
            raise UnknownMonomial(str(wanted), features=self.features, order=self.order)
        positions = tuple(sorted(known[name] for name in wanted.features))
        return layout.columns(len(self.features), self.order)[positions]

    def slice(self, order: int) -> slice:
        """The columns of one order."""
        if not 0 <= order <= self.order:
            raise SemiringError(f"This basis has the orders 0 to {self.order}, not {order}.")
        return layout.order_slice(len(self.features), order)

    @property
    def squares(self) -> Indices:
        """The columns of order 2 as a symmetric matrix, so that `values[..., basis.squares]` unpacks them."""
        if self.order < 2:
            raise SemiringError("A basis of order 1 holds no products of two features.")
        return layout.squares(len(self.features), self.order)

    def columns(self, part: Basis) -> Indices:
        """Where the monomials of another basis, of fewer features or a lower order, sit in this one."""
        if part.order > self.order:
            raise BasisMismatch(f"Order {part.order} is not part of a basis of order {self.order}.")
        chosen = tuple(self.position(name) for name in part.features)
        return layout.selection(len(self.features), self.order, chosen, part.order)

    def rename(self, mapping: Mapping[str, str]) -> Basis:
        """The same columns under other names; features that the mapping does not name keep theirs."""
        for name in mapping:
            self.position(name)
        return Basis(tuple(mapping.get(name, name) for name in self.features), self.order)

    def project(self, features: Sequence[str], order: int | None = None) -> Basis:
        """The basis over these features only, as listed, and up to this order if one is given."""
        part = Basis(check_features(features), self.order if order is None else order)
        self.columns(part)
        return part


def as_rows(basis: Basis, rows: npt.ArrayLike) -> Values:
    """The rows as an (n, m) array of numbers, one column per feature."""
    table = as_values(rows, what="rows")
    m = len(basis.features)
    if table.ndim != 2 or table.shape[1] != m:
        raise SemiringError(f"Rows over {m} features must have the shape (n, {m}), not {table.shape}.")
    return table


def lift(basis: Basis, rows: npt.ArrayLike) -> Values:
    """The values of all monomials on each row: an (n, m) array becomes (n, size)."""
    table = as_rows(basis, rows)
    m, k = len(basis.features), basis.order
    # The bound is tight: the basis holds the k-th power of whichever feature has the largest value.
    if table.dtype == np.int64 and peak(table) ** k > INT64_MAX:
        raise IntegerOverflow("power")
    lifted = np.empty((len(table), basis.size), dtype=table.dtype)
    lifted[:, 0] = 1
    parent, last = layout.parents(m, k)
    for order in range(1, k + 1):
        columns = basis.slice(order)
        here = slice(columns.start - 1, columns.stop - 1)  # `parents` starts at order 1
        lifted[:, columns] = lifted.take(parent[here], axis=1) * table.take(last[here], axis=1)
    return lifted
