"""Discrete Gaussian noise, many values at a time, in whole numbers alone.

Proof: privacy/mechanisms/discrete_gaussian.proof.md. The law is exactly P(x) proportional to exp(-x^2 / 2s^2) on all
integers x, for a whole number s (Karney 2016, algorithm D). A value is x = ±(k s + j): k is drawn with odds exp(-k^2/2), j
uniformly from 0 to s - 1, and both are kept with probability exp(-y(2k + y)/2), y = j/s. Probabilities are irrational, so
each is compared with a random number of which 31 or 32 binary digits are drawn at first. Integer arithmetic gives a lower
and an upper bound of the probability. Where the digits fall between the two, more digits are drawn and the bounds are made
tighter, in arithmetic of any size, until it is decided. Random digits are the operating system's. No floating point number
takes part.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from saibot.errors import SaibotError

LEAST_SCALE, MOST_SCALE = 2, 1 << 56
MOST_MULTIPLE = 63  # of the scale; beyond it, which has probability below 2^-2900, the draw stops
TRIES = 1 << 14  # a block's arrays stay in a core's own cache

_DIGITS = 31  # of the random number that decides whether a pair is kept
_CHOICE = 32  # of the one that decides k
_POINT = 30  # binary digits behind the point of y and of the exponent
_TABLE = 10  # digits of the exponent that one table covers
_FAST = 8  # multiples below this are in the tables
# The probability is between these, in units of 2^-31, around what the tables give. Lemma G2.
BELOW, ABOVE = 56, 6

Bounds = Callable[[int], tuple[Fraction, Fraction]]  # what encloses a probability to 2^-bits


def takes(scale: float) -> bool:
    """Whether this module draws noise of that scale: a whole number, and not too large for 64 bits."""
    return float(scale).is_integer() and LEAST_SCALE <= scale <= MOST_SCALE


def draw(count: int, scale: int, random_bytes: Callable[[int], bytes] = os.urandom) -> np.ndarray:
    """`count` independent values of the law, as 64-bit integers below 2^62 in size."""
    if not takes(scale):
        raise ValueError("the scale of this noise is a whole number from 2 to 2^56")
    noise = np.empty(count, np.int64)
    done = 0
    while done < count:
        # Two thirds of the pairs are kept where the scale is a power of two, and a third at worst.
        found = _try(min(2 * (count - done) + 64, TRIES), scale, random_bytes)[: count - done]
        noise[done : done + len(found)] = found
        done += len(found)
    return noise


def _try(tries: int, scale: int, random_bytes: Callable[[int], bytes]) -> np.ndarray:
    """The values of those tries that are kept, in the order in which they were drawn."""
    words = np.frombuffer(random_bytes(16 * tries), np.uint64)
    offset = (words[:tries] >> np.uint64(64 - (scale - 1).bit_length())).astype(np.int64)
    inside = offset < scale
    offset, rest = offset[inside], words[tries:][inside]
    choice = (rest >> np.uint64(64 - _CHOICE)).astype(np.int64)
    negative = (rest >> np.uint64(_DIGITS)) & np.uint64(1) == 1
    digits = (rest & np.uint64((1 << _DIGITS) - 1)).astype(np.int64)

    multiple = np.searchsorted(_thresholds(), choice, side="right")  # how many thresholds are not above the digits
    unsure = _is_threshold(choice)
    near = chances(np.minimum(multiple, _FAST - 1), offset, scale)
    keep = digits < near - BELOW
    unsure |= ~keep & (digits < near + ABOVE)
    for place in np.flatnonzero(unsure):
        k, j = _choose(int(choice[place]), random_bytes), int(offset[place])
        multiple[place] = k
        keep[place] = LazyUniform(int(digits[place]), _DIGITS, random_bytes).below(_kept(k, j, scale))
    keep &= ~(negative & (multiple == 0) & (offset == 0))  # or 0 would be drawn in two ways
    size = multiple[keep] * scale + offset[keep]
    return np.where(negative[keep], -size, size)


def chances(multiple: np.ndarray, offset: np.ndarray, scale: int) -> np.ndarray:
    """About exp(-y(2k + y)/2) in units of 2^-31, y = offset/scale: the truth is from BELOW less to ABOVE more. k < 8."""
    beyond = max(scale.bit_length() - 32, 0)
    y = ((offset >> beyond) << _POINT) // -(-scale >> beyond)  # lowered by less than 3 units of 2^-30
    exponent = multiple * y + (y * y >> _POINT + 1)
    coarse, fine = _exponentials()
    low = exponent & ((1 << _TABLE) - 1)
    product = coarse[exponent >> 2 * _TABLE] * fine[(exponent >> _TABLE) & ((1 << _TABLE) - 1)] >> _DIGITS
    answer: np.ndarray = product * ((1 << _POINT) - low) >> _POINT  # exp(-low/2^30) by its first two terms
    return answer


# ------------------------------------------------------------------------------------------------ decided exactly


@dataclass
class LazyUniform:
    """A uniform random number between 0 and 1, of which `count` binary digits are known; more are drawn as needed."""

    digits: int
    count: int
    random_bytes: Callable[[int], bytes]

    def below(self, bounds: Bounds) -> bool:
        """Whether it is below an irrational number (or 1), which `bounds` encloses as narrowly as one likes."""
        while True:
            lower, upper = bounds(self.count + 8)
            if Fraction(self.digits + 1, 1 << self.count) <= lower:
                return True
            if Fraction(self.digits, 1 << self.count) >= upper:
                return False
            self.digits = self.digits << 32 | int.from_bytes(self.random_bytes(4), "little")
            self.count += 32


def _choose(digits: int, random_bytes: Callable[[int], bytes]) -> int:
    """k with odds exp(-k^2/2), from its first digits on."""
    number = LazyUniform(digits, _CHOICE, random_bytes)
    for k in range(MOST_MULTIPLE + 1):
        if number.below(lambda bits, k=k: share_up_to(k, bits)):  # type: ignore[misc]
            return k
    raise SaibotError("internal: noise left its range; nothing was released. Try again.")


def _kept(k: int, j: int, scale: int) -> Bounds:
    y = Fraction(j, scale)
    return lambda bits: exponential(y * (2 * k + y) / 2, bits)


def share_up_to(k: int, bits: int) -> tuple[Fraction, Fraction]:
    """What encloses the sum of exp(-i^2/2) over i <= k, divided by the sum over all i, to 2^-bits."""
    last = k + 4
    while last * last < 2 * (
        bits + 8
    ):  # what follows is below 2 exp(-last^2/2), as each is less than half of the one before
        last += 1
    terms = [exponential(Fraction(i * i, 2), bits + 16) for i in range(last + 1)]
    lower, upper = (sum((term[side] for term in terms[: k + 1]), Fraction(0)) for side in (0, 1))
    least, most = (sum((term[side] for term in terms), Fraction(0)) for side in (0, 1))
    return lower / (most + 2 * terms[last][1]), min(upper / least, Fraction(1))


def exponential(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Two rationals of `bits` + 8 binary digits that enclose exp(-x), x >= 0, at most 2^-bits apart."""
    whole, part = divmod(x, 1)
    lower, upper = _series(part, bits + 4)
    one = _series(Fraction(1), bits + 4 + int(whole).bit_length()) if whole else (Fraction(1), Fraction(1))
    digits = 1 << bits + 8
    lower, upper = lower * one[0] ** int(whole), upper * one[1] ** int(whole)
    return Fraction(math.floor(lower * digits), digits), Fraction(math.ceil(upper * digits), digits)


@lru_cache(maxsize=512)
def _series(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """exp(-x) for 0 <= x <= 1: terms of alternating sign that shrink, so that it lies between any two sums in a row."""
    term, total, number = Fraction(1), Fraction(1), 0
    while True:
        number += 1
        term *= -x / number
        before, total = total, total + term
        if abs(term) <= Fraction(1, 1 << bits):
            digits = 1 << bits + 8
            lower, upper = sorted((before, total))
            return Fraction(math.floor(lower * digits), digits), Fraction(math.ceil(upper * digits), digits)


# ------------------------------------------------------------------------------------------------ tables


@lru_cache(maxsize=1)
def _thresholds() -> np.ndarray:
    """Digits of a choice below the first threshold mean k = 0, and so on; at a threshold it is open. The last stands for
    all k from there on."""
    found: list[int] = []
    while not found or found[-1] < (1 << _CHOICE) - 1:
        bounds = share_up_to(len(found), _CHOICE + 64)
        lower, upper = (int(bound * (1 << _CHOICE)) for bound in bounds)
        assert lower == upper
        found.append(lower)
    return np.array(found, np.int64)


def _is_threshold(choice: np.ndarray) -> np.ndarray:
    return np.isin(choice, _thresholds(), kind="sort") if len(choice) else np.zeros(0, bool)


@lru_cache(maxsize=1)
def _exponentials() -> tuple[np.ndarray, np.ndarray]:
    """exp(-i/2^10) for all exponents there are, and exp(-i/2^20) for i < 2^10, rounded down to 2^-31."""
    count = 1 << _TABLE
    return _powers(Fraction(1, count), _FAST * count), _powers(Fraction(1, count * count), count)


def _powers(step: Fraction, count: int) -> np.ndarray:
    """floor(2^31 exp(-i step)) for i < count, from bounds of 160 digits, which agree in the first 31."""
    bits = 160
    lower, upper = exponential(step, bits + 8)
    factors = int(lower * (1 << bits)), -int(-upper * (1 << bits))
    powers, found = (1 << bits, 1 << bits), np.empty(count, np.int64)
    for i in range(count):
        floors = {power >> bits - _DIGITS for power in powers}
        assert len(floors) == 1
        found[i] = floors.pop()
        powers = powers[0] * factors[0] >> bits, -(-powers[1] * factors[1] >> bits)
    return found
