"""The product on whole arrays, and the names of a product's features."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.semiring import Basis, BasisMismatch, IntegerOverflow, distinct, multiply, product_basis
from saibot.semiring.product import _BLOCK


def test_a_product_has_the_features_of_the_left_then_those_of_the_right() -> None:
    assert product_basis(Basis(("y",), 2), Basis(("x", "z"), 2)) == Basis(("y", "x", "z"), 2)


def test_a_product_needs_equal_orders() -> None:
    with pytest.raises(BasisMismatch, match="one order on both sides, not 2 and 3"):
        product_basis(Basis(("x",), 2), Basis(("y",), 3))


def test_a_product_of_arrays_needs_disjoint_features() -> None:
    with pytest.raises(BasisMismatch, match="both sides have x"):
        product_basis(Basis(("x", "y"), 2), Basis(("z", "x"), 2))


def test_order_two_is_the_covariance_semiring() -> None:
    a, b = Basis(("x", "y"), 2), Basis(("z",), 2)
    left, right = np.array([2, 3, 5, 7, 11, 13]), np.array([17, 19, 23])
    joined = multiply(a, left, b, right)
    basis = product_basis(a, b)
    cb, sb, qb = right
    assert joined[0] == 2 * cb
    assert joined[basis.slice(1)].tolist() == [3 * cb, 5 * cb, 2 * sb]
    assert joined[basis.squares].tolist() == [
        [7 * cb, 11 * cb, 3 * sb],
        [11 * cb, 13 * cb, 5 * sb],
        [3 * sb, 5 * sb, 2 * qb],
    ]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_each_coefficient_is_the_product_of_its_two_parts(k: int) -> None:
    a, b = Basis(("y", "x"), k), Basis(("z", "w"), k)
    left, right = np.arange(1, a.size + 1), np.arange(101, 101 + b.size)
    joined = multiply(a, left, b, right)
    for monomial, value in zip(product_basis(a, b).monomials, joined, strict=True):
        of_a = tuple(f for f in monomial.features if f in a.features)
        of_b = tuple(f for f in monomial.features if f in b.features)
        assert value == left[a.index(of_a)] * right[b.index(of_b)]


@pytest.mark.parametrize(
    "left_shape, right_shape", [((), (4,)), ((4,), ()), ((4,), (4,)), ((3, 1), (4,)), ((2, 1, 3), (5, 1))]
)
def test_leading_dimensions_broadcast(left_shape: tuple[int, ...], right_shape: tuple[int, ...]) -> None:
    a, b = Basis(("x",), 2), Basis(("y", "z"), 2)
    rng = np.random.default_rng(1)
    left = rng.integers(-9, 9, (*left_shape, a.size))
    right = rng.integers(-9, 9, (*right_shape, b.size))
    joined = multiply(a, left, b, right)
    leading = np.broadcast_shapes(left_shape, right_shape)
    assert joined.shape == (*leading, product_basis(a, b).size)
    wide_left = np.broadcast_to(left, (*leading, a.size))
    wide_right = np.broadcast_to(right, (*leading, b.size))
    for place in np.ndindex(leading):
        assert joined[place].tolist() == multiply(a, wide_left[place], b, wide_right[place]).tolist()


def test_blocks_do_not_show_in_the_result() -> None:
    a, b = Basis(("x",), 1), Basis(("y",), 1)
    keys = _BLOCK // 3 + 7  # more than one block of the result's 3 columns, the last one short
    left = np.arange(2 * keys).reshape(keys, 2)
    right = left[::-1]
    expected = np.stack([left[:, 0] * right[:, 0], left[:, 1] * right[:, 0], left[:, 0] * right[:, 1]], axis=1)
    assert np.array_equal(multiply(a, left, b, right), expected)


def test_no_keys_give_no_keys() -> None:
    a, b = Basis(("x",), 2), Basis(("y",), 2)
    assert multiply(a, np.zeros((0, 3), dtype=int), b, np.zeros((0, 3))).shape == (0, 6)


def test_integers_stay_integers_and_mixed_operands_become_floats() -> None:
    a, b = Basis(("x",), 1), Basis(("y",), 1)
    assert multiply(a, np.array([1, 2]), b, np.array([3, 4])).dtype == np.int64
    assert multiply(a, np.array([1, 2]), b, np.array([3.0, 4.0])).dtype == np.float64
    assert multiply(a, np.array([1, 2]), b, np.array([3, 4], dtype=object)).dtype == object


def test_an_integer_product_beyond_64_bits_is_refused_not_wrapped() -> None:
    a, b = Basis(("x",), 1), Basis(("y",), 1)
    with pytest.raises(IntegerOverflow, match="product"):
        multiply(a, np.array([[2**32, 1]]), b, np.array([[2**31, 1]]))
    exact = multiply(a, np.array([[2**32, 1]], dtype=object), b, np.array([[2**31, 1]]))
    assert exact[0, 0] == 2**63


def test_an_integer_product_that_just_fits_is_computed() -> None:
    a, b = Basis(("x",), 1), Basis(("y",), 1)
    joined = multiply(a, np.array([2**62, 1]), b, np.array([1, -1]))
    assert joined.dtype == np.int64 and joined.tolist() == [2**62, 1, -(2**62)]
    # Large on the left and large on the right, but never for the same key.
    apart = multiply(a, np.array([[2**40, 0], [1, 0]]), b, np.array([[1, 0], [2**40, 0]]))
    assert apart[:, 0].tolist() == [2**40, 2**40]


@pytest.mark.parametrize(
    "left, right, mapping",
    [
        (("x",), ("y",), {}),
        (("x", "y"), ("y", "z"), {"y": "y.2"}),
        (("x", "x.2"), ("x",), {"x": "x.3"}),
        (("x",), ("x", "x.2"), {"x": "x.3"}),
        (("x", "x.2"), ("x", "x.2"), {"x": "x.3", "x.2": "x.2.2"}),
        ((), ("x",), {}),
    ],
)
def test_colliding_names_get_the_next_free_number_on_the_right(
    left: tuple[str, ...], right: tuple[str, ...], mapping: dict[str, str]
) -> None:
    assert distinct(left, right) == mapping
    renamed = [mapping.get(name, name) for name in right]
    assert len({*left, *renamed}) == len(left) + len(right)
