"""Keyed relations: grouping, summing, union, join, reshaping, errors, and speed at 100,000 keys."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from saibot.semiring import Basis, BasisMismatch, Element, FeatureNameError, KeyedRelation, KeyPartError, SemiringError

SCHOOLS = ["b", "a", "b", "c"]
ROWS = np.array([[1, 2], [3, 4], [5, 6], [7, 8]])


@pytest.fixture
def relation() -> KeyedRelation:
    return KeyedRelation.of_rows(("x", "y"), 2, {"school": SCHOOLS}, ROWS)


@pytest.fixture
def composite() -> KeyedRelation:
    keys = {"school": np.array(["a", "a", "b", "a"]), "day": np.array([1, 2, 1, 1])}
    return KeyedRelation.of_rows(("x",), 2, keys, [[1], [2], [4], [8]])


def listed(relation: KeyedRelation) -> list[tuple[object, ...]]:
    return list(zip(*(column.tolist() for column in relation.keys), strict=True))


# Grouping


def test_rows_are_grouped_by_key_and_keys_come_out_sorted(relation: KeyedRelation) -> None:
    assert listed(relation) == [("a",), ("b",), ("c",)]
    assert relation.at("b") == Element.of_rows(("x", "y"), 2, ROWS[[0, 2]])
    assert relation.counts.tolist() == [1, 2, 1]
    assert relation.sums.tolist() == [[3, 4], [6, 8], [7, 8]]
    assert relation.products[1].tolist() == (ROWS[[0, 2]].T @ ROWS[[0, 2]]).tolist()
    assert relation.values.dtype == np.int64 and len(relation) == 3


def test_composite_keys_group_by_all_parts(composite: KeyedRelation) -> None:
    assert listed(composite) == [("a", 1), ("a", 2), ("b", 1)]
    assert composite.sums[:, 0].tolist() == [9, 2, 4]
    assert composite.at("a", 1).count == 2


def test_a_key_that_is_not_listed_has_the_zero_element(relation: KeyedRelation) -> None:
    assert relation.at("zz") == Element.zero(relation.basis)
    with pytest.raises(KeyPartError, match="1 parts needs as many columns, not 2"):
        relation.at("a", "b")


@pytest.mark.parametrize(
    "column",
    [
        np.array([3, 1, 3], dtype=np.int16),
        np.array([3, 1, 3], dtype=object),
        np.array(["x", "a", "x"], dtype=object),
        np.array(["x", "a", "x"], dtype=np.dtypes.StringDType()),
        np.array(["2013-01-02", "2013-01-01", "2013-01-02"], dtype="datetime64[D]"),
        np.array([True, False, True]),
    ],
)
def test_keys_may_be_text_integers_booleans_or_dates(column: np.ndarray) -> None:
    relation = KeyedRelation.of_rows(("x",), 1, {"k": column}, [[1], [2], [4]])
    assert relation.sums[:, 0].tolist() == [2, 5]
    assert relation.keys[0].dtype.kind in "UiMb"


@pytest.mark.parametrize(
    "column, message",
    [
        ([1.0, 2.0, 3.0], "not float64"),
        (np.array(["a", None, "b"], dtype=object), "not object"),
        (np.array(["2013-01-01", "NaT", "2013-01-02"], dtype="datetime64[D]"), "missing dates"),
        ([b"a", b"b", b"c"], "must be text"),
        ([[1], [2], [3]], "must be one column"),
        ([1, 2], "must have 3 keys, not 2"),
    ],
)
def test_other_keys_are_refused_without_quoting_one(column: object, message: str) -> None:
    with pytest.raises(KeyPartError, match=message):
        KeyedRelation.of_rows(("x",), 1, {"k": column}, [[1], [2], [4]])  # type: ignore[dict-item]


def test_a_relation_checks_what_it_is_built_from() -> None:
    basis, values = Basis(("x",), 1), np.ones((2, 2))
    column = np.array(["secret", "secret"])
    with pytest.raises(KeyPartError, match="1 of 2 repeat others") as caught:
        KeyedRelation(basis, ("k",), (column,), values)
    assert "secret" not in str(caught.value)
    with pytest.raises(KeyPartError, match="needs as many columns, not 0"):
        KeyedRelation(basis, ("k",), (), values)
    with pytest.raises(KeyPartError, match="unique, non-empty"):
        KeyedRelation(basis, ("k", "k"), (column, column), values)
    with pytest.raises(KeyPartError, match="unique, non-empty"):
        KeyedRelation.of_rows(("x",), 1, {"": [1]}, [[1]])
    with pytest.raises(KeyPartError, match="must have 2 keys, not 1"):
        KeyedRelation(basis, ("k",), (column[:1],), values)
    with pytest.raises(SemiringError, match=r"shape \(keys, 2\), not \(2, 3\)"):
        KeyedRelation(basis, ("k",), (np.array(["a", "b"]),), np.ones((2, 3)))
    with pytest.raises(SemiringError, match=r"shape \(n, 2\)"):
        KeyedRelation.of_rows(("x", "y"), 1, {"k": [1]}, [[1]])


def test_composite_keys_are_unique_in_combination_only() -> None:
    columns = (np.array(["a", "a", "b"]), np.array([1, 2, 1]))
    assert len(KeyedRelation(Basis((), 1), ("s", "d"), columns, np.ones((3, 1)))) == 3


def test_the_repr_tells_the_shape_and_no_value(relation: KeyedRelation) -> None:
    assert repr(relation) == "KeyedRelation(3 keys of (school), order 2 over (x, y))"


def test_relations_without_rows_work_throughout() -> None:
    empty = KeyedRelation.of_rows(("x",), 2, {"k": []}, np.zeros((0, 1)))
    other = KeyedRelation.of_rows(("y",), 2, {"k": [1, 2]}, [[1], [2]])
    assert len(empty) == len(empty * other) == len(other * empty) == 0
    assert empty.gamma() == Element.zero(empty.basis)
    assert len(empty.gamma("k")) == 0
    assert empty + other.rename({"y": "x"}) == other.rename({"y": "x"}) == other.rename({"y": "x"}) + empty
    assert (empty + other.rename({"y": "x"})).keys[0].dtype == np.int64
    assert empty.to_domain([[1, 2]]).counts.tolist() == [0, 0]


def test_a_relation_without_parts_is_one_element() -> None:
    single = KeyedRelation.of_rows(("x",), 2, {}, [[1], [2]])
    assert len(single) == 1 and single.gamma() == Element.of_rows(("x",), 2, [[1], [2]])
    none = KeyedRelation.of_rows(("x",), 2, {}, np.zeros((0, 1), dtype=int))
    assert len(none) == 0 and none + single == single == single + none
    assert none.to_domain([]).gamma() == Element.zero(none.basis)


# Summing keys away


def test_gamma_sums_all_keys_to_the_element_of_all_rows(relation: KeyedRelation) -> None:
    assert relation.gamma() == Element.of_rows(("x", "y"), 2, ROWS)


def test_gamma_keeps_the_named_parts_in_the_named_order(composite: KeyedRelation) -> None:
    by_day = composite.gamma("day")
    assert by_day.parts == ("day",) and listed(by_day) == [(1,), (2,)]
    assert by_day.sums[:, 0].tolist() == [13, 2]
    swapped = composite.gamma(("day", "school"))
    assert listed(swapped) == [(1, "a"), (1, "b"), (2, "a")]
    assert swapped == composite
    with pytest.raises(KeyPartError, match="no key part 'week'"):
        composite.gamma(("week",))
    with pytest.raises(KeyPartError, match="unique"):
        composite.gamma(("day", "day"))


# Union


def test_union_adds_shared_keys_and_keeps_the_others(relation: KeyedRelation) -> None:
    other = KeyedRelation.of_rows(("y", "x"), 2, {"school": ["d", "b"]}, [[10, 20], [30, 40]])
    union = relation + other
    assert listed(union) == [("a",), ("b",), ("c",), ("d",)]
    assert union.at("b") == relation.at("b") + other.at("b")
    assert union.at("d") == other.at("d") and union.at("a") == relation.at("a")
    assert union == other + relation


def test_union_aligns_parts_in_another_order(composite: KeyedRelation) -> None:
    swapped = composite.gamma(("day", "school"))
    assert (composite + swapped).values.tolist() == (composite.values * 2).tolist()


def test_union_refuses_other_parts_features_or_orders(relation: KeyedRelation, composite: KeyedRelation) -> None:
    with pytest.raises(KeyPartError, match="same key parts"):
        composite + composite.gamma("day")
    with pytest.raises(BasisMismatch, match="need one basis"):
        relation + relation.project(("x",))
    with pytest.raises(TypeError):
        relation + relation.gamma()  # type: ignore[operator]


def test_text_and_integer_keys_never_match_in_silence(relation: KeyedRelation) -> None:
    numbers = KeyedRelation.of_rows(("x", "y"), 2, {"school": [1]}, [[1, 2]])
    texts = KeyedRelation.of_rows(("x", "y"), 2, {"school": ["1"]}, [[1, 2]])
    for operation in (KeyedRelation.__add__, KeyedRelation.__mul__):
        with pytest.raises(KeyPartError, match="integers on one side and text on the other"):
            operation(numbers, texts)
    assert numbers != texts


# Join


def test_join_multiplies_matching_keys_and_drops_the_others(relation: KeyedRelation) -> None:
    other = KeyedRelation.of_rows(("z",), 2, {"school": ["c", "b", "b", "d"]}, [[1], [2], [3], [4]])
    joined = relation * other
    assert joined.parts == ("school",) and listed(joined) == [("b",), ("c",)]
    for school in "bc":
        assert joined.at(school) == relation.at(school) * other.at(school)
    assert joined.basis.features == ("x", "y", "z")


def test_the_coarser_side_of_a_join_is_looked_up_for_every_finer_key(composite: KeyedRelation) -> None:
    days = KeyedRelation.of_rows(("rain",), 2, {"day": [1, 2, 3]}, [[5], [6], [7]])
    joined = composite * days
    assert joined.parts == ("school", "day") and listed(joined) == listed(composite)
    assert joined.at("a", 2) == composite.at("a", 2) * days.at(2)
    other_way = days * composite
    assert other_way.parts == ("day", "school") and other_way == joined


def test_parts_that_are_not_shared_form_the_natural_join(composite: KeyedRelation) -> None:
    keys = {"day": [1, 1, 2], "hour": [7, 8, 7]}
    other = KeyedRelation.of_rows(("y",), 2, keys, [[1], [2], [3]])
    joined = composite * other
    assert joined.parts == ("school", "day", "hour")
    assert listed(joined) == [("a", 1, 7), ("a", 1, 8), ("a", 2, 7), ("b", 1, 7), ("b", 1, 8)]
    for school, day, hour in listed(joined):
        assert joined.at(school, day, hour) == composite.at(school, day) * other.at(day, hour)


def test_without_shared_parts_a_join_is_all_pairs(relation: KeyedRelation) -> None:
    days = KeyedRelation.of_rows(("rain",), 2, {"day": [1, 2]}, [[5], [6]])
    joined = relation * days
    assert len(joined) == 6
    assert joined.gamma() == relation.gamma() * days.gamma()


def test_join_renames_features_that_both_sides_have(relation: KeyedRelation) -> None:
    joined = relation * relation
    assert joined.basis.features == ("x", "y", "x.2", "y.2")
    assert joined.at("b") == relation.at("b") * relation.at("b")


def test_join_needs_one_order(relation: KeyedRelation) -> None:
    with pytest.raises(BasisMismatch, match="one order"):
        relation * relation.project(("x",), 1)
    with pytest.raises(TypeError):
        relation * relation.gamma()  # type: ignore[operator]


def test_many_composite_parts_do_not_overflow_their_code() -> None:
    rng = np.random.default_rng(5)
    columns = {f"p{i}": rng.permutation(1000) for i in range(8)}  # 1000^8 combinations exceed 64 bits
    left = KeyedRelation.of_rows(("x",), 1, columns, rng.integers(0, 9, (1000, 1)))
    shuffle = rng.permutation(1000)
    right = KeyedRelation(left.basis.rename({"x": "y"}), left.parts, tuple(c[shuffle] for c in left.keys), left.values)
    joined = left * right
    assert len(joined) == 1000
    assert joined.gamma()["y"] == left.gamma()["x"]


# Reshaping


def test_rename_takes_features_and_parts(composite: KeyedRelation) -> None:
    renamed = composite.rename({"x": "delay"}, parts={"day": "date"})
    assert renamed.basis.features == ("delay",) and renamed.parts == ("school", "date")
    assert renamed.rename({"delay": "x"}, parts={"date": "day"}) == composite
    with pytest.raises(KeyPartError, match="unique"):
        composite.rename(parts={"day": "school"})
    with pytest.raises(KeyPartError, match="no key part"):
        composite.rename(parts={"week": "w"})
    with pytest.raises(FeatureNameError):
        composite.rename({"nope": "x"})


def test_renamed_parts_decide_what_joins() -> None:
    left = KeyedRelation.of_rows(("x",), 1, {"zip": [1, 2]}, [[1], [2]])
    right = KeyedRelation.of_rows(("y",), 1, {"postcode": [2, 3]}, [[5], [7]])
    assert len(left * right) == 4
    assert listed(left * right.rename(parts={"postcode": "zip"})) == [(2,)]


def test_project_keeps_keys_and_drops_features(relation: KeyedRelation) -> None:
    assert relation.project(("y",)) == KeyedRelation.of_rows(("y",), 2, {"school": SCHOOLS}, ROWS[:, 1:])
    assert relation.project((), 1).values.tolist() == [[1], [2], [1]]


def test_to_domain_lists_exactly_the_domain_with_zero_elements_for_absent_keys(relation: KeyedRelation) -> None:
    full = relation.to_domain([["d", "c", "b", "a"]])
    assert listed(full) == [("d",), ("c",), ("b",), ("a",)]
    assert full.counts.tolist() == [0, 1, 2, 1] and full.values.dtype == np.int64
    assert full == relation  # an absent key has the zero element
    assert full.to_domain(full.keys) is full


def test_to_domain_takes_composite_domains_by_name(composite: KeyedRelation) -> None:
    full = composite.to_domain({"day": [1, 1, 2, 2], "school": ["a", "b", "a", "b"]})
    assert full.parts == composite.parts and full.counts.tolist() == [2, 1, 1, 0]
    with pytest.raises(KeyPartError, match="The domain has the parts"):
        composite.to_domain({"day": [1]})
    with pytest.raises(KeyPartError, match="must have 2 keys, not 1"):
        composite.to_domain([["a", "b"], [1]])


def test_to_domain_drops_keys_only_when_told_to(relation: KeyedRelation) -> None:
    with pytest.raises(KeyPartError, match="2 of 3 keys lie outside the domain"):
        relation.to_domain([["b"]])
    assert relation.to_domain([["b"]], drop=True) == relation * KeyedRelation(
        Basis((), 2), ("school",), (np.array(["b"]),), np.ones((1, 1))
    )
    with pytest.raises(KeyPartError, match="domain must be unique, but 1 of 2"):
        relation.to_domain([["b", "b"]], drop=True)
    with pytest.raises(KeyPartError, match="needs as many columns"):
        relation.to_domain(["a", "b", "c"])


def test_equality_ignores_the_order_of_keys_parts_and_features(composite: KeyedRelation) -> None:
    rows = {"day": np.array([2, 1, 1, 1]), "school": np.array(["a", "b", "a", "a"])}
    assert composite == KeyedRelation.of_rows(("x",), 2, rows, [[2.0], [4.0], [8.0], [1.0]])
    assert composite != composite.rename(parts={"day": "date"})
    assert composite != composite.rename({"x": "z"})
    assert composite != composite + composite
    assert composite != 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(composite)


def test_isclose_forgives_rounding_only(relation: KeyedRelation) -> None:
    def scaled(factor: float) -> KeyedRelation:
        return KeyedRelation(relation.basis, relation.parts, relation.keys, relation.values * factor)

    assert relation.isclose(scaled(1 + 1e-12)) and not relation.isclose(scaled(1.01))
    with pytest.raises(KeyPartError):
        relation.isclose(relation.rename(parts={"school": "s"}))


# Speed


def fastest(work: Callable[[], object], *, runs: int) -> float:
    def once() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(once() for _ in range(runs))


@pytest.mark.parametrize("aligned", [True, False], ids=["same-domain", "shuffled-keys"])
def test_a_join_of_100_000_keys_is_far_faster_than_a_loop_over_elements(aligned: bool) -> None:
    d = 100_000
    rng = np.random.default_rng(3)
    keys = np.arange(d)
    left = KeyedRelation(Basis(("a", "b", "c"), 2), ("k",), (keys,), rng.random((d, 10)))
    keys = keys if aligned else rng.permutation(d)
    right = KeyedRelation(Basis(("x", "y", "z"), 2), ("k",), (keys,), rng.random((d, 10)))

    sample = d // 100
    pairs = [(Element(left.basis, left.values[i]), Element(right.basis, right.values[i])) for i in range(sample)]
    loop = fastest(lambda: [a * b for a, b in pairs], runs=3) * 100
    joined = left * right
    vectorised = fastest(lambda: left * right, runs=5)
    assert joined.values.shape == (d, 28)
    assert joined.at(77) == left.at(77) * right.at(77)
    assert loop > 20 * vectorised
