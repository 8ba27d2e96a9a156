"""The mechanisms: each a pure plan with its proof beside it. One without a proof file stays out of this registry."""

from __future__ import annotations

import math

from saibot.privacy.mechanisms import fpm, fpm_opt, joint
from saibot.privacy.mechanisms.plan import ALLOCATIONS, CALIBRATIONS, LAYOUTS, Block, Plan, PlanRequest

_PLANNERS = {"fpm": fpm.plan, "fpm-opt": fpm_opt.plan, "joint": joint.plan}

__all__ = ["ALLOCATIONS", "CALIBRATIONS", "LAYOUTS", "Block", "Plan", "PlanRequest", "make_plan", "same_plan"]


def make_plan(request: PlanRequest) -> Plan:
    """The plan for a request: pure, so the same everywhere, and readable before any data is."""
    return _PLANNERS[request.mechanism](request)


def same_plan(one: Plan, other: Plan, *, tolerance: float = 1e-6) -> bool:
    """Whether two plans promise the same; noise may differ by the rounding of another machine's libraries."""
    if one.request != other.request or one.noise != other.noise or len(one.blocks) != len(other.blocks):
        return False
    close = all(
        (a.scope, a.level, a.order, a.weighted, a.centred) == (b.scope, b.level, b.order, b.weighted, b.centred)
        and math.isclose(a.sigma, b.sigma, rel_tol=tolerance)
        for a, b in zip(one.blocks, other.blocks, strict=True)
    )
    return close and math.isclose(one.mu or 0.0, other.mu or 0.0, rel_tol=tolerance)
