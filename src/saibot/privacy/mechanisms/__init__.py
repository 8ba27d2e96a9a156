"""The mechanisms: each a pure plan with its proof beside it. To add one, write its module and enter it below."""

from __future__ import annotations

from saibot.privacy.mechanisms import fpm, fpm_opt, joint
from saibot.privacy.mechanisms.plan import Block, Plan, PlanRequest, same_plan
from saibot.privacy.mechanisms.registry import DEFAULT, EXACT, MECHANISMS, Layout, Mechanism, mechanism_named, register

__all__ = [
    "ALLOCATIONS",
    "DEFAULT",
    "EXACT",
    "LAYOUTS",
    "MECHANISMS",
    "Block",
    "Layout",
    "Mechanism",
    "Plan",
    "PlanRequest",
    "confirmed",
    "make_plan",
    "mechanism_named",
    "register",
    "same_plan",
]

for _one in (fpm.MECHANISM, fpm_opt.MECHANISM, joint.MECHANISM):
    register(_one)

LAYOUTS = {one.name: tuple(layout.name for layout in one.layouts) for one in MECHANISMS.values()}  # those of the package
ALLOCATIONS = joint.MECHANISM.allocations


def make_plan(request: PlanRequest) -> Plan:
    """The plan for a request: pure, so the same everywhere, and readable before any data is."""
    return mechanism_named(request.mechanism).plan(request)


def confirmed(claimed: Plan, *, tolerance: float = 1e-6) -> bool:
    """Whether a plan that somebody else made keeps its promise: enough noise for its budget."""
    own = mechanism_named(claimed.request.mechanism)
    if own.confirm is not None:
        return own.confirm(claimed, tolerance)
    return same_plan(claimed, own.plan(claimed.request), tolerance=tolerance)
