"""`fpm`: the paper's Algorithm 1, one noise level for all orders.

Releases: layout `union` orders 1..k of the whole table (order 0 too where n is not public); layout `join` orders 0..k for
    every key of the domain.
Guarantee: (epsilon, delta)-DP with Gaussian noise, epsilon-DP with Laplace noise when delta = 0.
Assumes: rows clipped to |x| <= B; public key domain, every key released whether it occurs or not.
Cost: one Gaussian event of mu = Delta/sigma, or one pure event.
Proof: fpm.proof.md
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from saibot.privacy import sensitivity
from saibot.privacy.calibration import calibrated_mu
from saibot.privacy.mechanisms.plan import Block, Plan, PlanRequest, Scope, count_released, touched_coordinates, worst_of
from saibot.privacy.mechanisms.registry import JOIN, UNION, Mechanism


def plan(request: PlanRequest) -> Plan:
    """Alg. 1: Delta of all orders together, then the same sigma for every released number."""
    scope: Scope = "key" if request.keyed else "global"
    orders = range(0 if request.keyed else count_released(request), request.order + 1)
    blocks = tuple(Block(scope, 0, i, order_sensitivity(request, i), math.nan) for i in orders)
    touched = touched_coordinates(blocks, request)
    if request.budget.pure:
        scale = _l1(request, orders) / float(request.budget.epsilon * request.share)
        return _finish(request, blocks, math.sqrt(2) * scale, "laplace", touched)
    calibration = request.calibration or "classical"
    mu = calibrated_mu(request.budget, calibration, touched=touched) * math.sqrt(request.share)
    return _finish(request, blocks, _l2(request, orders) / mu, calibration, touched, mu)


def order_sensitivity(request: PlanRequest, order: int) -> float:
    """One order by itself: l2, or l1 for Laplace noise."""
    if request.budget.pure:
        return _l1(request, range(order, order + 1))
    squared = float(request.bound_squared)
    if request.keyed:
        replaced = sensitivity.one_order_l2(order=order, bound_squared=squared)
    elif order == 0:
        replaced = 0.0
    else:
        below = sensitivity.union_l2(order=order - 1, bound_squared=squared, features=request.features)
        upto = sensitivity.union_l2(order=order, bound_squared=squared, features=request.features)
        replaced = math.sqrt(upto**2 - below**2)
    added = sensitivity.add_remove_l2(range(order, order + 1), bound_squared=squared)
    return worst_of(request, replace_one=replaced, add_remove=added)


def _l2(request: PlanRequest, orders: range) -> float:
    squared = float(request.bound_squared)
    paper = sensitivity.join_l2 if request.keyed else sensitivity.union_l2
    replaced = paper(order=request.order, bound_squared=squared, features=request.features)
    return worst_of(request, replace_one=replaced, add_remove=sensitivity.add_remove_l2(orders, bound_squared=squared))


def _l1(request: PlanRequest, orders: range) -> float:
    squared, m = float(request.bound_squared), request.features
    added = sum(sensitivity.row_l1(order=i, bound_squared=squared, features=m) for i in orders)
    if request.keyed:
        replaced = 2 * added
    else:
        replaced = sum(sensitivity.replaced_l1(order=i, bound_squared=squared, features=m) for i in orders)
    return worst_of(request, replace_one=replaced, add_remove=added)


def _finish(
    request: PlanRequest, blocks: tuple[Block, ...], sigma: float, calibration: str, touched: int, mu: float | None = None
) -> Plan:
    filled = tuple(Block(b.scope, b.level, b.order, b.sensitivity, sigma) for b in blocks)
    return Plan(request, "laplace" if mu is None else "gaussian", calibration, filled, mu, touched)


MECHANISM = Mechanism(
    "fpm",
    "The factorized privacy mechanism of the Saibot paper (Algorithm 1): one noise for counts, sums and products.",
    layouts=(JOIN, replace(UNION, tightest=1)),
    calibrations=("classical", "analytic"),
    plan=plan,
    proof=Path(__file__).with_name("fpm.proof.md"),
)
