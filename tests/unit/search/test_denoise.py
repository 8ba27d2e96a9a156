"""A private request's own features are read key by key only as far as they say something there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saibot.estimate.moments import exact_moments
from saibot.search.denoise import steadied, training_state
from saibot.search.state import State
from saibot.semiring import Moments

D, ROWS, NOISE = 80, 1600, 9.0


def table(rng: np.random.Generator, between: float) -> tuple[Moments, Moments]:
    """Exact and noisy moments; x varies between keys by `between`, and y follows x and a key's own level."""
    keys = rng.integers(0, D, ROWS)
    x = between * rng.normal(size=D)[keys] + 0.3 * rng.normal(size=ROWS)
    y = x + 0.4 * rng.normal(size=D)[keys] + 0.3 * rng.normal(size=ROWS)
    exact = exact_moments(("x", "y"), np.column_stack([x, y]), keys, D)
    sums = exact.sums + NOISE * rng.normal(size=exact.sums.shape)
    return exact, replace(exact, sums=sums, sum_noise=np.full(D, NOISE), product_noise=np.full((2, 2), 1e-9))


def residual_error(exact: Moments, seen: Moments) -> float:
    truth = State.of(exact, "y").residual_sums()
    return float(np.mean((State.of(seen, "y").residual_sums() - truth) ** 2))


def test_an_own_feature_that_keys_do_not_tell_apart_adds_no_noise_to_the_residuals():
    rng = np.random.default_rng(1)
    pairs = [table(rng, between=0.0) for _ in range(20)]
    raw = np.mean([residual_error(exact, noisy) for exact, noisy in pairs])
    better = np.mean([residual_error(exact, steadied(noisy, "y")) for exact, noisy in pairs])
    assert raw == pytest.approx(2 * NOISE**2, rel=0.15)  # its own noise and that of the feature
    assert better == pytest.approx(NOISE**2, rel=0.2)


def test_one_that_does_vary_from_key_to_key_is_kept():
    rng = np.random.default_rng(2)
    pairs = [table(rng, between=2.0) for _ in range(20)]
    for exact, noisy in pairs:
        kept = steadied(noisy, "y").sums[:, 0]
        assert np.corrcoef(kept, exact.sums[:, 0])[0, 1] >= np.corrcoef(noisy.sums[:, 0], exact.sums[:, 0])[0, 1] - 0.005
    raw, better = (
        np.mean([residual_error(exact, made(noisy)) for exact, noisy in pairs])
        for made in (lambda noisy: noisy, lambda noisy: steadied(noisy, "y"))
    )
    assert better < 1.05 * raw


@pytest.mark.parametrize("between", [0.0, 0.3, 2.0])
def test_the_noise_of_the_residuals_is_told_as_it_is_after_that(between):
    rng = np.random.default_rng(4)
    pairs = [table(rng, between) for _ in range(40)]
    told = np.mean([training_state(noisy, "y").residual_noise().mean() for _, noisy in pairs])
    assert told == pytest.approx(np.mean([residual_error(exact, steadied(noisy, "y")) for exact, noisy in pairs]), rel=0.1)


def test_the_target_the_totals_and_exact_requests_stay_as_they_are():
    exact, noisy = table(np.random.default_rng(3), between=0.5)
    assert steadied(exact, "y") is exact
    done = steadied(noisy, "y")
    np.testing.assert_array_equal(done.sums[:, 1], noisy.sums[:, 1])
    np.testing.assert_array_equal(done.products, noisy.products)
    np.testing.assert_array_equal(done.total, noisy.total)
    assert training_state(noisy, "y").r2() == pytest.approx(State.of(noisy, "y").r2())
