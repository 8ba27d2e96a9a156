"""The worked examples of the paper, number by number."""

from __future__ import annotations

from itertools import product

import numpy as np

from saibot.semiring import Element, KeyedRelation, Monomial


def test_the_join_of_two_relations_of_order_three() -> None:
    """R1[A] = [2, 3] and R2[B] = [3, 4]: section "Monomial Semi-ring", last example."""
    r1 = Element.of_rows(("A",), 3, [[2], [3]])
    r2 = Element.of_rows(("B",), 3, [[3], [4]])
    assert r1.values.tolist() == [2, 5, 13, 35]
    assert r2.values.tolist() == [2, 7, 25, 91]
    s = r1 * r2
    assert s.count == 4
    assert s["A*B"] == 35
    assert s.expectation("A*B") == 8.75
    assert s == Element.of_rows(("A", "B"), 3, list(product([2, 3], [3, 4])))
    assert {str(p): s[p] for p in s.basis.monomials} == {
        **{"1": 4, "A": 10, "B": 14, "A*A": 26, "A*B": 35, "B*B": 50},
        **{"A*A*A": 70, "A*A*B": 91, "A*B*B": 125, "B*B*B": 182},
    }


def test_linear_regression_over_a_union_and_a_join() -> None:
    """Train C on D over (R1 union R2) join_A R3; section "Factorized Machine Learning Primer".

    The tables are in a figure that the paper's source does not hold. These have its schema and give the aggregates
    that the text prints, [[80, 24], [24, 8]] and [66, 22].
    """
    r1 = KeyedRelation.of_rows(("B", "C"), 2, {"A": ["a1", "a2"]}, [[1, 1], [2, 2]])
    r2 = KeyedRelation.of_rows(("B", "C"), 2, {"A": ["a1", "a2"]}, [[3, 3], [4, 5]])
    r3 = KeyedRelation.of_rows(("D",), 2, {"A": ["a1", "a1", "a2", "a2"]}, [[2], [4], [2], [4]])
    s = ((r1 + r2) * r3).gamma()

    left = [("a1", 1, 1), ("a2", 2, 2), ("a1", 3, 3), ("a2", 4, 5)]
    right = [("a1", 2), ("a1", 4), ("a2", 2), ("a2", 4)]
    rows = [(b, c, d) for (key, b, c), (other, d) in product(left, right) if key == other]
    assert s == Element.of_rows(("B", "C", "D"), 2, rows)

    gram = np.array([[s["D*D"], s["D"]], [s["D"], s.count]])
    moments = np.array([s["C*D"], s["C"]])
    assert gram.tolist() == [[80, 24], [24, 8]]
    assert moments.tolist() == [66, 22]
    theta = np.linalg.solve(gram, moments)
    np.testing.assert_allclose(theta, [0, 2.75], atol=1e-12)

    x, y = np.array([[d, 1] for _, _, d in rows]), np.array([c for _, c, _ in rows])
    np.testing.assert_allclose(np.linalg.lstsq(x, y, rcond=None)[0], theta, atol=1e-12)
    loss = s["C*C"] - 2 * theta @ moments + theta @ gram @ theta
    np.testing.assert_allclose(loss, ((y - x @ theta) ** 2).sum())


def test_the_monomials_of_three_variables() -> None:
    """Orders 1 and 2 of B, C, D as the text lists them."""
    basis = Element.of_rows(("B", "C", "D"), 3, [[1, 1, 1]]).basis
    assert {str(p) for p in basis.monomials[basis.slice(1)]} == {"B", "C", "D"}
    assert {str(p) for p in basis.monomials[basis.slice(2)]} == {"B*B", "B*C", "C*C", "B*D", "C*D", "D*D"}
    third = set(basis.monomials[basis.slice(3)])
    assert len(third) == 10
    assert {Monomial.of(*text) for text in ("BBB", "BBC", "BBD", "BCC", "BCD")} <= third
