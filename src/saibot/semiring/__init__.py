"""The algebra that sketches live in, and the regression that its numbers give.

`Moments` is what everything above computes with: count, sums and products by key, with the noise they carry. Adding two is
the union of their rows, multiplying them all pairs of rows with the same key, and `whole` sums keys away. So statistics of a
join or a union are computed from those of its parts, and the join itself never is:

>>> import numpy as np
>>> left = Moments.of_rows(("hours",), np.array([[2], [3], [5]]), np.array([0, 0, 1]), 2)
>>> right = Moments.of_rows(("rain",), np.array([[3], [4], [0]]), np.array([0, 0, 1]), 2)
>>> joined = (left * right).gram()      # the first of the two keys has 2 x 2 pairs of rows, the second has one
>>> joined.count, float(joined.matrix[1, 2])      # 2*3 + 2*4 + 3*3 + 3*4 + 5*0
(5.0, 35.0)
>>> np.array_equal(((left + left) * right).gram().matrix, 2 * joined.matrix)
True

`Gram` is the moment matrix of a whole table, with the one solver (`Gram.fit`, `solve`). `Basis` names the columns of packed
statistics of any order. Nothing here reads a file or draws noise.
"""

from saibot.semiring.errors import FeatureNameError, IntegerOverflow, SemiringError, UnknownMonomial
from saibot.semiring.gram import Fit, Gram
from saibot.semiring.moments import Moments, distinct
from saibot.semiring.monomial import Basis, Monomial, lift
from saibot.semiring.solve import Solutions, solve

__all__ = [
    "Basis",
    "FeatureNameError",
    "Fit",
    "Gram",
    "IntegerOverflow",
    "Moments",
    "Monomial",
    "SemiringError",
    "Solutions",
    "UnknownMonomial",
    "distinct",
    "lift",
    "solve",
]
