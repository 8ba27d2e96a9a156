"""The quick audit: real releases of every mechanism are attacked, and broken noise is found.

Epsilon is high on purpose: an attack has power only where there is something to find. The full form takes more releases.
"""

from __future__ import annotations

import numpy as np
import pytest

from saibot.audit.likelihood_ratio import RescaledNoise, audit, separation
from saibot.audit.worst_pairs import audited_plans, exact_vector, noise_vector, worst_pair
from saibot.privatize.noise import OpenDPNoise

EPSILON = "24"
PLANS = audited_plans(EPSILON)
NAMES = [f"{p.request.mechanism}-{p.request.layout}-{p.request.features}-{p.noise}" for p in PLANS]


@pytest.mark.statistical
@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_the_release_gives_away_no_more_than_it_claims(plan, full):
    finding = audit(plan, releases=20_000 if full else 1000, noise=OpenDPNoise())
    assert not finding.broken, finding


@pytest.mark.statistical
@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_noise_that_is_thirty_per_cent_too_small_is_found(plan, full):
    """Enough releases that missing it is out of the question: the weakest plan clears its claim by six standard errors."""
    finding = audit(plan, releases=20_000 if full else 5000, noise=RescaledNoise(0.7))
    assert finding.broken, finding


@pytest.mark.parametrize("plan", [p for p in PLANS if p.noise == "gaussian" and p.request.mechanism == "joint"])
def test_the_pair_that_is_attacked_is_the_worst_one(plan):
    """For the joint mechanism the claimed mu is exact, so extreme rows must come close to it."""
    one, other, _ = worst_pair(plan)
    distance = np.linalg.norm((exact_vector(one, plan) - exact_vector(other, plan)) / noise_vector(one, plan))
    assert plan.mu is not None
    assert distance <= plan.mu * (1 + 1e-9)
    assert distance >= plan.mu * 0.97


def test_the_bound_stays_below_the_true_separation_of_known_normals():
    rng = np.random.default_rng(1)
    exceeded = sum(separation(rng.normal(size=2000), rng.normal(size=2000) + 2.0) > 2.0 for _ in range(200))
    assert exceeded == 0


def test_the_bound_is_not_so_weak_that_it_finds_nothing():
    rng = np.random.default_rng(2)
    assert separation(rng.normal(size=4000), rng.normal(size=4000) + 3.0) > 2.4
