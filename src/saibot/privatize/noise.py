"""Where noise comes from. Releases take a `NoiseSource`; the only ones that a platform accepts are this module's.

OpenDP draws exact discrete Gaussian and discrete Laplace noise on integers from the operating system's entropy: no floating
point number and no seed is involved, so low-order bits tell nothing. Scores with Gumbel noise on them are compared exactly,
too: each noise is refined digit by digit until it is decided which one is the larger. It draws one value after the other,
which takes 10 microseconds each. Many values `discrete_gaussian.py` draws from the same law, fifty times as fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from saibot.errors import SaibotError
from saibot.privatize import discrete_gaussian

CHUNK = 20_000  # values that a thread has drawn by OpenDP at a time
MANY = 20_000  # values from which on they are drawn together
_BULK = 1 << 16  # of those, values that a thread draws at a time
_FARTHEST = (1 << 62) - 1  # a number that gets noise in bulk is clamped to this, so that the sum is one of 64 bits


class NoiseSource(Protocol):
    """Adds independent integer noise of one scale to every entry of an integer vector."""

    @property
    def simulated(self) -> bool:
        """True for anything but cryptographic noise; such a sketch says so and platforms refuse it."""
        ...

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray: ...

    def laplace(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray: ...

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        """A small score's index by the exponential mechanism: i with odds exp(-epsilon scores[i] / (2 sensitivity)).

        Where each score moves by at most `sensitivity`, in either direction, this is of bounded range epsilon.
        """
        ...


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


class OpenDPNoise:
    """Exact integer noise from OpenDP. `done` hears how many entries are finished."""

    simulated = False

    def __init__(self) -> None:
        _opendp()  # where it is not installed this is said now, before anything is charged

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return _run(gaussian_measurement(scale), values, done)

    def laplace(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return _run(laplace_measurement(scale), values, done)

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
        scale = 2 * sensitivity / epsilon
        # This measure has Gumbel noise. With `max_divergence` it would be exponential, which costs twice the mu.
        picker: Any = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale, negate=True)
        if picker.map(sensitivity) > epsilon**2 / 8 * (1 + 1e-9):  # what bounded range epsilon means in zCDP
            raise SaibotError(
                "internal: OpenDP's map does not confirm a private choice; nothing was released. Please report this."
            )
        return int(picker(scores.tolist()))


class ExactNoise(OpenDPNoise):
    """What releases get: OpenDP's noise, and from `many` values on the same law drawn in bulk."""

    def __init__(self, many: int = MANY) -> None:
        super().__init__()
        self._many = many

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        if not discrete_gaussian.takes(scale) or values.size < self._many:
            return super().gaussian(values, scale, done)

        def noisy(chunk: np.ndarray) -> np.ndarray:
            answer: np.ndarray = np.clip(chunk, -_FARTHEST, _FARTHEST) + discrete_gaussian.draw(len(chunk), int(scale))
            done(len(chunk))
            return answer

        return _on_threads(noisy, values, _BULK)


@lru_cache(maxsize=64)
def gaussian_measurement(scale: float) -> Any:
    """OpenDP's discrete Gaussian on vectors of 64-bit integers. (T=int would mean 32 bits, which saturate silently.)"""
    dp = _opendp()
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale)


@lru_cache(maxsize=64)
def laplace_measurement(scale: float) -> Any:
    dp = _opendp()
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)


def _run(measurement: Any, values: np.ndarray, done: Callable[[int], None]) -> np.ndarray:
    def noisy(chunk: np.ndarray) -> np.ndarray:
        answer = np.array(measurement(chunk.tolist()), dtype=np.int64)
        done(len(chunk))
        return answer

    return _on_threads(noisy, values, CHUNK)


def _on_threads(noisy: Callable[[np.ndarray], np.ndarray], values: np.ndarray, size: int) -> np.ndarray:
    """In chunks on several threads (drawing releases the interpreter lock); entries are independent, so order is free."""
    flat = np.ascontiguousarray(values, dtype=np.int64).ravel()
    chunks = [flat[start : start + size] for start in range(0, len(flat), size)]
    if len(chunks) <= 1:
        return noisy(flat).reshape(values.shape)
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 8)) as pool:
        parts = list(pool.map(noisy, chunks))
    return np.concatenate(parts).reshape(values.shape)
