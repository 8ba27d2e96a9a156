"""A round of training gives away no more than it claims, and noise that is too small is seen."""

from __future__ import annotations

import pytest

from saibot.audit.training_attack import audit_training

pytestmark = pytest.mark.statistical


def test_a_round_gives_away_no_more_than_it_claims(full):
    (finding,) = audit_training(releases=400 if full else 30)
    assert not finding.broken, finding
    assert finding.estimate > 0.5 * finding.claim, "an attack without power would show nothing"


def test_a_round_with_too_little_noise_is_found(full):
    """At a third of its noise: whole rounds are slow, and so few of them see no less."""
    (finding,) = audit_training(releases=400 if full else 40, noise_factor=0.7 if full else 0.35)
    assert finding.broken, finding
