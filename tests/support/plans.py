"""Plans to test with, and how far rows can move what a plan releases.

`worst_rows` measures, in units of the plan's own noise, how far pairs of neighbouring rows move what the plan releases.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from itertools import combinations_with_replacement
from itertools import product as cartesian
from typing import Any

import numpy as np

from saibot.privacy.budget import Budget
from saibot.privacy.mechanisms import Plan, PlanRequest
from saibot.privacy.mechanisms.plan import Block
from saibot.privacy.neighbours import Neighbours

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE


def request(mechanism: str = "joint", layout: str = "semiring", **other: Any) -> PlanRequest:
    """The design's standing example, (1, 1e-6), m = 2, B = 5, unless said otherwise."""
    facts: dict[str, Any] = {
        "features": 2,
        "bound_squared": Decimal(25),
        "order": 2,
        "budget": Budget("1", "1e-6"),
        "neighbours": REPLACE,
    }
    facts |= other
    facts.setdefault("row_count_public", facts["neighbours"] is REPLACE and facts.get("rows_per_individual", 1) == 1)
    return PlanRequest(mechanism, layout, **facts)


def sigmas(plan: Plan) -> list[float]:
    return [block.sigma for block in plan.blocks]


def pairs_of_rows(plan: Plan, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows on the sphere and, for each, others at every angle and length: the two-parameter family of worst pairs."""
    m, bound = plan.request.features, plan.request.bound
    if m == 1:
        grid = np.linspace(-1, 1, 201) * bound
        return np.full((201, 1), bound), grid[:, None]
    signs = np.array(list(cartesian((-1.0, 1.0), repeat=min(m, 4))))
    directions = np.vstack([np.pad(signs, ((0, 0), (0, m - signs.shape[1])), constant_values=1.0), rng.normal(size=(60, m))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    others = rng.normal(size=directions.shape)
    others -= (others * directions).sum(axis=1, keepdims=True) * directions
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    ones, twos = [], []
    for angle in np.linspace(0, np.pi, 61):
        for length in (1.0, 0.7, 0.0):
            ones.append(directions)
            twos.append(length * (np.cos(angle) * directions + np.sin(angle) * others))
    ones += [directions] * len(directions)
    twos += [np.broadcast_to(row, directions.shape) for row in directions]
    return np.vstack(ones) * bound, np.vstack(twos) * bound


def in_noise_units(block: Block, rows: np.ndarray, laplace: bool) -> np.ndarray:
    """The monomials of one block, each divided by the scale of its own noise."""
    columns = []
    for chosen in combinations_with_replacement(range(rows.shape[1]), block.order):
        repeats = math.prod(math.factorial(chosen.count(f)) for f in set(chosen))
        noise = block.noise_of(math.factorial(block.order) // repeats)
        columns.append(np.prod(rows[:, list(chosen)], axis=1) / (noise / math.sqrt(2) if laplace else noise))
    return np.stack(columns, axis=1)


def worst_rows(plan: Plan) -> float:
    """The largest distance, l2 or l1 in noise units, that one individual causes among the rows tried."""
    laplace, levels = plan.noise == "laplace", plan.request.levels
    one, other = pairs_of_rows(plan, np.random.default_rng(0))

    def norm(columns: list[np.ndarray]) -> float:
        joined = np.hstack(columns)
        return float((np.abs(joined).sum(axis=1) if laplace else np.sqrt((joined**2).sum(axis=1))).max())

    alone = norm([in_noise_units(block, one, laplace) for block in plan.blocks])
    if plan.request.neighbours is ADD:
        return plan.request.rows_per_individual * alone
    found = []
    for moved in range(levels + 1 if plan.request.keyed else 1):
        columns = []
        for block in plan.blocks:
            left, right = (in_noise_units(block, rows, laplace) for rows in (one, other))
            columns += [left, right] if block.scope == "key" and block.level < moved else [left - right]
        found.append(norm(columns))
    if not plan.request.row_count_public:
        found.append(alone)
    return plan.request.rows_per_individual * max(found)


def claimed_distance(plan: Plan) -> float:
    return plan.mu if plan.mu is not None else float(plan.events[0].epsilon)  # type: ignore[union-attr]


SHAPES = [
    ("fpm", "join", {}),
    ("fpm", "join", {"order": 3}),
    ("fpm", "union", {}),
    ("fpm", "union", {"order": 3}),
    ("fpm-opt", "join", {}),
    ("fpm-opt", "join", {"order": 1}),
    ("joint", "semiring", {}),
    ("joint", "semiring", {"allocation": "alg2"}),
    ("joint", "semiring", {"allocation": "equal", "order": 3}),
    ("joint", "lookup", {}),
    ("joint", "lookup", {"levels": 3, "allocation": "alg2"}),
    ("joint", "union", {}),
]


TERMS = [{}, {"neighbours": ADD}, {"rows_per_individual": 3}, {"neighbours": ADD, "rows_per_individual": 2}]


def with_noise(plan: Plan, factor: float) -> Plan:
    return replace(plan, blocks=tuple(replace(block, sigma=block.sigma * factor) for block in plan.blocks))
