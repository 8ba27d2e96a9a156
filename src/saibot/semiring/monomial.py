"""Monomials, the basis that gives each of them a column of a packed array, and their values on rows.

Columns are graded by order; within one order they follow `combinations_with_replacement`: x*y and y*x are one column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations_with_replacement, pairwise
from math import comb, factorial, prod

import numpy as np

from saibot.semiring.errors import FeatureNameError, IntegerOverflow, SemiringError, UnknownMonomial

_INT64_MAX = 2**63 - 1


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

    def __str__(self) -> str:
        return "*".join(self.features) or "1"


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
        """The number of columns, C(m+k, k). The paper's (1 - m^k)/(1 - m) counts x*y and y*x apart, and stops short of k."""
        return comb(len(self.features) + self.order, self.order)

    @cached_property
    def monomials(self) -> tuple[Monomial, ...]:
        """All monomials in column order."""
        orders = (combinations_with_replacement(self.features, order) for order in range(self.order + 1))
        return tuple(Monomial.of(*features) for features in chain.from_iterable(orders))

    @cached_property
    def _columns(self) -> dict[Monomial, int]:
        return {monomial: column for column, monomial in enumerate(self.monomials)}

    def index(self, *features: str) -> int:
        """The column of a product of features; of none, that of the count."""
        wanted = Monomial.of(*features)
        if wanted not in self._columns:
            raise UnknownMonomial(str(wanted), features=self.features, order=self.order)
        return self._columns[wanted]

    def slice(self, order: int) -> slice:
        """The columns of one order."""
        if not 0 <= order <= self.order:
            raise SemiringError(f"This basis has the orders 0 to {self.order}, not {order}.")
        m = len(self.features)
        return slice(comb(m + order - 1, order - 1) if order else 0, comb(m + order, order))

    @property
    def squares(self) -> np.ndarray:
        """The columns of order 2 as a symmetric matrix, so that `values[..., basis.squares]` unpacks them."""
        if self.order < 2:
            raise SemiringError("A basis of order 1 holds no products of two features.")
        m = len(self.features)
        one, other = np.triu_indices(m)  # counted, not looked up: a thousand features have half a million products
        table = np.empty((m, m), dtype=np.intp)
        table[one, other] = table[other, one] = np.arange(self.slice(2).start, self.slice(2).stop)
        return table

    def multiplicities(self, order: int) -> np.ndarray:
        """`Monomial.multiplicity` of the columns of one order. Products of two features are not written out."""
        if order <= 2:
            one, other = np.triu_indices(len(self.features)) if order == 2 else (0, 0)
            return np.where(one == other, 1, 2) * np.ones(self.slice(order).stop - self.slice(order).start, np.intp)
        return np.array([monomial.multiplicity for monomial in self.monomials[self.slice(order)]], dtype=np.intp)


def lift(basis: Basis, rows: np.ndarray) -> np.ndarray:
    """The values of all monomials on each row: an (n, m) array becomes (n, size). Integers stay exact integers."""
    table = np.asarray(rows)
    m = len(basis.features)
    if table.ndim != 2 or table.shape[1] != m:
        raise SemiringError(f"Rows over {m} features must have the shape (n, {m}), not {table.shape}.")
    if table.dtype.kind not in "iuf":
        raise SemiringError(f"The rows must be numbers, not {table.dtype}.")
    table = table.astype(np.float64 if table.dtype.kind == "f" else np.int64)
    # The bound is tight: the basis holds the k-th power of whichever feature has the largest value.
    if table.dtype == np.int64 and table.size and max(-int(table.min()), int(table.max())) ** basis.order > _INT64_MAX:
        raise IntegerOverflow("power")
    places = {name: place for place, name in enumerate(basis.features)}
    lifted = np.ones((len(table), basis.size), dtype=table.dtype)
    for column, monomial in enumerate(basis.monomials):
        for name in monomial.features:
            lifted[:, column] *= table[:, places[name]]
    return lifted
