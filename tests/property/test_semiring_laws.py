"""The laws of the semi-ring, and *factorised = materialised*, on small integers so that equality is exact.

The materialised side is computed by nested loops over rows in plain Python: it shares no code with the package but the
`Monomial` that names a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations_with_replacement
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.semiring import Basis, Element, KeyedRelation, Monomial, distinct

orders = st.sampled_from([1, 2, 3])
numbers = st.integers(-9, 9)


# Strategies


@st.composite
def elements(draw: st.DrawFn, features: tuple[str, ...], order: int) -> Element:
    """Any integer coefficients, not only those that rows can have: noisy sketches are elements too."""
    basis = Basis(tuple(draw(st.permutations(features))), order)
    values = draw(st.lists(numbers, min_size=basis.size, max_size=basis.size))
    return Element(basis, np.array(values))


@st.composite
def relations(draw: st.DrawFn, parts: tuple[str, ...], features: tuple[str, ...], order: int) -> KeyedRelation:
    """Any keys of a small domain in any order, with any integer coefficients."""
    basis = Basis(tuple(draw(st.permutations(features))), order)
    listed = draw(st.lists(st.tuples(*(st.integers(0, 2) for _ in parts)), unique=True, max_size=5))
    shape = (len(listed), basis.size)
    values = draw(st.lists(numbers, min_size=prod(shape), max_size=prod(shape)))
    columns = tuple(np.array([key[i] for key in listed], dtype=int) for i in range(len(parts)))
    return KeyedRelation(basis, parts, columns, np.array(values, dtype=int).reshape(shape))


@dataclass(frozen=True)
class Table:
    """Rows in plain Python: each a dictionary of key parts and a dictionary of features."""

    parts: tuple[str, ...]
    features: tuple[str, ...]
    rows: list[tuple[dict[str, str], dict[str, int]]]

    def relation(self, order: int) -> KeyedRelation:
        keys = {part: np.array([key[part] for key, _ in self.rows], dtype=str) for part in self.parts}
        values = [[row[f] for f in self.features] for _, row in self.rows]
        return KeyedRelation.of_rows(self.features, order, keys, np.array(values, dtype=int).reshape(-1, len(self.features)))

    def union(self, other: Table) -> Table:
        return Table(self.parts, self.features, self.rows + other.rows)

    def join(self, other: Table) -> Table:
        shared = [part for part in self.parts if part in other.parts]
        rows = [
            ({**key, **other_key}, {**row, **other_row})
            for key, row in self.rows
            for other_key, other_row in other.rows
            if all(key[part] == other_key[part] for part in shared)
        ]
        own = tuple(part for part in other.parts if part not in self.parts)
        return Table(self.parts + own, self.features + other.features, rows)

    def sums(self, order: int) -> dict[Monomial, int]:
        """The sum of every monomial over the rows, one product at a time."""
        named = chain.from_iterable(combinations_with_replacement(self.features, i) for i in range(order + 1))
        return {Monomial.of(*f): sum(prod(row[x] for x in f) for _, row in self.rows) for f in named}

    def where(self, **key: str) -> Table:
        kept = [row for row in self.rows if all(row[0][part] == value for part, value in key.items())]
        return Table(self.parts, self.features, kept)


@st.composite
def tables(draw: st.DrawFn, parts: tuple[str, ...], features: tuple[str, ...]) -> Table:
    row = st.tuples(
        st.fixed_dictionaries({part: st.sampled_from(["a", "b", "c"]) for part in parts}),
        st.fixed_dictionaries({feature: numbers for feature in features}),
    )
    return Table(parts, features, draw(st.lists(row, max_size=6)))


def coefficients(element: Element) -> dict[Monomial, int]:
    return {monomial: element[monomial] for monomial in element.basis.monomials}


# Elements: a commutative semi-ring


@given(st.data(), orders)
def test_addition_is_commutative_and_associative(data: st.DataObject, k: int) -> None:
    a, b, c = (data.draw(elements(("x", "y"), k)) for _ in range(3))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)


@given(st.data(), orders)
def test_multiplication_is_commutative_and_associative_up_to_feature_order(data: st.DataObject, k: int) -> None:
    a, b, c = (data.draw(elements(f, k)) for f in (("x", "y"), ("z",), ("u", "v")))
    assert a * b == b * a
    assert (a * b) * c == a * (b * c)


@given(st.data(), orders)
def test_multiplication_distributes_over_addition(data: st.DataObject, k: int) -> None:
    a = data.draw(elements(("x", "y"), k))
    b, c = (data.draw(elements(("u", "v"), k)) for _ in range(2))
    assert a * (b + c) == a * b + a * c
    assert (b + c) * a == b * a + c * a


@given(st.data(), orders)
def test_zero_and_one_are_neutral_and_zero_annihilates(data: st.DataObject, k: int) -> None:
    a = data.draw(elements(("x", "y"), k))
    other = Basis(("u",), k)
    assert a + Element.zero(a.basis) == a
    assert a * Element.one(Basis((), k)) == a == Element.one(Basis((), k)) * a
    # One over other features adds these as zeros: in the paper's semi-ring of all features, nothing.
    padded = a * Element.one(other)
    assert padded.project(("x", "y")) == a
    assert all(padded[p] == 0 for p in padded.basis.monomials if "u" in p.features)
    assert a * Element.zero(other) == Element.zero(padded.basis)


@given(st.data(), orders)
def test_the_product_is_the_papers_tensor_convolution(data: st.DataObject, k: int) -> None:
    """Sum over i of the i-order part of a times the (k-i)-order part of b, on dictionaries of monomials."""
    a, b = data.draw(elements(("x", "y"), k)), data.draw(elements(("u", "v"), k))
    expected: dict[Monomial, int] = {}
    for p, value in coefficients(a).items():
        for q, other in coefficients(b).items():
            if p.order + q.order <= k:
                expected[p * q] = expected.get(p * q, 0) + value * other
    assert coefficients(a * b) == expected


@given(st.data(), orders)
def test_int_float_and_object_numbers_give_the_same_element(data: st.DataObject, k: int) -> None:
    a, b = data.draw(elements(("x",), k)), data.draw(elements(("y", "z"), k))
    for dtype in (float, object):
        assert a.astype(dtype) * b.astype(dtype) == a * b
        assert a.astype(dtype) + a == a + a


@given(st.data(), orders)
def test_project_and_rename_commute_with_the_semiring(data: st.DataObject, k: int) -> None:
    a, b = (data.draw(elements(("x", "y"), k)) for _ in range(2))
    c = data.draw(elements(("u", "v"), k))
    assert (a + b).project(("y",)) == a.project(("y",)) + b.project(("y",))
    assert (a * c).project(("v", "x")) == a.project(("x",)) * c.project(("v",))
    swap = {"x": "y", "y": "x"}
    assert (a + b).rename(swap) == a.rename(swap) + b.rename(swap)
    assert (a * c).rename(swap) == a.rename(swap) * c
    assert (a * c).project(("x", "u"), 1) == a.project(("x",), 1) * c.project(("u",), 1)


# Keyed relations: the same laws, key by key


@given(st.data(), orders)
def test_union_is_commutative_and_associative(data: st.DataObject, k: int) -> None:
    r, s, t = (data.draw(relations(("p", "q"), ("x",), k)) for _ in range(3))
    assert r + s == s + r
    assert (r + s) + t == r + (s + t)


@given(st.data(), orders)
def test_join_is_commutative_and_associative(data: st.DataObject, k: int) -> None:
    r = data.draw(relations(("p", "q"), ("x", "y"), k))
    s = data.draw(relations(("q", "t"), ("z",), k))
    u = data.draw(relations(("p",), ("w",), k))
    assert r * s == s * r
    assert (r * s) * u == r * (s * u)


@given(st.data(), orders, st.sampled_from([("p", "q"), ("q",), ("t",), ("q", "t"), ()]))
def test_join_distributes_over_union(data: st.DataObject, k: int, parts: tuple[str, ...]) -> None:
    r = data.draw(relations(("p", "q"), ("x", "y"), k))
    s, t = (data.draw(relations(parts, ("z",), k).filter(lambda found: parts or len(found) == 1)) for _ in range(2))
    assert r * (s + t) == r * s + r * t
    assert (s + t) * r == s * r + t * r


@given(st.data(), orders)
def test_the_relation_of_ones_over_the_domain_is_neutral(data: st.DataObject, k: int) -> None:
    r = data.draw(relations(("p",), ("x", "y"), k))
    domain = np.arange(3)
    ones = KeyedRelation(Basis((), k), ("p",), (domain,), np.ones((3, 1), dtype=int))
    zeros = KeyedRelation(r.basis, ("p",), (domain,), np.zeros((3, r.basis.size), dtype=int))
    assert r * ones == r == ones * r
    assert r + zeros == r
    assert r.to_domain([domain]) == r


@given(st.data(), orders)
def test_operations_on_relations_are_those_of_their_elements(data: st.DataObject, k: int) -> None:
    r = data.draw(relations(("p", "q"), ("x",), k))
    s = data.draw(relations(("q", "p"), ("x",), k))
    union, joined = r + s, r * s
    for p in range(3):
        for q in range(3):
            assert union.at(p, q) == r.at(p, q) + s.at(q, p)
            # A key that only one side lists is not in the join; the zero element says the same.
            assert joined.at(p, q) == r.at(p, q) * s.at(q, p)


# Aggregation pushdown


@given(st.data(), orders)
def test_gamma_pushes_through_union(data: st.DataObject, k: int) -> None:
    r, s = (data.draw(relations(("p", "q"), ("x", "y"), k)) for _ in range(2))
    assert (r + s).gamma() == r.gamma() + s.gamma()
    assert (r + s).gamma("q") == r.gamma("q") + s.gamma("q")


@given(st.data(), orders)
def test_gamma_pushes_through_join_down_to_the_shared_parts(data: st.DataObject, k: int) -> None:
    r = data.draw(relations(("p", "q"), ("x", "y"), k))
    s = data.draw(relations(("q", "t"), ("z",), k))
    assert (r * s).gamma() == (r.gamma("q") * s.gamma("q")).gamma()
    assert (r * s).gamma(("t",)) == (r.gamma("q") * s).gamma("t")


@given(st.data(), orders)
def test_gamma_of_a_join_without_shared_parts_is_the_product_of_the_gammas(data: st.DataObject, k: int) -> None:
    r, s = data.draw(relations(("p",), ("x",), k)), data.draw(relations(("q",), ("y", "z"), k))
    assert (r * s).gamma() == r.gamma() * s.gamma()


@given(st.data(), orders)
def test_gamma_pushes_down_a_chain_of_joins_as_in_the_paper(data: st.DataObject, k: int) -> None:
    """gamma_D(R1[A,B] join R2[B,C] join R3[C,D]) = gamma_D(gamma_C(gamma_B(R1) join R2) join R3)."""
    r1 = data.draw(relations(("A", "B"), ("x",), k))
    r2 = data.draw(relations(("B", "C"), ("y",), k))
    r3 = data.draw(relations(("C", "D"), ("z",), k))
    pushed = ((r1.gamma("B") * r2).gamma("C") * r3).gamma("D")
    assert (r1 * r2 * r3).gamma("D") == pushed


@given(st.data(), orders)
def test_gamma_in_two_steps_is_gamma_in_one(data: st.DataObject, k: int) -> None:
    r = data.draw(relations(("p", "q", "t"), ("x",), k))
    assert r.gamma(("q", "t")).gamma("t") == r.gamma("t")
    assert r.gamma("q").gamma() == r.gamma()
    assert r.gamma(("t", "p", "q")) == r


# Factorised = materialised


@pytest.mark.parametrize(
    "left_parts, right_parts",
    [(("p",), ("p",)), (("p", "q"), ("q", "p")), (("p", "q"), ("q",)), (("p", "q"), ("q", "t")), (("p",), ("q",))],
    ids=["one-key", "composite", "finer-coarser", "natural", "cross"],
)
@given(data=st.data(), k=orders)
def test_a_factorised_join_equals_the_materialised_join(
    left_parts: tuple[str, ...], right_parts: tuple[str, ...], data: st.DataObject, k: int
) -> None:
    r, s = data.draw(tables(left_parts, ("x", "y"))), data.draw(tables(right_parts, ("z",)))
    materialised = r.join(s)
    factorised = r.relation(k) * s.relation(k)
    assert coefficients(factorised.gamma()) == materialised.sums(k)
    assert factorised == materialised.relation(k)


@given(tables(("p", "q"), ("x", "y")), tables(("p", "q"), ("x", "y")), orders)
def test_a_factorised_union_equals_the_materialised_union(r: Table, s: Table, k: int) -> None:
    factorised = r.relation(k) + s.relation(k)
    assert coefficients(factorised.gamma()) == r.union(s).sums(k)
    assert factorised == r.union(s).relation(k)


@given(st.data(), orders)
def test_factorised_unions_and_joins_mixed_equal_the_materialised_ones(data: st.DataObject, k: int) -> None:
    r, s = (data.draw(tables(("p", "q"), ("x",))) for _ in range(2))
    t, u = (data.draw(tables(("q",), ("y",))) for _ in range(2))
    v = data.draw(tables(("p",), ("z",)))
    materialised = r.union(s).join(t.union(u)).join(v)
    factorised = (r.relation(k) + s.relation(k)) * (t.relation(k) + u.relation(k)) * v.relation(k)
    assert coefficients(factorised.gamma()) == materialised.sums(k)
    pushed = (r.relation(k) + s.relation(k)) * (t.relation(k).gamma("q") + u.relation(k).gamma("q"))
    assert (pushed.gamma("p") * v.relation(k)).gamma() == factorised.gamma()
    spread = [a.join(b).join(v).relation(k) for a in (r, s) for b in (t, u)]
    assert spread[0] + spread[1] + spread[2] + spread[3] == factorised


@given(tables(("p", "q"), ("x", "y")), orders)
def test_the_element_of_a_key_is_that_of_its_rows(r: Table, k: int) -> None:
    relation = r.relation(k)
    for p in "abc":
        assert coefficients(relation.gamma("p").at(p)) == r.where(p=p).sums(k)
        for q in "abc":
            assert coefficients(relation.at(p, q)) == r.where(p=p, q=q).sums(k)


@given(st.data(), orders)
def test_a_join_with_colliding_names_is_the_join_after_renaming(data: st.DataObject, k: int) -> None:
    r, s = data.draw(tables(("p",), ("x", "y"))), data.draw(tables(("p",), ("y", "x", "y.2")))
    mapping = distinct(r.features, s.features)
    assert mapping == {"y": "y.3", "x": "x.2"}
    renamed = Table(
        s.parts,
        tuple(mapping.get(f, f) for f in s.features),
        [(key, {mapping.get(f, f): value for f, value in row.items()}) for key, row in s.rows],
    )
    joined = r.relation(k) * s.relation(k)
    assert joined.basis.features == ("x", "y", "y.3", "x.2", "y.2")
    assert coefficients(joined.gamma()) == r.join(renamed).sums(k)


@given(st.data(), orders)
def test_chains_with_colliding_names_agree_up_to_those_names(data: st.DataObject, k: int) -> None:
    a, b, c = (data.draw(elements(("x",), k)) for _ in range(3))
    left, right = (a * b) * c, a * (b * c)
    assert left.basis.features == ("x", "x.2", "x.3")
    assert right.basis.features == ("x", "x.3", "x.2")
    assert left == right.rename({"x.2": "x.3", "x.3": "x.2"})
