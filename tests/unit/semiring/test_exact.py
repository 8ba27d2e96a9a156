"""Exact integers, and arrays that nobody can change."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.semiring import Basis, Element, IntegerOverflow, KeyedRelation, SemiringError
from saibot.semiring.exact import INT64_MAX, add, converted, frozen, peak, sealed, sum_groups, sum_rows


def test_a_sum_of_two_that_overflows_is_refused_in_both_directions() -> None:
    top, bottom = np.array([INT64_MAX]), np.array([-INT64_MAX - 1])
    assert add(top, np.array([0])).tolist() == [INT64_MAX]
    assert add(top, bottom).tolist() == [-1]
    for left, right in ((top, np.array([1])), (bottom, np.array([-1])), (bottom, bottom)):
        with pytest.raises(IntegerOverflow, match="sum"):
            add(left, right)


def test_a_sum_of_many_that_overflows_is_refused_and_one_that_cancels_is_exact() -> None:
    half = 2**62
    assert sum_rows(np.array([[half], [half - 1]])).tolist() == [INT64_MAX]
    assert sum_rows(np.array([[half], [half], [-half], [-half]])).tolist() == [0]
    with pytest.raises(IntegerOverflow):
        sum_rows(np.array([[half], [half]]))


def test_sums_by_group_are_as_exact_as_sums_of_all() -> None:
    half, groups = 2**62, np.array([1, 0, 1])
    assert sum_groups(np.array([[half], [-half], [half - 1]]), groups, 2).tolist() == [[-half], [INT64_MAX]]
    with pytest.raises(IntegerOverflow):
        sum_groups(np.array([[half], [1], [half]]), groups, 2)
    assert sum_groups(np.array([[1.5], [1.0], [2.0]]), groups, 2).tolist() == [[1.0], [3.5]]


@pytest.mark.parametrize("dtype", [int, float, object])
def test_sums_over_no_rows_are_zeros_of_the_same_type(dtype: type) -> None:
    empty: np.ndarray = np.zeros((0, 2), dtype=dtype)
    assert sum_rows(empty).tolist() == [0, 0] and sum_rows(empty).dtype == np.dtype(dtype)
    assert sum_groups(empty, np.zeros(0, dtype=np.intp), 0).shape == (0, 2)


def test_the_peak_survives_the_one_integer_without_a_negative() -> None:
    lowest = np.array([[-(2**63)], [5]])
    assert peak(lowest) == 2**63
    assert peak(lowest, axis=0).tolist() == [2**63]
    assert peak(np.zeros((0, 1), dtype=int)) == 0


def test_rows_of_an_element_sum_exactly_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saibot.semiring.element.ROWS_PER_BLOCK", 3)
    monkeypatch.setattr("saibot.semiring.relation.ROWS_PER_BLOCK", 3)
    rows = np.arange(20).reshape(10, 2)
    element = Element.of_rows(("x", "y"), 2, rows)
    assert element.values.dtype == np.int64
    assert np.array_equal(element.products, rows.T @ rows)
    keyed = KeyedRelation.of_rows(("x", "y"), 2, {"k": [0, 1] * 5}, rows)
    assert np.array_equal(keyed.products, [rows[::2].T @ rows[::2], rows[1::2].T @ rows[1::2]])


def test_conversion_never_changes_a_number_to_an_integer() -> None:
    assert converted(np.array([2.0, -3.0]), int).dtype == np.int64
    assert converted(np.array([2**70, 1], dtype=object), float).tolist() == [2.0**70, 1.0]
    for inexact in ([0.5], [float("nan")], [float("inf")], [2.0**63]):
        with pytest.raises(SemiringError, match="whole numbers"):
            converted(np.array(inexact), int)
    with pytest.raises(IntegerOverflow):
        converted(np.array([2**63], dtype=object), int)


def test_writable_memory_is_copied_and_read_only_memory_is_shared() -> None:
    owned = np.array([1.0, 2.0, 3.0])
    view = owned[:]
    view.flags.writeable = False  # read-only itself, but its owner can still be written to
    for given in (owned, view):
        kept = frozen(given)
        assert not kept.flags.writeable and not np.shares_memory(kept, owned)
    fixed = sealed(np.array([1.0]))
    assert frozen(fixed) is fixed


def test_elements_and_relations_do_not_follow_later_changes_of_their_inputs() -> None:
    values, column = np.array([1, 2, 3]), np.array(["a", "b"])
    element = Element(Basis(("x",), 2), values)
    relation = KeyedRelation(Basis(("x",), 2), ("k",), (column,), np.stack([values, values]))
    values[0], column[0] = 99, "z"
    assert element.count == 1 and relation.keys[0].tolist() == ["a", "b"] and relation.counts.tolist() == [1, 1]


def test_results_cannot_be_written_to() -> None:
    left = KeyedRelation.of_rows(("x",), 2, {"k": [1, 2]}, [[1], [2]])
    right = left.rename({"x": "y"}).to_domain([[2, 1, 3]])
    results = [left, right, left + left, left * right, left.project(()), left.astype(float), left.gamma("k")]
    for relation in results:
        for array in (relation.values, relation.counts, relation.sums, *relation.keys):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    element = left.gamma()
    for made in (element, element + element, element * element, Element.one(element.basis)):
        with pytest.raises(ValueError, match="read-only"):
            made.values[0] = 0
