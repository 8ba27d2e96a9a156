"""Sweeping and scoring in one compiled pass: the numbers and the best candidates that numpy gives, on any shape."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from saibot.search.scored_sweep import CHUNK, best, order_by, scored_sweep
from saibot.search.scoring import Base, score
from saibot.search.sweep import _kernel, sweep

COLUMNS = ("gain", "lower", "deviation", "coefficient")


def base_of(rng: np.random.Generator, keys: int, own: int) -> Base:
    """A model of `own` features fitted to rows of random keys; its residuals are what they are."""
    places = rng.integers(0, keys, 40 * keys)
    design = np.column_stack([np.ones(len(places)), rng.normal(size=(len(places), own))])
    y = design @ rng.normal(size=own + 1) + 0.5 * np.sin(places) + rng.normal(size=len(places))
    inverse = np.linalg.inv(design.T @ design)
    theta = inverse @ design.T @ y
    residuals = np.bincount(places, y - design @ theta, keys)
    sums = np.column_stack([np.bincount(places, column, keys) for column in (*design.T, y)])
    return Base(
        inverse=inverse,
        theta=theta,
        tss=float(((y - y.mean()) ** 2).sum()),
        count=float(len(y)),
        residual_total=float(residuals.sum()),
        weight_total=float((residuals**2).sum()),
        rows_per_key=float((sums[:, 0] ** 2).sum() / len(y)),
        keys=keys,
        linear=np.column_stack([sums, residuals**2]),
        square=np.column_stack([sums[:, 0], residuals**2]),
    )


@pytest.mark.parametrize("keys", [2, 100, 255, 257, 1500])
@pytest.mark.parametrize("own", [0, 2, 3, 9])
@pytest.mark.parametrize("count", [1, 6, 1030])
def test_the_compiled_pass_gives_the_scores_that_numpy_gives(keys: int, own: int, count: int) -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(keys * 100 + own)
    base = base_of(rng, keys, own)
    values = rng.normal(size=(count, keys)).astype(np.float32)
    values[0] = 0.0  # says nothing
    found = scored_sweep(values, base, quantile=2.0)
    expected = score(*sweep(values, base.linear, base.square), base, quantile=2.0)
    for name in COLUMNS:
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9, abs=1e-12), name
    assert (best(found.rank, 5) == best(order_by(expected.gain, expected.lower), 5)).all()
    assert found.gain.max() > 0 or count == 1


def test_twenty_thousand_candidates_have_the_same_best_fifty() -> None:
    rng = np.random.default_rng(7)
    base = base_of(rng, 120, 2)
    values = rng.normal(size=(20_000, 120)).astype(np.float32)
    expected = score(*sweep(values, base.linear, base.square), base, quantile=2.0)
    found = scored_sweep(values, base, quantile=2.0)
    assert max(float(np.abs(getattr(found, name) - getattr(expected, name)).max()) for name in COLUMNS) < 1e-9
    rank = order_by(expected.gain, expected.lower)
    assert best(found.rank, 50).tolist() == np.argsort(-rank, kind="stable")[:50].tolist()


def test_without_numba_numpy_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    base, values = base_of(rng, 30, 1), rng.normal(size=(200, 30))
    with_numba = scored_sweep(values, base, quantile=2.0)
    import saibot.search

    monkeypatch.delattr(saibot.search, "kernel", raising=False)
    monkeypatch.setitem(sys.modules, "saibot.search.kernel", None)
    monkeypatch.setattr("saibot.search.sweep._kernel", _kernel.__wrapped__)  # it remembers what it has found
    without = scored_sweep(values, base, quantile=2.0)
    for name in (*COLUMNS, "rank"):
        assert getattr(without, name) == pytest.approx(getattr(with_numba, name), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("count", [0, 1, CHUNK, 10 * CHUNK + 7, 5000])
@pytest.mark.parametrize("most", [1, 3, 50, 6000])
def test_the_best_are_the_first_of_all_sorted_and_the_earlier_among_equals(count: int, most: int) -> None:
    rng = np.random.default_rng(count + most)
    for rank in (rng.normal(size=count), rng.integers(0, 4, count).astype(float), np.zeros(count)):
        assert best(rank, most).tolist() == np.argsort(-rank, kind="stable")[:most].tolist()


def test_numbers_that_are_none_spoil_no_others() -> None:
    rng = np.random.default_rng(5)
    base, values = base_of(rng, 40, 2), rng.normal(size=(9, 40)).astype(np.float32)
    sound = scored_sweep(values, base, quantile=2.0)
    values[4] = np.nan
    found = scored_sweep(values, base, quantile=2.0)
    others = np.arange(9) != 4
    assert found.gain[4] == 0 and (found.gain[others] == sound.gain[others]).all()


def test_a_target_that_does_not_vary_is_explained_by_nobody() -> None:
    """Sums of squares so small that their inverse is infinite: 0 times that is no number, and no gain."""
    rng = np.random.default_rng(5)
    base = replace(base_of(rng, 40, 1), tss=1e-300, residual_total=0.0, weight_total=0.0)
    linear, square = base.linear.copy(), base.square.copy()
    linear[:, base.size :] = 0.0
    square[:, 1] = 0.0
    base = replace(base, linear=linear, square=square, theta=np.zeros_like(base.theta))
    values = 1e-6 * rng.normal(size=(70, 40)).astype(np.float32)
    found = scored_sweep(values, base, quantile=2.0)
    assert (found.gain == 0).all() and (found.lower == 0).all()
