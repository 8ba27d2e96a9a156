"""Samples of sets tell how much of one lies in another, within the bounds that they state."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.discover.minhash import KEPT, LOWEST_RUNG, KeySample, below, bounds, containment, key_hashes, rung_of

NEVER = 1e-9  # a doubt so small that a test which fails has found a fault


def keys(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


def test_the_hash_of_a_key_is_the_same_for_good() -> None:
    expected = int.from_bytes(
        hashlib.blake2b("Zürich".encode(), digest_size=8, person=b"saibot-minhash-1").digest(), "little"
    )
    assert key_hashes(["Zürich"]).tolist() == [expected]
    assert key_hashes(["01M015"]).tolist() == [0xC3E4447D2B73790E]


def test_hashes_are_sorted_and_each_is_there_once() -> None:
    hashes = key_hashes(["b", "a", "b", "c"])
    assert len(hashes) == 3 and (np.diff(hashes.astype(object)) > 0).all()
    assert len(key_hashes([])) == 0


def test_small_sets_are_kept_whole_and_large_ones_in_part() -> None:
    assert [rung_of(n) for n in (0, 1, KEPT, 2 * KEPT - 1, 2 * KEPT, 4 * KEPT, 10**7)] == [0, 0, 0, 0, 1, 2, LOWEST_RUNG]
    for size in (100, 511, 512, 5000, 40_000):
        sample = KeySample.of(keys("k", size))
        assert sample.size == size
        expected = size / 2**sample.rung
        assert abs(len(sample.hashes) - expected) <= 6 * np.sqrt(expected) * (sample.rung > 0)


def test_a_sample_holds_exactly_the_hashes_below_its_limit() -> None:
    hashes = key_hashes(keys("k", 3000))
    for rung in range(6):
        assert below(hashes, rung).tolist() == [h for h in hashes.tolist() if h < 2 ** (64 - rung)]


@given(st.integers(0, 600), st.integers(0, 600), st.integers(0, 600))
def test_of_small_sets_the_answer_is_exact(both: int, mine: int, theirs: int) -> None:
    if both + mine == 0 or both + theirs > 2 * KEPT - 1:
        return
    query, other = KeySample.query(keys("b", both) + keys("m", mine)), KeySample.of(keys("b", both) + keys("t", theirs))
    found = containment(query, other, doubt=NEVER)
    assert found.exact and found.value == pytest.approx(both / (both + mine)) and found.sample == both + mine
    assert found.lower == pytest.approx(found.value)


@given(st.integers(0, 3000), st.integers(1, 3000), st.integers(0, 20_000), st.integers(0, 10**6))
def test_the_containment_lies_within_its_stated_bounds(both: int, mine: int, theirs: int, salt: int) -> None:
    shared = keys(f"{salt}b", both)
    query, other = KeySample.query(shared + keys(f"{salt}m", mine)), KeySample.of(shared + keys(f"{salt}t", theirs))
    truth = both / (both + mine)
    found = containment(query, other, doubt=NEVER)
    assert 0 <= found.lower <= truth + 1e-12 and truth - 1e-12 <= found.upper <= 1
    assert found.lower - 1e-12 <= found.value <= found.upper + 1e-12 or found.sample == 0
    assert found.sample <= len(query.hashes)


@pytest.mark.statistical
def test_bounds_with_a_doubt_of_one_tenth_hold_nine_times_in_ten_and_are_not_empty_words(full: bool) -> None:
    runs, held, width = 4000 if full else 200, 0, []
    for salt in range(runs):
        shared = keys(f"{salt}b", 60)
        query = KeySample.query(shared + keys(f"{salt}m", 40))
        other = KeySample.of(shared + keys(f"{salt}t", 3000))
        found = containment(query, other, doubt=0.1)
        held += found.lower <= 0.6 <= found.upper
        width.append(found.upper - found.lower)
    assert held >= 0.9 * runs  # Chernoff's bound is cautious: about 0.98 hold
    assert np.median(width) < 0.85


@pytest.mark.statistical
def test_the_estimate_is_right_on_average_also_for_a_small_set_in_a_large_one(full: bool) -> None:
    runs, hits, asked = 2000 if full else 150, 0.0, 0
    for salt in range(runs):
        shared = keys(f"{salt}b", 30)
        found = containment(
            KeySample.query(shared + keys(f"{salt}m", 20)), KeySample.of(shared + keys(f"{salt}t", 5000)), doubt=NEVER
        )
        hits, asked = hits + found.value * found.sample, asked + found.sample
    assert abs(hits / asked - 0.6) < 6 * np.sqrt(0.24 / asked)


def test_a_question_of_very_many_keys_is_sampled_itself() -> None:
    query = KeySample.query(keys("k", 50_000))
    assert query.rung > 0 and len(query.hashes) < 20_000
    found = containment(query, KeySample.of(keys("k", 25_000)), doubt=NEVER)
    assert found.lower <= 0.5 <= found.upper and found.upper - found.lower < 0.25


def test_what_was_seen_bounds_the_share_for_certain() -> None:
    lower, upper = bounds(np.array([3, 0, 9]), np.array([5, 0, 9]), np.array([100, 4, 9]), 10, doubt=0.999)
    assert (lower >= [0.3, 0.0, 0.9]).all() and (upper <= [0.8, 0.4, 0.9]).all()


def test_nothing_looked_up_means_nothing_known() -> None:
    lower, upper = bounds(np.array([0]), np.array([0]), np.array([1000]), 10, doubt=1e-3)
    assert (lower[0], upper[0]) == (0.0, 1.0)


@given(st.integers(0, 50), st.integers(0, 50), st.floats(1e-12, 0.5))
def test_a_smaller_doubt_never_narrows_the_bounds(hits: int, misses: int, doubt: float) -> None:
    counts = (np.array([hits]), np.array([hits + misses]), np.array([10_000]), 1000)
    narrow, wide = bounds(*counts, doubt=doubt), bounds(*counts, doubt=doubt / 10)
    assert wide[0] <= narrow[0] + 1e-9 and narrow[1] <= wide[1] + 1e-9


@pytest.mark.parametrize("doubt", [0.0, 1.0, -1.0])
def test_a_doubt_that_is_no_probability_is_refused(doubt: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        bounds(np.array([1]), np.array([2]), np.array([2]), 2, doubt=doubt)
