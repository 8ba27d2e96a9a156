"""The discrete Gaussian in bulk decides, on arrays of integers, exactly what fractions of any size decide."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from saibot.errors import SaibotError
from saibot.privatize import discrete_gaussian as bulk
from saibot.privatize.noise import ExactNoise, OpenDPNoise

SCALES = (2, 3, 4096, 5793, 2**31 - 1, 2**32 - 1, 2**32, 2**32 + 1, 2**40 + 12345, 3 * 2**50, 2**56 - 1, 2**56)


def digits_of(seed: int) -> Callable[[int], bytes]:
    """Bytes that are the same for the same seed; those of whole blocks and those of single decisions come apart."""
    streams = {True: random.Random(seed), False: random.Random(seed + 1)}
    return lambda count: streams[count > 4].randbytes(count)


@pytest.mark.parametrize("scale", SCALES)
def test_the_bounds_of_a_probability_enclose_it_wherever_a_value_may_lie(scale: int) -> None:
    rng = random.Random(scale)
    offsets = [0, 1, scale - 1, scale // 2, *(rng.randrange(scale) for _ in range(40))]
    multiples = [rng.randrange(8) for _ in offsets]
    multiples[:4] = 0, 7, 7, 7
    near = bulk.chances(np.array(multiples), np.array(offsets, np.int64), scale)
    for k, j, found in zip(multiples, offsets, near.tolist(), strict=True):
        y = Fraction(j, scale)
        lower, upper = bulk.exponential(y * (2 * k + y) / 2, 60)
        assert found - bulk.BELOW <= lower * 2**31 and upper * 2**31 <= found + bulk.ABOVE


def test_exponentials_are_enclosed_as_narrowly_as_asked() -> None:
    for x, value in (
        (Fraction(0), 1.0),
        (Fraction(1, 3), np.exp(-1 / 3)),
        (Fraction(9), np.exp(-9.0)),
        (Fraction(81, 2), 0),
    ):
        for bits in (20, 90):
            lower, upper = bulk.exponential(x, bits)
            assert lower <= upper and upper - lower <= Fraction(1, 2**bits)
        assert abs(float(lower) - value) < 1e-15


def test_shares_of_multiples_add_up_to_one() -> None:
    odds = np.exp(-(np.arange(12) ** 2) / 2)
    for k in range(7):
        lower, upper = bulk.share_up_to(k, 80)
        assert 0 < upper - lower < Fraction(1, 2**79)
        assert float(lower) == pytest.approx(odds[: k + 1].sum() / odds.sum(), rel=1e-14)
    assert bulk.share_up_to(30, 80)[1] == 1


@pytest.mark.parametrize("scale", [5, 5793, 2**40 + 1])
def test_arrays_decide_what_fractions_decide_on_the_same_digits(scale: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = bulk.draw(300, scale, digits_of(1))
    monkeypatch.setattr(bulk, "BELOW", 2**32)  # so that no try is sure
    monkeypatch.setattr(bulk, "ABOVE", 2**32)
    assert bulk.draw(300, scale, digits_of(1)).tolist() == quick.tolist()


def test_wrong_bounds_would_be_seen_by_that_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = bulk.draw(300, 5793, digits_of(1)).tolist()
    monkeypatch.setattr(bulk, "BELOW", -(2**27))  # keeps a few that it should not
    assert bulk.draw(300, 5793, digits_of(1)).tolist() != exact


def test_what_the_first_digits_leave_open_the_next_ones_decide() -> None:
    lower, _ = bulk.exponential(Fraction(1, 3), 40)
    first = int(lower * 2**31)  # the number lies between this and the next
    for more, kept in ((b"\x00" * 4, True), (b"\xff" * 4, False)):
        number = bulk.LazyUniform(first, 31, lambda count, more=more: more)  # type: ignore[misc]
        assert number.below(lambda bits: bulk.exponential(Fraction(1, 3), bits)) is kept
        assert number.count == 63


def test_a_choice_beyond_the_tables_is_still_made_and_one_beyond_all_range_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = (1 << 32) - 1
    chosen = bulk._choose(ones, lambda count: bytes(count))
    assert chosen == 6  # 1 - 2^-32 is a little below C_6
    assert bulk._choose(ones, lambda count: b"\x00\x00\x00\xff") == 7
    monkeypatch.setattr(bulk, "MOST_MULTIPLE", 9)  # 63 takes 3000 digits
    with pytest.raises(SaibotError, match="left its range"):
        bulk._choose(ones, lambda count: b"\xff" * count)


def test_zero_is_drawn_in_one_way_only() -> None:
    """All digits 0: j = 0, k = 0, positive. With the sign's digit set the same try is not kept."""
    words = np.zeros(4, np.uint64)
    words[3] = 1 << 31
    assert bulk._try(2, 4096, lambda count: words.tobytes()).tolist() == [0]


@pytest.mark.parametrize("scale", [2, 2**56])
def test_values_stay_in_their_range(scale: int) -> None:
    drawn = bulk.draw(40_000, scale)
    assert drawn.dtype == np.int64 and len(drawn) == 40_000
    assert np.abs(drawn).max() < 9 * scale and (drawn > 0).any() and (drawn < 0).any()


@pytest.mark.parametrize("scale", [1.0, 2.5, 2.0**57])
def test_a_scale_that_is_not_proved_for_is_drawn_by_opendp(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "draw", None)
    assert not bulk.takes(scale)
    assert len(ExactNoise(many=1).gaussian(np.zeros(5, np.int64), scale, lambda _: None)) == 5
    if scale.is_integer():
        monkeypatch.undo()
        with pytest.raises(ValueError, match="whole number"):
            bulk.draw(1, int(scale))


def test_few_values_are_drawn_one_by_one_and_many_in_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(bulk, "draw", lambda count, scale: asked.append((count, scale)) or np.zeros(count, np.int64))
    finished: list[int] = []
    values = np.arange(300_000).reshape(3, -1)
    assert (ExactNoise().gaussian(values, 4096.0, finished.append) == values).all()
    assert sum(count for count, _ in asked) == sum(finished) == values.size and {scale for _, scale in asked} == {4096}
    asked.clear()
    ExactNoise().gaussian(values[:, :10], 4096.0, finished.append)
    OpenDPNoise().gaussian(values[:, :10], 4096.0, finished.append)
    assert not asked


def test_numbers_at_the_edge_of_64_bits_do_not_wrap_around() -> None:
    edges = np.array([-(2**63), 2**63 - 1] * 50, np.int64)
    noisy = ExactNoise(many=1).gaussian(edges, 2.0**56, lambda _: None)
    assert (noisy[::2] < -(2**61)).all() and (noisy[1::2] > 2**61).all()
