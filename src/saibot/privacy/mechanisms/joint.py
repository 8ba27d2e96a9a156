"""`joint`: all blocks released as one vector, calibrated to its exact joint sensitivity.

Releases: layout `semiring` orders 0..k per key; `lookup` orders 0 and 1 per key at one or more nested key levels, and orders
    1 and 2 of the whole table; `union` orders 1..k of the whole table. Order 0 of the whole table too, in `union`, where
    the row count is not public.
Guarantee: (epsilon, delta)-DP with Gaussian noise; epsilon-DP with Laplace noise when delta = 0.
Assumes: rows clipped to |x| <= B; public key domain and levels, each level a function of the finer one.
Cost: one Gaussian event of the joint mu, or one pure event.
Proof: joint.proof.md
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from saibot.errors import UnsupportedPlan
from saibot.privacy import sensitivity
from saibot.privacy.calibration import analytic_mu
from saibot.privacy.mechanisms.allocation import allocate
from saibot.privacy.mechanisms.plan import (
    Block,
    Plan,
    PlanRequest,
    Scope,
    count_released,
    same_plan,
    touched_coordinates,
    with_sigmas,
    worst_of,
)
from saibot.privacy.mechanisms.registry import LOOKUP, SEMIRING, UNION, Mechanism
from saibot.privacy.neighbours import Neighbours
from saibot.privacy.sensitivity import Precisions

_ARITHMETIC = 1e-9  # what roundings and another machine's Phi come to


def plan(request: PlanRequest) -> Plan:
    """Choose the proportions of the sigmas, then scale all of them to the budget."""
    pure = request.budget.pure
    shape = tuple(
        Block(scope, level, order, math.nan, math.nan, weighted=not pure) for scope, level, order in _places(request)
    )
    touched = touched_coordinates(shape, request)
    blocks = tuple(Block(b.scope, b.level, b.order, cost((b,), [1.0], request), math.nan, weighted=not pure) for b in shape)
    proportions = allocate(request, blocks, lambda sigmas: cost(blocks, sigmas, request))
    reached = cost(blocks, proportions, request)
    if pure:
        allowed = float(request.budget.epsilon * request.share)
        sigmas = [math.sqrt(2) * s * reached / allowed for s in proportions]
        return Plan(request, "laplace", "laplace", with_sigmas(blocks, sigmas), None, touched)
    mu = analytic_mu(request.budget, touched=touched) * math.sqrt(request.share)
    sigmas = [s * reached / mu for s in proportions]
    return Plan(request, "gaussian", "analytic", with_sigmas(blocks, sigmas), mu, touched)


def cost(blocks: tuple[Block, ...], scales: list[float], request: PlanRequest) -> float:
    """What one individual can move, in units of the given scales: joint mu, or the sum of l1 distances for Laplace.

    It is homogeneous: twice the scales, half the cost. With one block of scale 1 it is that block's own sensitivity.
    """
    if request.budget.pure:
        return _l1_cost(blocks, scales, request)
    precisions = _precisions(blocks, scales)

    def mu(neighbours: Neighbours) -> float:
        bound_squared = float(request.bound_squared)
        return sensitivity.joint_mu(
            precisions, bound_squared=bound_squared, features=request.features, neighbours=neighbours
        )

    return worst_of(request, replace_one=mu(Neighbours.REPLACE_ONE), add_remove=mu(Neighbours.ADD_REMOVE))


def confirm(claimed: Plan, tolerance: float) -> bool:
    """Whether a plan that somebody else made has enough noise for its budget.

    Most plans are simply made again. The proportions that `auto` finds depend on the last digits of a numeric search, so
    there the noise itself is priced: what one individual can move, in units of the claimed noise, must fit the budget. That
    is arithmetic, without a search, so hardly any tolerance is left: a block that is nearly free has no more than its price.
    """
    request = claimed.request
    if request.allocation in ("alg2", "equal"):
        return same_plan(claimed, plan(request), tolerance=tolerance)
    twin = plan(replace(request, allocation="equal"))
    if len(claimed.blocks) != len(twin.blocks):
        return False
    blocks = with_sigmas(twin.blocks, [block.sigma for block in claimed.blocks])
    if not all(0 < block.sigma < math.inf for block in blocks):
        return False
    expected = Plan(request, twin.noise, twin.calibration, blocks, twin.mu, twin.touched)
    return same_plan(claimed, expected, tolerance=tolerance) and affordable(expected, tolerance=_ARITHMETIC)


def affordable(made: Plan, *, tolerance: float) -> bool:
    """Whether a plan's noise, whatever its proportions, is enough for its budget."""
    if made.mu is not None:
        return cost(made.blocks, [block.sigma for block in made.blocks], made.request) <= made.mu * (1 + tolerance)
    scales = [block.sigma / math.sqrt(2) for block in made.blocks]
    allowed = float(made.request.budget.epsilon * made.request.share)
    return cost(made.blocks, scales, made.request) <= allowed * (1 + tolerance)


def _places(request: PlanRequest) -> list[tuple[Scope, int, int]]:  # scope, level, order
    match request.layout:
        case "semiring":
            return [("key", 0, i) for i in range(request.order + 1)]
        case "lookup":
            return [("key", level, i) for level in range(request.levels) for i in (0, 1)] + [
                ("global", 0, i) for i in (1, 2)
            ]
        case _:
            return [("global", 0, i) for i in range(count_released(request), request.order + 1)]


def _precisions(blocks: tuple[Block, ...], sigmas: list[float]) -> Precisions:
    levels = max((b.level for b in blocks if b.scope == "key"), default=-1) + 1
    highest = max(b.order for b in blocks)
    per_key = [[0.0] * (highest + 1) for _ in range(levels)]
    whole = [0.0] * (highest + 1)
    for block, sigma in zip(blocks, sigmas, strict=True):
        (per_key[block.level] if block.scope == "key" else whole)[block.order] = sigma**-2
    return Precisions(tuple(map(tuple, per_key)), tuple(whole))


def _l1_cost(blocks: tuple[Block, ...], scales: list[float], request: PlanRequest) -> float:
    squared, m = float(request.bound_squared), request.features
    replaced = added = 0.0
    for block, scale in zip(blocks, scales, strict=True):
        row = sensitivity.row_l1(order=block.order, bound_squared=squared, features=m)
        moved = sensitivity.replaced_l1(order=block.order, bound_squared=squared, features=m)
        added += row / scale
        # A moved key changes two cells by a whole row each, which is never less than changing one cell in place.
        replaced += (2 * row if block.scope == "key" else moved) / scale
    return worst_of(request, replace_one=replaced, add_remove=added)


def _check(request: PlanRequest) -> None:
    if request.allocation == "values" and request.layout != LOOKUP.name:
        raise UnsupportedPlan("the allocation values goes with the layout lookup.")


MECHANISM = Mechanism(
    "joint",
    "One joint release: all statistics get their noise together, sized by how far one individual can move all of them at "
    "once.",
    layouts=(LOOKUP, SEMIRING, UNION),
    calibrations=("analytic",),
    plan=plan,
    proof=Path(__file__).with_name("joint.proof.md"),
    allocations=("alg2", "auto", "equal", "values"),
    check=_check,
    confirm=confirm,
)
