"""The laws of the semi-ring, and *factorised = materialised*, on small integers so that equality of floats is exact.

`+` is union, `*` joins on one key, `onto` sums keys away and `at` repeats a key's rows for every finer key: a natural join
of two tables brings both to the keys that either has and multiplies. The materialised side is computed by nested loops over
rows in plain Python and shares no code with the package but the `Monomial` that names a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.semiring import Moments, Monomial, distinct

LETTERS = "abc"  # the keys of every part
numbers = st.integers(-9, 9)


def places(finer: tuple[str, ...], coarser: tuple[str, ...]) -> np.ndarray:
    """For every key over some parts, the place of the key over fewer of them."""
    grid = dict(zip(finer, np.indices((len(LETTERS),) * len(finer)), strict=True))
    found = np.zeros((len(LETTERS),) * len(finer), np.intp)
    for part in coarser:
        found = found * len(LETTERS) + grid[part]
    return found.ravel()


@dataclass(frozen=True)
class Keyed:
    """Moments with the names of their key's parts."""

    parts: tuple[str, ...]
    moments: Moments

    def __add__(self, other: Keyed) -> Keyed:
        return Keyed(self.parts, self.moments + other.to(self.parts).moments)

    def __mul__(self, other: Keyed) -> Keyed:
        """The natural join."""
        parts = (*self.parts, *(part for part in other.parts if part not in self.parts))
        sides = [one.moments.at(places(parts, one.parts)) for one in (self, other)]
        return Keyed(parts, sides[0] * sides[1])

    def gamma(self, *keep: str) -> Keyed:
        return Keyed(keep, self.moments.onto(places(self.parts, keep), len(LETTERS) ** len(keep)))

    def to(self, parts: tuple[str, ...]) -> Keyed:
        """The same with its parts in another order."""
        return Keyed(parts, self.moments.at(places(parts, self.parts)))


@st.composite
def keyed(draw: st.DrawFn, parts: tuple[str, ...], features: tuple[str, ...]) -> Keyed:
    """Any integer moments, not only those that rows can have: noisy sketches are moments too."""
    names = tuple(draw(st.permutations(features)))
    shape = (len(LETTERS) ** len(parts), len(names) + 1, len(names) + 1)
    drawn = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(-9, 10, shape).astype(float)
    return Keyed(parts, Moments.by_key(names, np.triu(drawn) + np.triu(drawn, 1).transpose(0, 2, 1), np.zeros(shape)))


def moments(features: tuple[str, ...]) -> st.SearchStrategy[Moments]:
    return keyed(("p",), features).map(lambda found: found.moments)


def same(left: Moments | Keyed, right: Moments | Keyed) -> None:
    if isinstance(left, Keyed) and isinstance(right, Keyed):
        left, right = left.moments, right.to(left.parts).moments
    assert isinstance(left, Moments) and isinstance(right, Moments)
    right = right.select(left.features)
    np.testing.assert_array_equal(left.matrices[0], right.matrices[0])
    np.testing.assert_array_equal(left.gram().matrix, right.gram().matrix)


def constant(like: Moments, count: float, features: tuple[str, ...]) -> Moments:
    """`count` rows of zeros in every key."""
    matrices = np.zeros((len(like), len(features) + 1, len(features) + 1))
    matrices[:, 0, 0] = count
    return Moments.by_key(features, matrices, np.zeros(matrices.shape))


# A commutative semi-ring


@given(moments(("x", "y")), moments(("x", "y")), moments(("x", "y")))
def test_union_is_commutative_and_associative(a, b, c):
    same(a + b, b + a)
    same((a + b) + c, a + (b + c))


@given(moments(("x", "y")), moments(("z",)), moments(("u", "v")))
def test_a_join_is_commutative_and_associative_up_to_the_order_of_features(a, b, c):
    same(a * b, b * a)
    same((a * b) * c, a * (b * c))


@given(moments(("x", "y")), moments(("u", "v")), moments(("u", "v")))
def test_a_join_distributes_over_a_union(a, b, c):
    same(a * (b + c), a * b + a * c)
    same((b + c) * a, b * a + c * a)


@given(moments(("x", "y")))
def test_zero_and_one_are_neutral_and_zero_annihilates(a):
    same(a + constant(a, 0, ("x", "y")), a)
    same(a * constant(a, 1, ()), a)
    same(constant(a, 1, ()) * a, a)
    padded = a * constant(a, 1, ("u",))  # one over another feature adds it as zeros, and nothing else
    same(padded.select(a.features), a)
    u = padded.features.index("u")
    assert not padded.sums[:, u].any() and not padded.matrices[0][:, 1 + u].any()
    assert not (a * constant(a, 0, ("u",))).matrices[0].any()


def coefficients(matrix: np.ndarray, features: tuple[str, ...]) -> dict[Monomial, float]:
    names = ((), *((name,) for name in features))
    return {
        Monomial.of(*one, *other): matrix[i, j]
        for i, one in enumerate(names)
        for j, other in enumerate(names)
        if i <= j  # the matrix is symmetric, and holds a sum of products once
    }


@given(moments(("x", "y")), moments(("u", "v")))
def test_the_product_is_the_papers_tensor_convolution(a, b):
    """Sum over i of the i-order part of a times the (2-i)-order part of b, on dictionaries of monomials."""
    joined = a * b
    for key in range(len(a)):
        expected: dict[Monomial, float] = {}
        for p, value in coefficients(a.matrices[0][key], a.features).items():
            for q, other in coefficients(b.matrices[0][key], b.features).items():
                if p.order + q.order <= 2:
                    name = Monomial.of(*p.features, *q.features)
                    expected[name] = expected.get(name, 0) + value * other
        assert coefficients(joined.matrices[0][key], joined.features) == expected


@given(moments(("x", "y")), moments(("x", "y")), moments(("u", "v")))
def test_selecting_and_renaming_features_commute_with_union_and_join(a, b, c):
    same((a + b).select(("y",)), a.select(("y",)) + b.select(("y",)))
    same((a * c).select(("v", "x")), a.select(("x",)) * c.select(("v",)))
    same(a.rename(("s", "t")) + b.select(a.features).rename(("s", "t")), (a + b).rename(("s", "t")))
    same((a * c).rename(("s", "t", *c.features)), a.rename(("s", "t")) * c)


@given(moments(("x", "y")), moments(("x", "y")))
def test_a_change_of_units_commutes_with_union_and_with_summing_keys_away(a, b):
    b = b.select(a.features)
    scale, shift, coarse = np.array([2.0, -1.0]), np.array([3.0, 0.0]), np.array([0, 0, 1])
    same((a + b).rescale(scale, shift), a.rescale(scale, shift) + b.rescale(scale, shift))
    same(a.rescale(scale, shift).onto(coarse, 2), a.onto(coarse, 2).rescale(scale, shift))


# The same laws for natural joins, key by key


@given(keyed(("p", "q"), ("x", "y")), keyed(("q", "t"), ("z",)), keyed(("p",), ("w",)))
def test_a_natural_join_is_commutative_and_associative(r, s, u):
    same(r * s, s * r)
    same((r * s) * u, r * (s * u))


@pytest.mark.parametrize("parts", [("p", "q"), ("q",), ("t",), ("q", "t"), ()])
@given(data=st.data())
def test_a_natural_join_distributes_over_union(parts, data):
    r = data.draw(keyed(("p", "q"), ("x", "y")))
    s, t = (data.draw(keyed(parts, ("z",))) for _ in range(2))
    same(r * (s + t), r * s + r * t)
    same((s + t) * r, s * r + t * r)


# Aggregation pushdown


@given(keyed(("p", "q"), ("x", "y")), keyed(("p", "q"), ("x", "y")))
def test_gamma_pushes_through_union(r, s):
    same((r + s).gamma(), r.gamma() + s.gamma())
    same((r + s).gamma("q"), r.gamma("q") + s.gamma("q"))


@given(keyed(("p", "q"), ("x", "y")), keyed(("q", "t"), ("z",)))
def test_gamma_pushes_through_a_join_down_to_the_shared_parts(r, s):
    same((r * s).gamma(), (r.gamma("q") * s.gamma("q")).gamma())
    same((r * s).gamma("t"), (r.gamma("q") * s).gamma("t"))


@given(keyed(("p",), ("x",)), keyed(("q",), ("y", "z")))
def test_gamma_of_a_join_without_shared_parts_is_the_product_of_the_gammas(r, s):
    same((r * s).gamma(), r.gamma() * s.gamma())


@given(keyed(("A", "B"), ("x",)), keyed(("B", "C"), ("y",)), keyed(("C", "D"), ("z",)))
def test_gamma_pushes_down_a_chain_of_joins_as_in_the_paper(r1, r2, r3):
    """gamma_D(R1[A,B] join R2[B,C] join R3[C,D]) = gamma_D(gamma_C(gamma_B(R1) join R2) join R3)."""
    same((r1 * r2 * r3).gamma("D"), ((r1.gamma("B") * r2).gamma("C") * r3).gamma("D"))


@given(keyed(("p", "q", "t"), ("x",)))
def test_gamma_in_two_steps_is_gamma_in_one(r):
    same(r.gamma("q", "t").gamma("t"), r.gamma("t"))
    same(r.gamma("q").gamma(), r.gamma())
    same(r.gamma("t", "p", "q"), r)
    same(r.gamma().moments, r.moments.whole())


@given(moments(("x",)), moments(("y",)))
def test_a_coarser_table_joined_at_finer_keys_is_the_join_at_its_own(fine, coarse):
    parent = np.array([0, 2, 2])
    same((fine * coarse.at(parent)).onto(parent, 3), fine.onto(parent, 3) * coarse)
    outside = fine * coarse.at(np.array([0, -1, 2]))
    assert not outside.matrices[0][1].any()


# Factorised = materialised


@dataclass(frozen=True)
class Table:
    """Rows in plain Python: each a dictionary of key parts and a dictionary of features."""

    parts: tuple[str, ...]
    features: tuple[str, ...]
    rows: list[tuple[dict[str, str], dict[str, int]]]

    def keyed(self) -> Keyed:
        places = [0] * len(self.rows)
        for part in self.parts:
            places = [
                place * len(LETTERS) + LETTERS.index(key[part]) for place, (key, _) in zip(places, self.rows, strict=True)
            ]
        values = np.array([[row[f] for f in self.features] for _, row in self.rows], float).reshape(-1, len(self.features))
        size = len(LETTERS) ** len(self.parts)
        return Keyed(self.parts, Moments.of_rows(self.features, values, np.array(places, np.intp), size))

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

    def sums(self) -> dict[Monomial, int]:
        """The sum of every monomial over the rows, one product at a time."""
        named = [f for order in range(3) for f in combinations_with_replacement(self.features, order)]
        return {Monomial.of(*f): sum(prod(row[x] for x in f) for _, row in self.rows) for f in named}

    def where(self, **key: str) -> Table:
        kept = [row for row in self.rows if all(row[0][part] == value for part, value in key.items())]
        return Table(self.parts, self.features, kept)


@st.composite
def tables(draw: st.DrawFn, parts: tuple[str, ...], features: tuple[str, ...]) -> Table:
    row = st.tuples(
        st.fixed_dictionaries({part: st.sampled_from(LETTERS) for part in parts}),
        st.fixed_dictionaries({feature: numbers for feature in features}),
    )
    return Table(parts, features, draw(st.lists(row, max_size=6)))


def whole(found: Keyed) -> dict[Monomial, float]:
    return coefficients(found.moments.gram().matrix, found.moments.features)


@pytest.mark.parametrize(
    "left_parts, right_parts",
    [(("p",), ("p",)), (("p", "q"), ("q", "p")), (("p", "q"), ("q",)), (("p", "q"), ("q", "t")), (("p",), ("q",))],
    ids=["one-key", "composite", "finer-coarser", "natural", "cross"],
)
@given(data=st.data())
def test_a_factorised_join_equals_the_materialised_join(left_parts, right_parts, data):
    r, s = data.draw(tables(left_parts, ("x", "y"))), data.draw(tables(right_parts, ("z",)))
    materialised = r.join(s)
    factorised = r.keyed() * s.keyed()
    assert whole(factorised) == materialised.sums()
    same(factorised, materialised.keyed())


@given(tables(("p", "q"), ("x", "y")), tables(("p", "q"), ("x", "y")))
def test_a_factorised_union_equals_the_materialised_union(r, s):
    factorised = r.keyed() + s.keyed()
    assert whole(factorised) == r.union(s).sums()
    same(factorised, r.union(s).keyed())


@given(st.data())
def test_factorised_unions_and_joins_mixed_equal_the_materialised_ones(data):
    r, s = (data.draw(tables(("p", "q"), ("x",))) for _ in range(2))
    t, u = (data.draw(tables(("q",), ("y",))) for _ in range(2))
    v = data.draw(tables(("p",), ("z",)))
    materialised = r.union(s).join(t.union(u)).join(v)
    factorised = (r.keyed() + s.keyed()) * (t.keyed() + u.keyed()) * v.keyed()
    assert whole(factorised) == materialised.sums()
    pushed = (r.keyed() + s.keyed()) * (t.keyed() + u.keyed())
    same((pushed.gamma("p") * v.keyed()).gamma(), factorised.gamma())
    spread = [a.join(b).join(v).keyed() for a in (r, s) for b in (t, u)]
    same(spread[0] + spread[1] + spread[2] + spread[3], factorised)


@given(tables(("p", "q"), ("x", "y")))
def test_the_moments_of_a_key_are_those_of_its_rows(r):
    matrices = r.keyed().moments.matrices[0]
    for place, (p, q) in enumerate((p, q) for p in LETTERS for q in LETTERS):
        assert coefficients(matrices[place], r.features) == r.where(p=p, q=q).sums()
    for place, p in enumerate(LETTERS):
        assert coefficients(r.keyed().gamma("p").moments.matrices[0][place], r.features) == r.where(p=p).sums()


@given(tables(("p",), ("x", "y")), tables(("p",), ("y", "x", "y.2")))
def test_a_join_with_colliding_names_is_the_join_after_renaming(r, s):
    mapping = distinct(r.features, s.features)
    assert mapping == {"y": "y.3", "x": "x.2"}
    renamed = Table(
        s.parts,
        tuple(mapping.get(f, f) for f in s.features),
        [(key, {mapping.get(f, f): value for f, value in row.items()}) for key, row in s.rows],
    )
    joined = r.keyed() * s.keyed()
    assert joined.moments.features == ("x", "y", "y.3", "x.2", "y.2")
    assert whole(joined) == r.join(renamed).sums()


@given(moments(("x",)), moments(("x",)), moments(("x",)))
def test_chains_with_colliding_names_agree_up_to_those_names(a, b, c):
    left, right = (a * b) * c, a * (b * c)
    assert left.features == ("x", "x.2", "x.3")
    assert right.features == ("x", "x.3", "x.2")
    same(left, right.rename(("x", "x.2", "x.3")))
