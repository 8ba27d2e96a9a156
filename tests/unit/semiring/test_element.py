"""Single elements: constructors, reading, reshaping, equality and errors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from saibot.semiring import (
    ONE,
    Basis,
    BasisMismatch,
    Element,
    FeatureNameError,
    Monomial,
    SemiringError,
    UnknownMonomial,
)

ROWS = np.array([[1, 2], [3, 4], [5, 7]])


@pytest.fixture
def element() -> Element:
    return Element.of_rows(("x", "y"), 2, ROWS)


def test_an_element_of_rows_holds_count_sums_and_products(element: Element) -> None:
    assert element.count == 3 and isinstance(element.count, int)
    assert element.sums.tolist() == [9, 13]
    assert element.products.tolist() == (ROWS.T @ ROWS).tolist()
    assert element.values.dtype == np.int64


def test_a_coefficient_is_read_by_monomial_text_or_features(element: Element) -> None:
    assert element["x*y"] == element["y", "x"] == element[Monomial.of("x", "y")] == 1 * 2 + 3 * 4 + 5 * 7
    assert element["1"] == element[ONE] == element[()] == 3
    assert element["x"] == 9
    with pytest.raises(UnknownMonomial, match="'z'"):
        element["z"]


def test_an_expectation_is_a_sum_over_the_count(element: Element) -> None:
    assert element.expectation("x") == 3.0
    exact = Element(element.basis, np.array([Fraction(v) for v in element.values.tolist()]))
    assert exact.expectation("y") == Fraction(13, 3)
    with pytest.raises(SemiringError, match="count is 0"):
        Element.zero(element.basis).expectation("x")


def test_zero_is_no_rows_and_one_is_a_row_of_zeros() -> None:
    basis = Basis(("x", "y"), 3)
    assert Element.zero(basis) == Element.of_rows(("x", "y"), 3, np.zeros((0, 2), dtype=int))
    assert Element.one(basis) == Element.of_rows(("x", "y"), 3, [[0, 0]])


def test_equality_ignores_the_order_of_features_and_the_type_of_numbers(element: Element) -> None:
    swapped = Element.of_rows(("y", "x"), 2, ROWS[:, ::-1].astype(float))
    assert element == swapped and swapped == element
    assert element.values.tolist() != swapped.values.tolist()
    assert element != Element.of_rows(("y", "x"), 2, ROWS)
    assert element != element.rename({"x": "z"})
    assert element != element.project(("x", "y"), 1)
    assert element != 3


def test_elements_are_not_hashable_because_equal_ones_may_differ_in_layout(element: Element) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(element)


def test_isclose_forgives_rounding_only(element: Element) -> None:
    nudged = Element(element.basis, element.values * (1 + 1e-12))
    assert element != nudged and element.isclose(nudged)
    assert not element.isclose(Element(element.basis, element.values * 1.001))
    with pytest.raises(BasisMismatch):
        element.isclose(element.rename({"x": "z"}))


def test_addition_aligns_features_and_refuses_others(element: Element) -> None:
    swapped = Element.of_rows(("y", "x"), 2, ROWS[:, ::-1])
    assert element + swapped == Element.of_rows(("x", "y"), 2, np.vstack([ROWS, ROWS]))
    for other in (element.rename({"x": "z"}), element.project(("x",)), element.project(("x", "y"), 1)):
        with pytest.raises(BasisMismatch, match="need one basis"):
            element + other


def test_operators_refuse_what_is_not_an_element(element: Element) -> None:
    with pytest.raises(TypeError):
        element + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        element * 2  # type: ignore[operator]


def test_a_product_needs_one_order(element: Element) -> None:
    with pytest.raises(BasisMismatch, match="one order"):
        element * Element.of_rows(("z",), 3, [[1]])


def test_features_of_the_same_name_get_distinct_names_on_the_right(element: Element) -> None:
    squared = element * element
    assert squared.basis.features == ("x", "y", "x.2", "y.2")
    pairs = np.array([[*a, *b] for a in ROWS for b in ROWS])
    assert squared == Element.of_rows(("x", "y", "x.2", "y.2"), 2, pairs)
    assert (squared * element).basis.features == ("x", "y", "x.2", "y.2", "x.3", "y.3")
    with pytest.raises(FeatureNameError, match="must be unique"):
        squared.rename({"x.2": "x"})


def test_project_drops_features_and_orders(element: Element) -> None:
    assert element.project(("y",)) == Element.of_rows(("y",), 2, ROWS[:, 1:])
    assert element.project(("y", "x"), 1) == Element.of_rows(("x", "y"), 1, ROWS)
    assert element.project(()).values.tolist() == [3]


def test_rename_keeps_the_numbers(element: Element) -> None:
    assert element.rename({"x": "y", "y": "x"}) == Element.of_rows(("y", "x"), 2, ROWS)


def test_astype_changes_the_numbers_not_the_element(element: Element) -> None:
    for dtype in (float, object, int):
        assert element.astype(dtype) == element
    assert element.astype(object).values.dtype == object
    assert element.astype(float).astype(int).values.dtype == np.int64


@pytest.mark.parametrize("values", [[1, 2], [[1] * 6], 3])
def test_an_element_refuses_values_of_another_shape(values: object) -> None:
    with pytest.raises(SemiringError, match="needs 6 values"):
        Element(Basis(("x", "y"), 2), np.array(values))


def test_an_element_refuses_a_bare_text_as_features() -> None:
    with pytest.raises(FeatureNameError, match="sequence"):
        Element.of_rows("xy", 2, ROWS)


def test_object_elements_multiply_beyond_64_bits() -> None:
    big = Element.of_rows(("x",), 2, [[2**31]]).astype(object)
    assert (big * big)["x", "x.2"] == 2**62
    assert (big * big * big * big).project(("x.2",))["x.2*x.2"] == 2**62
    huge = Element(Basis(("x",), 1), np.array([2**40, 2**40], dtype=object))
    assert (huge * huge)["x.2"] == 2**80
