"""Neighbouring tables that a plan finds hardest to hide: exact statistics before and after one row changes."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import MECHANISMS, Plan, PlanRequest, make_plan
from saibot.privatize.aggregate import ExactStatistics
from saibot.privatize.release import centred_scatter, choose_grid
from saibot.semiring import Basis, lift

ROWS = 8
KEYS = 4


def audited_plans(epsilon: str) -> list[Plan]:
    """One plan for every mechanism, layout and noise law. Classical calibration stops at epsilon 1, so all are analytic."""
    plans = []
    every = [(mechanism, layout) for mechanism in MECHANISMS.values() for layout in mechanism.layouts]
    shapes = [(*one, one[1].tightest, 1) for one in every] + [(*one, 1, 2) for one in every if one[1].levels]
    for mechanism, layout, features, levels in shapes:
        for delta in ("1e-6", "0"):
            request = PlanRequest(
                mechanism=mechanism.name,
                layout=layout.name,
                features=features,
                bound_squared=Decimal(features),
                order=2,
                budget=Budget(epsilon if delta != "0" else "6", delta),
                neighbours=Neighbours.REPLACE_ONE,
                row_count_public=True,
                calibration=None if delta == "0" else "analytic",
                allocation=mechanism.allocations[0] if mechanism.allocations else None,
                levels=levels,
                rows=ROWS,
            )
            plans.append(make_plan(request))
    return plans


def worst_pair(plan: Plan) -> tuple[ExactStatistics, ExactStatistics, int]:
    """The pair, among extreme rows with the key kept or moved, whose statistics differ most in units of the noise."""
    grid = choose_grid(plan, most_rows=ROWS)
    m = plan.request.features
    corners = [np.array(signs) for signs in np.ndindex(*(3,) * m)]
    rows = [(corner - 1) * grid.one for corner in corners if (corner != 1).any()]
    best: tuple[float, ExactStatistics, ExactStatistics] | None = None
    for first in rows:
        for second in rows:
            for moved in (0, 1, 2) if plan.request.keyed else (0,):
                one, other = _table(plan, first, 0), _table(plan, second, moved)
                apart = _whitened(one, plan) - _whitened(other, plan)
                distance = float(np.linalg.norm(apart, ord=1 if plan.noise == "laplace" else 2))
                if best is None or distance > best[0]:
                    best = (distance, one, other)
    assert best is not None
    return best[1], best[2], ROWS


def _table(plan: Plan, row: np.ndarray, key: int) -> ExactStatistics:
    """A small table: the given row, and others in one corner that do not change. Keys 0, 1 share a parent, 2, 3 another."""
    m = plan.request.features
    grid = choose_grid(plan, most_rows=ROWS)
    basis = Basis(tuple(f"f{i}" for i in range(m)), plan.request.order)
    cells = np.full((ROWS, m), grid.one, np.int64)
    cells[0] = row
    keys = np.array([key, *(i % KEYS for i in range(1, ROWS))])
    lifted = lift(basis, cells)
    levels = []
    for level in range(plan.request.levels if plan.request.keyed else 0):
        place = keys if level == 0 else keys // 2
        table = np.zeros((KEYS if level == 0 else KEYS // 2, basis.size), np.int64)
        np.add.at(table, place, lifted)
        levels.append(table)
    return ExactStatistics(basis, grid, tuple(levels), lifted.sum(axis=0), rows=ROWS)


def _whitened(statistics: ExactStatistics, plan: Plan) -> np.ndarray:
    scaled: np.ndarray = exact_vector(statistics, plan) / noise_vector(statistics, plan)
    return scaled


def exact_vector(statistics: ExactStatistics, plan: Plan) -> np.ndarray:
    """All released numbers without noise, in scaled units, block by block as the plan lists them."""
    parts = []
    for block in plan.blocks:
        columns = statistics.basis.slice(block.order)
        if block.centred:
            values = centred_scatter(statistics)
        else:
            values = (statistics.levels[block.level] if block.scope == "key" else statistics.whole)[..., columns]
        parts.append(values.ravel() / float(statistics.grid.one) ** block.order)
    return np.concatenate(parts)


def noise_vector(statistics: ExactStatistics, plan: Plan) -> np.ndarray:
    """The noise that the plan claims for each of them."""
    parts = []
    for block in plan.blocks:
        columns = statistics.basis.slice(block.order)
        each = [block.noise_of(monomial.multiplicity) for monomial in statistics.basis.monomials[columns]]
        keys = len(statistics.levels[block.level]) if block.scope == "key" else 1
        parts.append(np.tile(each, keys))
    return np.concatenate(parts)
