"""Moments obey the laws of the semi-ring that they are an order-2 form of, and agree with its exact arithmetic."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from saibot.estimate.moments import exact_moments
from saibot.semiring import KeyedRelation, Moments

D = 4
SEEDS = st.integers(0, 2**32 - 1)


def rows(seed: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    return rng.integers(0, D, n), rng.integers(-3, 4, (n, width)).astype(float)


def table(seed: int, *features: str) -> Moments:
    keys, values = rows(seed, len(features))
    return exact_moments(features, values, keys, D)


def same(left: Moments, right: Moments) -> None:
    right = right.select(left.features)
    np.testing.assert_array_equal(left.matrices[0], right.matrices[0])
    np.testing.assert_array_equal(left.gram().matrix, right.gram().matrix)


@given(SEEDS, SEEDS, SEEDS)
def test_union_and_join_commute_associate_and_distribute(a, b, c):
    x, other, y, z = table(a, "x"), table(b, "x"), table(b, "y"), table(c, "z")
    same(x + other, other + x)
    same(x * y, y * x)
    same((x * y) * z, x * (y * z))
    same((x + other) * z, x * z + other * z)


@given(SEEDS, SEEDS)
def test_joins_are_those_of_the_exact_semi_ring(a, b):
    (left_keys, left), (right_keys, right) = rows(a, 2), rows(b, 1)
    exact = KeyedRelation.of_rows(("u", "v"), 2, {"k": left_keys}, left.astype(int)) * KeyedRelation.of_rows(
        ("w",), 2, {"k": right_keys}, right.astype(int)
    )
    found = table(a, "u", "v") * table(b, "w")
    whole = exact.to_domain({"k": np.arange(D)})
    np.testing.assert_array_equal(found.counts, whole.counts)
    np.testing.assert_array_equal(found.sums, whole.sums)
    np.testing.assert_array_equal(found.key_products, whole.products)


@given(SEEDS, SEEDS)
def test_keys_can_be_summed_away_before_or_after_a_union_and_a_change_of_units(a, b):
    x, other = table(a, "x", "y"), table(b, "x", "y")
    coarse, scale, shift = np.array([0, 0, 1, 1]), np.array([2.0, -1.0]), np.array([3.0, 0.0])
    same((x + other).onto(coarse, 2), x.onto(coarse, 2) + other.onto(coarse, 2))
    same(x.rescale(scale, shift).onto(coarse, 2), x.onto(coarse, 2).rescale(scale, shift))
    same((x + other).rescale(scale, shift), x.rescale(scale, shift) + other.rescale(scale, shift))


@given(SEEDS, SEEDS)
def test_a_coarser_table_joined_at_finer_keys_is_the_join_at_its_own(a, b):
    fine, coarse = table(a, "x"), table(b, "y")
    parent = np.array([0, 2, 2, 3])
    same((fine * coarse.at(parent)).onto(parent, D), fine.onto(parent, D) * coarse)
    outside = fine * coarse.at(np.array([0, -1, 2, 3]))
    assert not outside.matrices[0][1].any()
