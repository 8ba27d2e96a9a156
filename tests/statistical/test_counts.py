"""The bought count of rows in the domain: its noise is what is claimed, and the audit would see less of it."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import chi2

from saibot.audit.choices import audit_counts
from saibot.audit.likelihood_ratio import RescaledNoise
from saibot.privacy import Budget
from saibot.privatize.coverage import coverage_event, noisy_count
from saibot.privatize.noise import NoiseSource, OpenDPNoise

pytestmark = pytest.mark.statistical
P_MIN = 1e-9


def spread_pvalue(noise: NoiseSource, draws: int = 2000) -> float:
    """Of the squared noise of many counts against chi squared, both ways."""
    event = coverage_event(Decimal("0.01"), Budget("1", "1e-6"))
    drawn = [noisy_count(5000, event, 3, noise) for _ in range(draws)]
    errors = np.array([count - 5000 for count, _ in drawn]) / drawn[0][1]
    tail = float(chi2.cdf(float((errors**2).sum()), draws))
    return 2 * min(tail, 1 - tail)


def test_the_noise_of_a_count_is_as_large_as_it_says() -> None:
    assert spread_pvalue(OpenDPNoise()) > P_MIN


@pytest.mark.parametrize("wrong", [0.7, 1.3])
def test_a_count_with_too_little_or_too_much_noise_would_be_seen(wrong: float) -> None:
    assert spread_pvalue(RescaledNoise(wrong)) < P_MIN


def test_real_counts_give_away_no_more_than_is_claimed() -> None:
    (finding,) = audit_counts(releases=250, noise=OpenDPNoise())
    assert not finding.broken and finding.lower_bound > 0.5 * finding.claim


def test_the_audit_finds_counts_with_thirty_per_cent_too_little_noise() -> None:
    (finding,) = audit_counts(releases=1000, noise=RescaledNoise(0.7))
    assert finding.broken
