"""Principal components whose directions are bought from the budget.

The second moments of the features are released once with the `joint` mechanism (layout `union`), at a share of the budget;
directions, centres and spreads of the components are post-processing of them, however many are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.privatize.aggregate import Rows, aggregate
from saibot.privatize.card import ComponentFacts
from saibot.privatize.noise import NoiseSource
from saibot.privatize.release import NoisyStatistics, choose_grid, release
from saibot.privatize.schema import Column, default_bound_squared, twelve_digits
from saibot.sketch.header import Feature


def moments_plan(request: PlanRequest, columns: list[Column]) -> Plan:
    """Orders 1 and 2 of all the component's features, whole table, as if they had the whole budget."""
    return make_plan(
        replace(
            request,
            mechanism="joint",
            layout="union",
            features=len(columns),
            bound_squared=default_bound_squared(columns),
            order=2,
            calibration=None,
            allocation="auto",
            levels=1,
            keys=(),
        )
    )


def buy_components(
    rows: Rows, plan: Plan, facts: ComponentFacts, noise: NoiseSource, *, most_rows: int, done: Callable[[int], None]
) -> tuple[Feature, ...]:
    """Draw the moments and turn them into features: weights on the scaled columns, centre and spread as bounds."""
    keyless = replace(rows, key=None)
    grid = choose_grid(plan, most_rows=most_rows)
    exact = aggregate(keyless, grid, order=2)
    count = float(exact.rows) if plan.request.row_count_public else None
    return components_of(release(exact, plan, noise, most_rows=most_rows, done=done), rows, facts, count)


def components_of(moments: NoisyStatistics, rows: Rows, facts: ComponentFacts, count: float | None) -> tuple[Feature, ...]:
    """The leading directions of (noisy) moments, as features."""
    n = count if count is not None else max(float(moments.whole[0][0]), 1.0)
    found = leading_directions(moments.whole[1] / n, moments.whole[2] / n, keep=facts.keep, spread=facts.spread)
    features = []
    for name, (direction, lower, upper) in zip(facts.names, found, strict=True):
        weights = {column.name: twelve_digits(weight) for column, weight in zip(rows.columns, direction, strict=True)}
        lower, upper = twelve_digits(lower), twelve_digits(upper)
        features.append(Feature(name=name, kind="component", lower=lower, upper=upper, weights=weights))
    return tuple(features)


def leading_directions(
    mean: np.ndarray, squares: np.ndarray, *, keep: int, spread: float
) -> list[tuple[np.ndarray, float, float]]:
    """Weights and range of the components, from (noisy) means and packed second moments of columns in [-1, 1].

    Those of the largest spread come first. Never fails: without a spread above noise, the whole box is the range.
    """
    m = len(mean)
    second = np.zeros((m, m))
    second[np.triu_indices(m)] = squares
    second = np.triu(second) + np.triu(second, 1).T
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    return [_direction(vectors[:, -i], float(values[-i]), mean, spread) for i in range(1, keep + 1)]


def _direction(vector: np.ndarray, variance: float, mean: np.ndarray, spread: float) -> tuple[np.ndarray, float, float]:
    """A direction with its largest weight positive, and the range of the component along it."""
    direction = vector * (1 if vector[np.abs(vector).argmax()] > 0 else -1)
    reach = float(np.abs(direction).sum())
    centre = float(np.clip(mean @ direction, -reach, reach))
    wide = spread * math.sqrt(variance) if variance > 0 else reach
    lower, upper = max(centre - wide, -reach), min(centre + wide, reach)
    if not upper - lower > 1e-6 * reach:
        lower, upper = -reach, reach
    return direction, lower, upper
