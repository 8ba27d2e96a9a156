"""The worked examples of the paper, number by number."""

from __future__ import annotations

from itertools import product

import numpy as np

from saibot.semiring import Basis, Moments, Monomial, lift


def of_rows(features: str, rows: list[list[int]], keys: list[int] | None = None) -> Moments:
    places = np.array(keys if keys is not None else [0] * len(rows))
    return Moments.of_rows(tuple(features), np.array(rows, float), places, int(places.max()) + 1)


def test_the_join_of_two_relations() -> None:
    """R1[A] = [2, 3] and R2[B] = [3, 4]: section "Monomial Semi-ring", last example, and its sums up to order 3."""
    assert lift(Basis(("A",), 3), np.array([[2], [3]])).sum(axis=0).tolist() == [2, 5, 13, 35]
    assert lift(Basis(("B",), 3), np.array([[3], [4]])).sum(axis=0).tolist() == [2, 7, 25, 91]
    joined = (of_rows("A", [[2], [3]]) * of_rows("B", [[3], [4]])).gram()
    assert joined.count == 4
    assert joined.matrix[1, 2] == 35
    assert joined.matrix[1, 2] / joined.count == 8.75
    assert joined.matrix.tolist() == [[4, 10, 14], [10, 26, 35], [14, 35, 50]]
    basis = Basis(("A", "B"), 2)
    packed = lift(basis, np.array([*product([2, 3], [3, 4])])).sum(axis=0)
    assert packed[basis.squares].tolist() == joined.matrix[1:, 1:].tolist()


def test_linear_regression_over_a_union_and_a_join() -> None:
    """Train C on D over (R1 union R2) join_A R3; section "Factorized Machine Learning Primer".

    The tables are in a figure that the paper's source does not hold. These have its schema and give the aggregates
    that the text prints, [[80, 24], [24, 8]] and [66, 22].
    """
    r1 = of_rows("BC", [[1, 1], [2, 2]], [0, 1])
    r2 = of_rows("BC", [[3, 3], [4, 5]], [0, 1])
    r3 = of_rows("D", [[2], [4], [2], [4]], [0, 0, 1, 1])
    joined = (r1 + r2) * r3

    left = [("a1", 1, 1), ("a2", 2, 2), ("a1", 3, 3), ("a2", 4, 5)]
    right = [("a1", 2), ("a1", 4), ("a2", 2), ("a2", 4)]
    rows = [(b, c, d) for (key, b, c), (other, d) in product(left, right) if key == other]
    with_one = np.column_stack([np.ones(len(rows)), rows])
    assert joined.features == ("B", "C", "D")
    assert joined.gram().matrix.tolist() == (with_one.T @ with_one).tolist()

    sums = joined.gram().matrix
    gram, moments = sums[np.ix_([3, 0], [3, 0])], sums[[3, 0], 2]
    assert gram.tolist() == [[80, 24], [24, 8]]
    assert moments.tolist() == [66, 22]
    fit = joined.gram().fit(("D",), "C", ridge=0.0)
    theta = np.array([fit.coefficients[0], fit.intercept])
    np.testing.assert_allclose(theta, [0, 2.75], atol=1e-12)
    np.testing.assert_allclose(theta, np.linalg.solve(gram, moments), atol=1e-12)

    x, y = np.array([[d, 1] for _, _, d in rows]), np.array([c for _, c, _ in rows])
    np.testing.assert_allclose(np.linalg.lstsq(x, y, rcond=None)[0], theta, atol=1e-12)
    np.testing.assert_allclose(fit.rss, ((y - x @ theta) ** 2).sum())


def test_the_monomials_of_three_variables() -> None:
    """Orders 1 and 2 of B, C, D as the text lists them."""
    basis = Basis(("B", "C", "D"), 3)
    assert {str(p) for p in basis.monomials[basis.slice(1)]} == {"B", "C", "D"}
    assert {str(p) for p in basis.monomials[basis.slice(2)]} == {"B*B", "B*C", "C*C", "B*D", "C*D", "D*D"}
    third = set(basis.monomials[basis.slice(3)])
    assert len(third) == 10
    assert {Monomial.of(*text) for text in ("BBB", "BBC", "BBD", "BCC", "BCD")} <= third
