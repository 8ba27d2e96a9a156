"""Noise that can be drawn again: numpy's, from a seed. For simulation only, and a sketch made with it says so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Seeded:
    """A `NoiseSource` with the laws of the real one, rounded to whole steps. A platform refuses what it is added to."""

    simulated = True

    def __init__(self, seed: int | tuple[int, ...] | np.random.Generator) -> None:
        self.rng = np.random.default_rng(seed)

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return np.asarray(values + np.rint(self.rng.normal(0, scale, values.shape)).astype(np.int64))

    def laplace(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return np.asarray(values + np.rint(self.rng.laplace(0, scale, values.shape)).astype(np.int64))

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        """The exponential mechanism, which is the best score after Gumbel noise."""
        return int(np.argmin(scores - self.rng.gumbel(0, 2 * sensitivity / epsilon, len(scores))))
