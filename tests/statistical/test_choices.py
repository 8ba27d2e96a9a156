"""Private choices: real draws have the odds of the exponential mechanism, neighbouring tables the ratio that is claimed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from saibot.audit.choices import audit_choices
from saibot.audit.likelihood_ratio import RescaledNoise
from saibot.privacy.neighbours import Neighbours
from saibot.privatize.bounds import rank_scores, rank_sensitivity, side_scores
from saibot.privatize.noise import NoiseSource, OpenDPNoise

pytestmark = pytest.mark.statistical
P_MIN = 1e-9
EDGES = np.arange(7.0)
SMALL = [0.5, 0.5, 1.5, 2.5, 2.5, 2.5, 4.5, 5.5, 5.5]


def scores_of(values: Sequence[float], quantile: Fraction) -> np.ndarray:
    return rank_scores(np.searchsorted(np.sort(values), EDGES, side="left"), len(values), quantile)


def odds(scores: np.ndarray, sensitivity: int, epsilon: float) -> np.ndarray:
    """The exact probabilities of the exponential mechanism."""
    weights = np.exp(-epsilon * scores / (2 * sensitivity))
    return np.asarray(weights / weights.sum())


def fits(noise: NoiseSource, draws: int) -> float:
    """The p-value of draws against the exact probabilities, for the lower quartile of a small table."""
    scores, sensitivity, epsilon = scores_of(SMALL, Fraction(1, 4)), 4, 1.5
    drawn = [noise.choose(scores, sensitivity, epsilon) for _ in range(draws)]
    counts = np.bincount(drawn, minlength=len(scores))
    return float(chisquare(counts, draws * odds(scores, sensitivity, epsilon)).pvalue)


def test_real_choices_have_the_exact_odds(full: bool) -> None:
    assert fits(OpenDPNoise(), 20_000 if full else 4000) > P_MIN


@pytest.mark.parametrize("wrong", [0.7, 1.5])
def test_a_choice_with_too_little_or_too_much_noise_would_be_seen(wrong: float) -> None:
    assert fits(RescaledNoise(wrong), 4000) < P_MIN


@given(st.lists(st.sampled_from([-9, 0.5, 1.5, 2.5, 3.5, 5.5, 99]), min_size=1, max_size=12), st.data())
def test_neighbouring_tables_have_odds_whose_ratios_span_no_more_than_epsilon(
    values: list[float], data: st.DataObject
) -> None:
    """Bounded range, and so pure epsilon too, in exact probabilities."""
    relation = data.draw(st.sampled_from(Neighbours))
    quantile = data.draw(st.sampled_from([Fraction(1, 4), Fraction(3, 4), Fraction(1, 20), Fraction(1, 2)]))
    more = data.draw(st.sampled_from([-9, 0.5, 2.5, 5.5, 99]))
    other = [*values, more] if relation is Neighbours.ADD_REMOVE else [*values[:-1], more]
    epsilon, sensitivity = 0.8, rank_sensitivity(quantile, relation)
    one, two = (odds(scores_of(table, quantile), sensitivity, epsilon) for table in (values, other))
    losses = np.log(one) - np.log(two)
    assert np.ptp(losses) <= epsilon + 1e-12 and np.abs(losses).max() <= epsilon + 1e-12
    sides = [
        odds(side_scores(*np.searchsorted(np.sort(table), [2, 4]).tolist(), len(table)), 1, epsilon)
        for table in (values, other)
    ]
    assert np.ptp(np.log(sides[0]) - np.log(sides[1])) <= epsilon + 1e-12


def test_the_pair_that_is_audited_reaches_the_claim() -> None:
    """Otherwise less noise could pass."""
    from saibot.audit import choices

    found = []
    for values in (choices.BEFORE, choices.AFTER):
        below = np.searchsorted(values, choices.EDGES, side="left")
        scores = rank_scores(below, len(values), Fraction(1, 2))
        found.append(odds(scores, rank_sensitivity(Fraction(1, 2), Neighbours.REPLACE_ONE), float(choices.EPSILON)))
    losses = np.log(found[0]) - np.log(found[1])
    assert np.ptp(losses) == pytest.approx(float(choices.EPSILON)) and losses.max() == pytest.approx(-losses.min(), abs=1e-9)
    assert math.fsum(found[0][: choices.SIDE + 1]) > 0.78


def test_real_choices_give_away_no_more_than_is_claimed() -> None:
    (finding,) = audit_choices(releases=500, noise=OpenDPNoise())
    assert not finding.broken and finding.lower_bound > 0.5 * finding.claim


def test_the_audit_finds_choices_with_thirty_per_cent_too_little_noise() -> None:
    (finding,) = audit_choices(releases=1000, noise=RescaledNoise(0.7))
    assert finding.broken
