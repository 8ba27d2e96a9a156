"""Monomials, their basis, and the lift of rows."""

from __future__ import annotations

from itertools import product as cartesian
from math import comb, prod

import numpy as np
import pytest

from saibot.errors import SaibotError
from saibot.semiring import (
    Basis,
    FeatureNameError,
    IntegerOverflow,
    Monomial,
    SemiringError,
    UnknownMonomial,
    lift,
)


def test_a_monomial_does_not_depend_on_the_order_of_writing() -> None:
    assert Monomial.of("y", "x", "y") == Monomial.of("y", "y", "x")
    assert hash(Monomial.of("y", "x")) == hash(Monomial.of("x", "y"))
    assert Monomial.of("y", "x", "y").powers == (("x", 1), ("y", 2))


@pytest.mark.parametrize(
    "features, text", [((), "1"), (("x",), "x"), (("y", "x"), "x*y"), (("x", "x"), "x*x"), (("a b",), "a b")]
)
def test_a_monomial_is_written_as_its_features(features: tuple[str, ...], text: str) -> None:
    assert str(Monomial.of(*features)) == text
    assert Monomial.of(*features).order == len(features)


@pytest.mark.parametrize("m, order", [(1, 4), (2, 3), (3, 3), (4, 2)])
def test_multiplicity_counts_the_entries_of_the_papers_vector(m: int, order: int) -> None:
    names = tuple("abcd"[:m])
    vector = [Monomial.of(*entry) for entry in cartesian(names, repeat=order)]
    basis = Basis(names, order)
    for monomial in basis.monomials[basis.slice(order)]:
        assert monomial.multiplicity == vector.count(monomial)


@pytest.mark.parametrize("powers", [(("y", 1), ("x", 1)), (("x", 1), ("x", 1)), (("x", 0),), (("x", -1),)])
def test_a_monomial_refuses_powers_that_are_not_canonical(powers: tuple[tuple[str, int], ...]) -> None:
    with pytest.raises(SemiringError, match="powers of a monomial"):
        Monomial(powers)


def test_a_basis_is_graded_and_follows_the_order_of_its_features() -> None:
    assert [str(p) for p in Basis(("x", "y"), 2).monomials] == ["1", "x", "y", "x*x", "x*y", "y*y"]
    assert [str(p) for p in Basis(("y", "x"), 2).monomials] == ["1", "y", "x", "y*y", "x*y", "x*x"]
    assert [str(p) for p in Basis((), 3).monomials] == ["1"]


@pytest.mark.parametrize("m", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_packed_size_is_the_number_of_distinct_monomials(m: int, k: int) -> None:
    basis = Basis(tuple(f"f{i}" for i in range(m)), k)
    assert basis.size == comb(m + k, k) == len(set(basis.monomials))
    slices = [basis.slice(order) for order in range(k + 1)]
    assert slices[0].start == 0 and slices[-1].stop == basis.size
    for order, columns in enumerate(slices):
        assert all(monomial.order == order for monomial in basis.monomials[columns])
        assert order == 0 or columns.start == slices[order - 1].stop


def test_the_index_is_the_column_of_the_monomial_in_whatever_order_its_features_are_given() -> None:
    basis = Basis(("x", "y", "z"), 3)
    for column, monomial in enumerate(basis.monomials):
        assert basis.index(*monomial.features) == basis.index(*monomial.features[::-1]) == column
    assert basis.index() == 0


@pytest.mark.parametrize("missing", [("w",), ("x", "w"), ("x", "x", "x"), ("x", "y", "y")])
def test_a_monomial_outside_the_basis_is_named_in_the_error(missing: tuple[str, ...]) -> None:
    with pytest.raises(UnknownMonomial, match=r"basis of order 2 over \(x, y\)"):
        Basis(("x", "y"), 2).index(*missing)


@pytest.mark.parametrize(
    "features, rule",
    [
        (("x", "x"), "must be unique"),
        (("x", ""), "must not be empty"),
        (("x*y",), "must not contain"),
        (("s:x",), "must not contain"),
        (("1",), "is reserved"),
        ((3,), "must be text"),
        ("xy", "must come in a sequence"),
    ],
)
def test_a_basis_refuses_names_that_cannot_be_told_apart(features: tuple[str, ...], rule: str) -> None:
    with pytest.raises(FeatureNameError, match=rule) as caught:
        Basis(features, 2)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, SaibotError)


@pytest.mark.parametrize("order", [0, -1, 1.0, True, "2"])
def test_the_order_is_an_integer_of_at_least_one(order: int) -> None:
    with pytest.raises(SemiringError, match="at least 1"):
        Basis(("x",), order)


def test_slices_and_squares_exist_only_for_orders_that_the_basis_has() -> None:
    with pytest.raises(SemiringError, match="orders 0 to 2, not 3"):
        Basis(("x",), 2).slice(3)
    with pytest.raises(SemiringError, match="order 1 holds no products"):
        _ = Basis(("x",), 1).squares


def test_a_basis_from_a_list_equals_one_from_a_tuple() -> None:
    assert Basis(["x", "y"], 2) == Basis(("x", "y"), 2)  # type: ignore[arg-type]
    assert Basis(("x", "y"), 2) != Basis(("y", "x"), 2)


@pytest.mark.parametrize("m", [0, 1, 2, 5])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_columns_and_multiplicities_that_are_counted_are_those_of_the_monomials(m: int, k: int) -> None:
    basis = Basis(tuple(f"x{i}" for i in range(m)), k)
    for order in range(k + 1):
        written_out = [monomial.multiplicity for monomial in basis.monomials[basis.slice(order)]]
        assert basis.multiplicities(order).tolist() == written_out
    if k >= 2:
        names = basis.features
        assert basis.squares.tolist() == [[basis.index(one, other) for other in names] for one in names]


def test_products_of_a_thousand_features_are_counted_without_being_written_out() -> None:
    basis = Basis(tuple(f"x{i}" for i in range(1000)), 2)
    assert basis.squares[999, 999] == basis.size - 1 and basis.multiplicities(2).sum() == 1000**2
    assert "monomials" not in basis.__dict__


def test_squares_unpack_the_products_of_two_features() -> None:
    basis = Basis(("y", "x"), 3)
    assert [[str(basis.monomials[column]) for column in row] for row in basis.squares] == [["y*y", "x*y"], ["x*y", "x*x"]]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_lift_gives_every_monomial_of_every_row(k: int) -> None:
    basis = Basis(("x", "y", "z"), k)
    rows = np.arange(-6, 6).reshape(4, 3)
    lifted = lift(basis, rows)
    assert lifted.dtype == np.int64 and lifted.shape == (4, basis.size)
    for row, values in zip(rows, lifted, strict=True):
        named = dict(zip("xyz", row.tolist(), strict=True))
        assert values.tolist() == [prod(named[f] for f in p.features) for p in basis.monomials]


@pytest.mark.parametrize(
    "given, kept",
    [(np.int8, np.int64), (np.uint16, np.int64), (np.int64, np.int64), (np.float32, np.float64)],
)
def test_lift_widens_numbers_and_keeps_integers_integers(given: type, kept: type) -> None:
    lifted = lift(Basis(("x",), 2), np.array([[1], [0]], dtype=given))
    assert lifted.dtype == kept
    assert lifted.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_lift_refuses_a_power_beyond_64_bits() -> None:
    assert lift(Basis(("x",), 2), [[3_037_000_499]])[0, 2] == 3_037_000_499**2
    with pytest.raises(IntegerOverflow, match="64-bit"):
        lift(Basis(("x",), 2), [[-3_037_000_500]])


@pytest.mark.parametrize("rows", [[1, 2], [[1, 2, 3]], 5, []])
def test_lift_refuses_rows_of_another_shape(rows: object) -> None:
    with pytest.raises(SemiringError, match="must have the shape"):
        lift(Basis(("x", "y"), 2), rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [[["1", "2"]], [[1, None]], [[1j, 2j]]])
def test_lift_refuses_what_is_not_a_number_without_quoting_it(rows: object) -> None:
    with pytest.raises(SemiringError, match="The rows must be numbers"):
        lift(Basis(("x", "y"), 2), rows)  # type: ignore[arg-type]
