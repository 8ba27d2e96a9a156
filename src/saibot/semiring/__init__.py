"""The algebra that sketches live in, and the regression that its numbers give.

`Moments` is what everything above computes with: count, sums and products by key, with the noise they carry, and `Gram`
those of a whole table, with the one solver (`Gram.fit`, `solve`). `Element` and `KeyedRelation` are the same algebra of any
order, in exact integers: its laws are tested on them.

An `Element` holds the sums of all monomials up to order k over some rows. Adding two elements is the union of
the rows, multiplying them all pairs; a `KeyedRelation` does both for every join key at once. Statistics of a
join or a union are therefore computed from those of its parts, and the join itself never is:

>>> left = KeyedRelation.of_rows(["hours"], 2, {"day": [1, 1, 2]}, [[2], [3], [5]])
>>> right = KeyedRelation.of_rows(["rain"], 2, {"day": [1, 1, 2]}, [[3], [4], [0]])
>>> joined = (left * right).gamma()         # day 1 has 2 x 2 pairs of rows, day 2 has one
>>> joined.count, joined["hours*rain"]      # 2*3 + 2*4 + 3*3 + 3*4 + 5*0
(5, 35)
>>> joined.expectation("hours*rain")
7.0
>>> (left + left) * right == left * right + left * right
True

Everything is numpy: float64, or exact integers (int64, or object for integers of any size) that stay exact.
Nothing here reads a file or draws noise.
"""

from saibot.semiring.element import Element
from saibot.semiring.errors import (
    BasisMismatch,
    FeatureNameError,
    IntegerOverflow,
    KeyPartError,
    SemiringError,
    UnknownMonomial,
)
from saibot.semiring.gram import Fit, Gram, NotPositiveDefinite, adjusted
from saibot.semiring.moments import Moments
from saibot.semiring.monomial import ONE, Basis, Monomial, lift
from saibot.semiring.product import distinct, multiply, product_basis
from saibot.semiring.relation import KeyedRelation
from saibot.semiring.solve import Solutions, solve

__all__ = [
    "ONE",
    "Basis",
    "BasisMismatch",
    "Element",
    "FeatureNameError",
    "Fit",
    "Gram",
    "IntegerOverflow",
    "KeyPartError",
    "KeyedRelation",
    "Moments",
    "Monomial",
    "NotPositiveDefinite",
    "SemiringError",
    "Solutions",
    "UnknownMonomial",
    "adjusted",
    "distinct",
    "lift",
    "multiply",
    "product_basis",
    "solve",
]
