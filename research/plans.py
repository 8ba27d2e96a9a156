"""The plans that simulated providers and requesters release by: the real ones, made once for each set of terms."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan


@lru_cache(maxsize=4096)
def plan_for(
    mechanism: str,
    layout: str,
    *,
    features: int,
    budget: Budget,
    bound_squared: Decimal = Decimal(1),
    allocation: str | None = None,
    sizes: tuple[int, ...] = (),
    rows: int | None = None,
    share: Decimal = Decimal(1),
) -> Plan:
    """A plan under replace-one with a public row count. Above epsilon 1 the classical calibration is not proved."""
    return make_plan(
        PlanRequest(
            mechanism=mechanism,
            layout=layout,
            features=features,
            bound_squared=bound_squared,
            order=2,
            budget=budget,
            neighbours=Neighbours.REPLACE_ONE,
            row_count_public=True,
            calibration="analytic" if mechanism != "joint" and budget.epsilon > 1 else None,
            allocation=allocation,
            levels=max(len(sizes), 1),
            keys=sizes,
            rows=rows,
            share=share,
        )
    )


def sigma(plan: Plan, scope: str, order: int, level: int = 0) -> float:
    block = plan.block("key" if scope == "key" else "global", order, level)
    assert block is not None
    return block.sigma
