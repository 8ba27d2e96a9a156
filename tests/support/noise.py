"""Noise sources that draw nothing, or the same for the same seed. What they are added to says that it is simulated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from research.seeded import Seeded
from saibot.privatize.noise import NoiseSource


class NoNoise:
    """Adds nothing: what comes out is what went in. Keeps the scales it was asked for."""

    simulated = True

    def __init__(self) -> None:
        self.scales: list[float] = []
        self.drawn = 0

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        self.scales.append(scale)
        self.drawn += values.size
        return values

    laplace = gaussian

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        self.scales.append(2 * sensitivity / epsilon)
        return int(scores.argmin())


def simulated(seed: int | None) -> NoiseSource:
    """The noise of a seed; without one, none at all."""
    return NoNoise() if seed is None else Seeded(seed)
