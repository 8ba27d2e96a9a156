"""The small solvers that scores share, against numpy on well-conditioned matrices and beyond where those end."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.semiring.solve import inverse_roots, wald


def covariances(count: int = 5, size: int = 3) -> np.ndarray:
    draws = np.random.default_rng(0).normal(size=(count, 20, size))
    return draws.transpose(0, 2, 1) @ draws / 20


def test_inverse_roots_square_to_the_inverse():
    matrices = covariances()
    roots = inverse_roots(matrices, least=0.0)
    np.testing.assert_allclose(roots @ roots.transpose(0, 2, 1), np.linalg.inv(matrices), rtol=1e-9)


def test_directions_below_the_least_count_as_much_as_it_and_no_more():
    roots = inverse_roots(np.diag([4.0, 1e-9])[None], least=0.01)
    assert sorted(np.diag((roots @ roots.transpose(0, 2, 1))[0])) == pytest.approx([0.25, 100.0])


def test_the_wald_statistic_is_the_squared_distance_in_units_of_the_error():
    matrices, vectors = covariances(), np.random.default_rng(1).normal(size=(5, 3))
    expected = [v @ np.linalg.inv(m) @ v for v, m in zip(vectors, matrices, strict=True)]
    np.testing.assert_allclose(wald(vectors, matrices), expected, rtol=1e-6)
    assert wald(np.array([[3.0]]), np.array([[[4.0]]]))[0] == pytest.approx(9 / 4)


def test_the_wald_statistic_of_errors_that_repeat_each_other_is_that_of_one():
    error = np.array([2.0, 2.0])
    assert wald(np.array([[3.0, 3.0]]), np.outer(error, error)[None])[0] == pytest.approx(9 / 4, rel=1e-6)
    assert wald(np.zeros((1, 2)), np.zeros((1, 2, 2)))[0] == 0
