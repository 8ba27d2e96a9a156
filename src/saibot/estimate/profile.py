"""A private profile: count, means, standard deviations and correlations, each with its error. Costs no budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saibot.estimate.totals import totals
from saibot.sketch import Sketch

DRAWS = 2000


@dataclass(frozen=True)
class Estimate:
    """A number with the standard deviation of its privacy noise; None where noise leaves nothing to say."""

    value: float | None
    error: float | None

    def to_json(self) -> dict[str, float | None]:
        return {"value": self.value, "error": self.error}


@dataclass(frozen=True)
class FeatureProfile:
    name: str
    unit: str
    mean: Estimate
    deviation: Estimate

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "unit": self.unit, "mean": self.mean.to_json(), "deviation": self.deviation.to_json()}


@dataclass(frozen=True)
class Profile:
    """What a sketch tells about its table, in original units."""

    count: Estimate
    features: tuple[FeatureProfile, ...]
    correlations: tuple[tuple[Estimate, ...], ...] | None

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count.to_json(),
            "features": [feature.to_json() for feature in self.features],
            "correlations": [[cell.to_json() for cell in row] for row in self.correlations] if self.correlations else None,
        }


def profile(sketch: Sketch, *, seed: int = 0, draws: int = DRAWS) -> Profile:
    """Errors by simulation: the noise law is public, so fresh draws of it show how far the numbers may be off.

    The draws are not a release; they only describe the spread of numbers that are already out.
    """
    found = totals(sketch)
    if sketch.header.open:
        draws = 1  # no noise, no error
    rng = np.random.default_rng(seed)
    m = len(found.features)
    count = np.maximum(found.count + rng.normal(size=draws) * np.sqrt(found.count_variance), 1.0)
    sums = found.sums + rng.normal(size=(draws, m)) * np.sqrt(found.sums_variance)
    means = sums / count[:, None]
    point_count = max(found.count, 1.0)
    point_mean = found.sums / point_count
    covariance = spread = None
    if found.products is not None and found.products_variance is not None:
        noise = rng.normal(size=(draws, m, m)) * np.sqrt(found.products_variance)
        noise = np.triu(noise) + np.swapaxes(np.triu(noise, 1), 1, 2)
        spread = (found.products + noise) / count[:, None, None] - means[:, :, None] * means[:, None, :]
        covariance = found.products / point_count - np.outer(point_mean, point_mean)
    features = []
    for i, feature in enumerate(sketch.header.features):
        mean = Estimate(float(feature.offset + feature.scale * point_mean[i]), float(feature.scale * means[:, i].std()))
        deviation = Estimate(None, None)
        if covariance is not None and spread is not None and covariance[i, i] > 0:
            deviations = np.sqrt(np.maximum(spread[:, i, i], 0))
            deviation = Estimate(float(feature.scale * covariance[i, i] ** 0.5), float(feature.scale * deviations.std()))
        features.append(FeatureProfile(feature.name, feature.unit, mean, deviation))
    error = found.count_variance**0.5
    return Profile(Estimate(found.count, error), tuple(features), _correlations(covariance, spread))


def _correlations(covariance: np.ndarray | None, spread: np.ndarray | None) -> tuple[tuple[Estimate, ...], ...] | None:
    if covariance is None or spread is None:
        return None
    m = len(covariance)
    rows = []
    for i in range(m):
        row = []
        for j in range(m):
            if i == j:
                row.append(Estimate(1.0, 0.0))
                continue
            scale = covariance[i, i] * covariance[j, j]
            drawn = spread[:, i, i] * spread[:, j, j]
            if scale <= 0 or covariance[i, i] <= 0 or np.mean((spread[:, i, i] > 0) & (spread[:, j, j] > 0)) < 0.9:
                row.append(Estimate(None, None))  # a variance is not clear of its noise: any correlation fits
                continue
            good = (spread[:, i, i] > 0) & (spread[:, j, j] > 0)
            draws = np.clip(spread[good, i, j] / np.sqrt(drawn[good]), -1, 1)
            row.append(Estimate(float(np.clip(covariance[i, j] / scale**0.5, -1, 1)), float(draws.std())))
        rows.append(tuple(row))
    return tuple(rows)
