"""The moments of a whole table as one matrix, and the linear model that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saibot.errors import InvalidInput
from saibot.semiring.solve import Penalty, centred, solve


@dataclass(frozen=True)
class Fit:
    """A linear model with how well it fits the moments that it came from. R2 is never above 1 and never NaN."""

    features: tuple[str, ...]
    target: str
    intercept: float
    coefficients: np.ndarray
    inverse: np.ndarray  # (m, m): of the features' scatter around their means
    r2: float
    rss: float
    tss: float
    count: float
    ridge: float
    repaired: bool

    @property
    def theta(self) -> np.ndarray:
        """Intercept, then coefficients."""
        return np.concatenate([[self.intercept], self.coefficients])


@dataclass(frozen=True)
class Gram:
    """Moments over [1, features...] of some (joined) table: the matrix and the standard deviation of its entries' noise."""

    features: tuple[str, ...]
    matrix: np.ndarray
    noise: np.ndarray

    def __post_init__(self) -> None:
        size = 1 + len(self.features)
        matrix = np.asarray(self.matrix, dtype=float)
        if matrix.shape != (size, size) or not np.isfinite(matrix).all():
            raise InvalidInput(f"a Gram matrix over 1 and {size - 1} features has {size} finite rows and columns.")
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def exact(cls, features: Sequence[str], matrix: np.ndarray) -> Gram:
        return cls(tuple(features), matrix, np.zeros(np.shape(matrix)))

    @property
    def count(self) -> float:
        return float(self.matrix[0, 0])

    def arranged(self, features: Sequence[str], target: str) -> tuple[np.ndarray, np.ndarray]:
        """The matrix over [1, features..., target], and its noise."""
        wanted = (*features, target)
        missing = [name for name in wanted if name not in self.features]
        if missing:
            raise InvalidInput(f"there is no feature {missing[0]!r}.", hint=f"There are {', '.join(self.features)}.")
        places = np.array([0, *(1 + self.features.index(name) for name in wanted)])
        return self.matrix[places[:, None], places], self.noise[places[:, None], places]

    def fit(self, features: Sequence[str], target: str, *, ridge: Penalty = "auto") -> Fit:
        """The target's regression on some features, repaired where noise asks for it: see `saibot.semiring.solve`."""
        matrix, noise = self.arranged(features, target)
        found = solve(matrix[None], noise[None], ridge=ridge)
        return Fit(
            features=tuple(features),
            target=target,
            intercept=float(found.intercept[0]),
            coefficients=found.coefficients[0],
            inverse=found.inverse[0],
            r2=float(found.r2[0]),
            rss=float(found.rss[0]),
            tss=float(found.tss[0]),
            count=max(self.count, 1.0),
            ridge=float(found.ridge[0]),
            repaired=bool(found.repaired[0]),
        )

    def r2_of(self, fit: Fit) -> float:
        """R2 of a model of other rows on these: at most 1, 0 where the target does not vary."""
        matrix, _ = self.arranged(fit.features, fit.target)
        n = max(self.count, 1.0)
        scatter = centred(matrix[None], np.array([n]))[0]
        weights = np.append(-fit.coefficients, 1.0)
        tss = float(scatter[-1, -1])
        if tss <= 0:
            return 0.0
        miss = float(weights @ matrix[0, 1:]) / n - fit.intercept
        return min(1 - (float(weights @ scatter @ weights) + n * miss**2) / tss, 1.0)
