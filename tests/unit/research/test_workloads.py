"""The generators are the paper's, their bounds hold, and the vectorised regressions are the library's."""

from __future__ import annotations

import numpy as np
import pytest

from research.baselines.noise import keyed_moment_matrices, moment_matrices
from research.figures import fitting
from research.workloads import key_signal, synthetic
from saibot.estimate.many_to_many import join_gram
from saibot.estimate.moments import exact_moments


class FixedUniforms:
    """A generator whose uniform numbers are given in advance."""

    def __init__(self, *blocks: np.ndarray) -> None:
        self.blocks = list(blocks)

    def uniform(self, size: tuple[int, ...]) -> np.ndarray:
        return self.blocks.pop(0).reshape(size)


def test_covariances_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    for seed in range(5):
        theirs = datasets.make_spd_matrix(3, random_state=seed)
        state = np.random.RandomState(seed)
        blocks = [state.uniform(size=(3, 3)), state.uniform(size=3)]
        ours = synthetic.spd_matrices(1, 3, FixedUniforms(*blocks))[0]  # type: ignore[arg-type]
        assert ours == pytest.approx(theirs)


def test_no_row_leaves_the_ball_and_the_covariance_is_kept() -> None:
    rng = np.random.default_rng(0)
    covariances = synthetic.spd_matrices(4, 3, rng)
    rows = synthetic.bounded_rows(covariances, 20_000, bound=5.0, rng=rng)
    assert (rows**2).sum(axis=2).max() <= 25
    assert np.swapaxes(rows, 1, 2) @ rows / 20_000 == pytest.approx(covariances, abs=0.35)
    tight = synthetic.bounded_rows(covariances, 2000, bound=1.0, rng=rng)
    assert (tight**2).sum(axis=2).max() <= 1


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_second_generator_puts_the_stated_share_between_keys(share: float) -> None:
    rng = np.random.default_rng(1)
    covariance = synthetic.spd_matrices(1, 3, rng)
    table = next(key_signal.keyed_tables(covariance, 20_000, keys=2000, share=share, rng=rng, bound=50.0))
    assert (table.rows**2).sum(axis=1).max() <= 50.0**2
    moments = table.moments
    means = moments[:, 0, 1:] / moments[:, :1, 0]
    between = means.T @ means / 2000 - (1 - share) * covariance[0] / 10
    assert between == pytest.approx(share * covariance[0], abs=0.12)
    assert table.rows.T @ table.rows / 20_000 == pytest.approx(covariance[0], abs=0.12)


def test_a_batch_of_unions_has_the_moments_of_its_rows(monkeypatch) -> None:
    monkeypatch.setattr(synthetic, "BATCH", 25)
    covariances = synthetic.spd_matrices(5, 3, np.random.default_rng(2))
    found = synthetic.union_moments(covariances, 10, tables=2, rng=np.random.default_rng(3))
    assert found.shape == (5, 2, 4, 4) and (found[:, :, 0, 0] == 10).all()
    rng = np.random.default_rng(3)
    first = moment_matrices(synthetic.bounded_rows(covariances[:2], 10, bound=5.0, rng=rng))
    assert found[:2, 0] == pytest.approx(first)


def test_slopes_are_least_squares_and_a_matrix_that_is_not_positive_definite_fails() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(3, 50, 3)) + 0.5
    moments = moment_matrices(rows)
    for run in range(3):
        y, X = rows[run, :, 0], rows[run, :, 1:]
        assert fitting.slopes(moments)[run] == pytest.approx(np.linalg.lstsq(X, y, rcond=None)[0])
        with_one = np.linalg.lstsq(np.column_stack([np.ones(50), X]), y, rcond=None)[0]
        assert fitting.slopes(moments, centred=True)[run] == pytest.approx(with_one[1:])
        assert fitting.repaired_slopes(moments, np.zeros((4, 4)))[run] == pytest.approx(with_one[1:])
    moments[1, 2, 2] = -1
    broken = fitting.slopes(moments)
    assert np.isnan(broken[1]).all() and np.isfinite(broken[[0, 2]]).all()
    assert np.isinf(fitting.distance(broken, np.zeros((3, 2)))[1])


def test_a_negative_count_is_a_failure_too() -> None:
    moments = moment_matrices(np.random.default_rng(5).normal(size=(1, 50, 3)))
    assert np.isnan(fitting.slopes(-moments)).all()


def test_the_ridge_reaches_only_the_features_it_is_given_for() -> None:
    moments = moment_matrices(np.random.default_rng(6).normal(size=(1, 5000, 3)))
    pinned = fitting.slopes(moments, ridge=np.array([0.0, 1e9]))[0]
    alone = fitting.slopes(moments[:, :3, :3])[0]
    assert pinned[0] == pytest.approx(alone[0]) and abs(pinned[1]) < 1e-6


def test_joins_of_all_runs_at_once_are_the_library_s() -> None:
    rng = np.random.default_rng(7)
    keys, n = 6, 90
    left, right, expected = [], [], []
    for _ in range(3):
        rows, place = rng.normal(size=(n, 3)), np.arange(n) % keys
        left.append(keyed_moment_matrices(rows[:, :2], place, keys))
        right.append(keyed_moment_matrices(rows[:, 2:], place, keys))
        sides = [
            exact_moments(names, rows[:, columns], place, keys) for names, columns in ((("y", "a"), [0, 1]), (("b",), [2]))
        ]
        expected.append([join_gram(*sides, estimator=estimator).matrix for estimator in ("naive", "paper")])
    found = fitting.joined(np.array(left), np.array(right))
    assert found == pytest.approx(np.array([naive for naive, _ in expected]))
    published = fitting.as_published(found, left=2, rows=n, keys=keys)
    # With the same number of rows in every key, the means of the join are those of the table.
    assert published == pytest.approx(np.array([paper for _, paper in expected]) / n)


def test_the_statistics_error_counts_every_monomial_once_and_the_count_never() -> None:
    truth = np.zeros((1, 3, 3))
    moved = truth.copy()
    moved[0, 0, 0] = 100
    moved[0, 0, 1] = moved[0, 1, 0] = 3
    moved[0, 1, 2] = moved[0, 2, 1] = 4
    assert fitting.statistics_error(moved, truth, 1.0) == pytest.approx([5.0])
