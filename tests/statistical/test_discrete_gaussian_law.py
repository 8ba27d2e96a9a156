"""The discrete Gaussian in bulk: its law, exactly for small scales, like OpenDP's for large ones. A broken one is found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from saibot.privatize import discrete_gaussian as bulk
from saibot.privatize.noise import OpenDPNoise

pytestmark = pytest.mark.statistical

P_MIN = 1e-9


def law_p(sample: np.ndarray, scale: int) -> float:
    """Chi-squared of all values against exp(-x^2 / 2 scale^2), the rare ones at both ends together."""
    reach = 4 * scale
    odds = np.exp(-(np.arange(-20 * scale, 20 * scale + 1) ** 2) / (2 * scale**2))
    odds /= odds.sum()
    middle = odds[20 * scale - reach : 20 * scale + reach + 1]
    tail = (1 - middle.sum()) / 2
    counts = np.bincount(np.clip(sample, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    return float(stats.chisquare(counts, np.concatenate([[tail], middle, [tail]]) * len(sample)).pvalue)


@pytest.mark.parametrize("scale", [2, 3, 5, 16, 33])
def test_every_value_of_a_small_scale_is_as_frequent_as_its_law_says(scale: int, full: bool) -> None:
    count = 3_000_000 if full else 400_000
    assert law_p(bulk.draw(count, scale), scale) > P_MIN


def test_opendp_has_the_same_law_where_it_can_be_counted(full: bool) -> None:
    zeros = np.zeros(300_000 if full else 60_000, np.int64)
    assert law_p(OpenDPNoise().gaussian(zeros, 5.0, lambda _: None), 5) > P_MIN


@pytest.mark.parametrize("scale", [4097, 2**32 + 1, 2**46 + 2**45 - 1, 2**56])
def test_large_scales_are_told_apart_neither_from_opendps_values_nor_from_the_normal_law(scale: int, full: bool) -> None:
    drawn = bulk.draw(1_000_000 if full else 400_000, scale)
    theirs = OpenDPNoise().gaussian(np.zeros(20_000, np.int64), float(scale), lambda _: None)
    assert stats.ks_2samp(drawn, theirs).pvalue > P_MIN
    assert stats.kstest(drawn / scale, stats.norm().cdf).pvalue > P_MIN
    for wrong in (0.97, 1.03):
        assert stats.kstest(drawn / (scale * wrong), stats.norm().cdf).pvalue < P_MIN
    low_digits = drawn & 63  # of a large scale they are uniform
    assert stats.chisquare(np.bincount(low_digits, minlength=64)).pvalue > P_MIN


def _always_kept(multiple: np.ndarray, offset: np.ndarray, scale: int) -> np.ndarray:
    return np.full(len(offset), 1 << 31) + 100


def _halved_exponent(multiple: np.ndarray, offset: np.ndarray, scale: int) -> np.ndarray:
    return np.sqrt(bulk_chances(multiple, offset, scale) * 2.0**31).astype(np.int64)


def _without_the_square(multiple: np.ndarray, offset: np.ndarray, scale: int) -> np.ndarray:
    return (np.exp(-multiple * offset / scale) * 2**31).astype(np.int64)


bulk_chances = bulk.chances


@pytest.mark.parametrize("broken", [_always_kept, _halved_exponent, _without_the_square])
def test_a_sampler_with_wrong_probabilities_is_found(
    broken: Callable[..., np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "chances", broken)
    monkeypatch.setattr(bulk, "BELOW", 0)
    monkeypatch.setattr(bulk, "ABOVE", 0)
    assert law_p(bulk.draw(100_000, 5), 5) < P_MIN


def test_a_sampler_that_draws_zero_twice_as_often_is_found() -> None:
    drawn = bulk.draw(400_000, 5)
    zeros = np.zeros(int((drawn == 0).sum()), np.int64)
    assert law_p(np.concatenate([drawn, zeros]), 5) < P_MIN


def test_a_sampler_without_tails_is_found() -> None:
    drawn = bulk.draw(400_000, 5)
    assert law_p(drawn[np.abs(drawn) <= 15], 5) < P_MIN
