"""The attack on keys that are found: it reaches the claim, and sees too little noise and too low a threshold."""

from __future__ import annotations

import pytest

from saibot.audit import key_attack, likelihood_ratio
from saibot.audit.key_attack import audit_found_keys, chance_of_one
from saibot.audit.likelihood_ratio import RescaledNoise
from saibot.privacy.mechanisms.found_keys import FindingPlan
from saibot.privatize.noise import OpenDPNoise


@pytest.fixture(autouse=True)
def surer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is drawn anew in each run: what is right is called broken once in 10^8 runs, not once in 10^4."""
    for module in (key_attack, likelihood_ratio):
        monkeypatch.setattr(module, "CONFIDENCE", 1 - 1e-9)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A threshold that is half a deviate lower."""
    exact = FindingPlan.threshold.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(FindingPlan, "threshold", property(lambda plan: exact(plan) - int(plan.scale) // 2))


def test_keys_that_are_found_give_away_no_more_than_is_claimed() -> None:
    findings = audit_found_keys(releases=5000, noise=OpenDPNoise())
    assert not any(finding.broken for finding in findings)
    assert findings[0].lower_bound > 0.8 * findings[0].claim, "an attack that sees nothing proves nothing"
    assert findings[1].lower_bound > 0.5 * findings[1].claim
    assert findings[2].lower_bound > 0.99 * findings[2].claim


def test_the_audit_finds_keys_found_with_thirty_per_cent_too_little_noise() -> None:
    told_apart, *_ = audit_found_keys(releases=1000, noise=RescaledNoise(0.7))
    assert told_apart.broken


def test_the_audit_finds_a_threshold_that_was_lowered(lowered: None) -> None:
    _, by_drawing, exactly = audit_found_keys(releases=1000, noise=OpenDPNoise())
    assert by_drawing.broken and exactly.broken


def test_the_drawn_rate_of_a_key_of_one_individual_is_the_exact_one(full: bool) -> None:
    found = audit_found_keys(releases=20_000 if full else 6000, noise=OpenDPNoise())[1]
    assert 0.7 * chance_of_one(key_attack.OFTEN) < found.lower_bound < chance_of_one(key_attack.OFTEN)
