"""The allocation `values`: shares of the precision between key levels that leave least unknown of a looked-up value."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import numpy as np
import pytest

from saibot.errors import UnsupportedPlan
from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import PlanRequest, confirmed, make_plan
from saibot.privacy.mechanisms.value_allocation import EVENLY, level_shares, typical_share


def request(**changes):
    terms = {"mechanism": "joint", "layout": "lookup", "features": 1, "bound_squared": Decimal(1), "order": 2}
    terms |= {"budget": Budget("1", "1e-6"), "neighbours": Neighbours.REPLACE_ONE, "row_count_public": True}
    return PlanRequest(**(terms | {"allocation": "values", "levels": 3, "keys": (1000, 30, 5), "rows": 5000} | changes))


def unknown(shares, sizes, rows, noise):
    """What stays unknown of a value, by the module's formula."""
    t = np.array([typical_share(size, rows) / 3 for size in sizes])
    a = 4 / 3 * (noise * np.array(sizes) / rows) ** 2
    return float(np.sum(t * a / (t * shares + a)))


@pytest.mark.parametrize("rows", [300, 3000, 30_000])
def test_the_shares_leave_less_unknown_than_any_on_a_grid(rows):
    sizes = (1000, 30, 5)
    found = level_shares(sizes, rows, sum_noise=8.5, rho_squared=1 / 3, bound_squared=1.0)
    assert found.sum() == pytest.approx(1)
    optimal = (found - EVENLY / 3) / (1 - EVENLY)
    grid = [np.array(steps) / 20 for steps in product(range(21), repeat=3) if sum(steps) == 20]
    assert unknown(optimal, sizes, rows, 8.5) <= min(unknown(point, sizes, rows, 8.5) for point in grid) + 1e-9


def test_few_rows_go_to_coarse_levels_and_many_to_fine_ones():
    few, many = (
        level_shares((1000, 30), rows, sum_noise=8.5, rho_squared=1 / 3, bound_squared=1.0) for rows in (500, 10**6)
    )
    assert few[1] > 0.7 and many[0] > 0.7


@pytest.mark.parametrize("changes", [{}, {"levels": 1, "keys": (50,)}, {"features": 3, "bound_squared": Decimal(3)}])
@pytest.mark.parametrize("budget", [Budget("1", "1e-6"), Budget("1", "0")])
def test_a_values_plan_costs_exactly_its_budget(changes, budget):
    plan = make_plan(request(budget=budget, **changes))
    assert confirmed(plan)
    cheaper = [block.sigma * 0.99 for block in plan.blocks]
    from dataclasses import replace

    less = replace(plan, blocks=tuple(replace(block, sigma=s) for block, s in zip(plan.blocks, cheaper, strict=True)))
    assert not confirmed(less)


def test_values_is_for_lookups_only():
    with pytest.raises(UnsupportedPlan, match="layout lookup"):
        request(layout="semiring", levels=1, keys=())


def test_typical_shares_grow_with_the_number_of_keys_and_with_chance():
    assert typical_share(5, 10**9) == pytest.approx(0.1) and typical_share(10**6, 10**12) == pytest.approx(0.6)
    assert typical_share(100, 100) == pytest.approx(1) and typical_share(100, 200) > typical_share(100, 2000)
