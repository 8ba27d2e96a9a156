"""The mechanisms: each a pure plan with its proof beside it. One without a proof file stays out of this registry."""

from __future__ import annotations

import math
from dataclasses import replace

from saibot.privacy.mechanisms import fpm, fpm_opt, joint
from saibot.privacy.mechanisms.plan import ALLOCATIONS, CALIBRATIONS, LAYOUTS, Block, Plan, PlanRequest

_ARITHMETIC = 1e-9  # what roundings and another machine's Phi come to
_PLANNERS = {"fpm": fpm.plan, "fpm-opt": fpm_opt.plan, "joint": joint.plan}

__all__ = ["ALLOCATIONS", "CALIBRATIONS", "LAYOUTS", "Block", "Plan", "PlanRequest", "confirmed", "make_plan", "same_plan"]


def make_plan(request: PlanRequest) -> Plan:
    """The plan for a request: pure, so the same everywhere, and readable before any data is."""
    return _PLANNERS[request.mechanism](request)


def confirmed(claimed: Plan, *, tolerance: float = 1e-6) -> bool:
    """Whether a plan that somebody else made keeps its promise: enough noise for its budget.

    Most plans are simply made again. The proportions that `auto` finds depend on the last digits of a numeric search, so
    there the noise itself is priced: what one individual can move, in units of the claimed noise, must fit the budget. That
    is arithmetic, without a search, so hardly any tolerance is left: a block that is nearly free has no more than its price.
    """
    request = claimed.request
    if request.mechanism != "joint" or request.allocation in ("alg2", "equal"):
        return same_plan(claimed, make_plan(request), tolerance=tolerance)
    twin = make_plan(replace(request, allocation="equal"))
    if len(claimed.blocks) != len(twin.blocks):
        return False
    blocks = tuple(replace(block, sigma=own.sigma) for block, own in zip(twin.blocks, claimed.blocks, strict=True))
    if not all(0 < block.sigma < math.inf for block in blocks):
        return False
    expected = Plan(request, twin.noise, twin.calibration, blocks, twin.mu, twin.touched)
    return same_plan(claimed, expected, tolerance=tolerance) and joint.affordable(expected, tolerance=_ARITHMETIC)


def same_plan(one: Plan, other: Plan, *, tolerance: float = 1e-6) -> bool:
    """Whether two plans promise the same; noise may differ by the rounding of another machine's libraries."""
    if (one.request, one.noise, one.calibration, one.touched) != (
        other.request,
        other.noise,
        other.calibration,
        other.touched,
    ):
        return False
    if len(one.blocks) != len(other.blocks):
        return False
    close = all(
        (a.scope, a.level, a.order, a.weighted, a.centred) == (b.scope, b.level, b.order, b.weighted, b.centred)
        and math.isclose(a.sigma, b.sigma, rel_tol=tolerance)
        and math.isclose(a.sensitivity, b.sensitivity, rel_tol=tolerance)
        for a, b in zip(one.blocks, other.blocks, strict=True)
    )
    return close and math.isclose(one.mu or 0.0, other.mu or 0.0, rel_tol=tolerance)
