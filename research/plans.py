"""The plans that simulated providers and requesters release by: the real ones, made once for each set of terms."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

import numpy as np

from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.privacy.mechanisms.plan import Scope


def terms(
    mechanism: str,
    layout: str,
    *,
    features: int,
    budget: Budget,
    bound_squared: Decimal | int = 1,
    allocation: str | None = None,
    sizes: tuple[int, ...] = (),
    rows: int | None = None,
) -> PlanRequest:
    """Replace-one with a public row count. `sizes` are the keys of every level, catch-all included, of a lookup.

    Above epsilon 1 the classical calibration is not proved.
    """
    return PlanRequest(
        mechanism=mechanism,
        layout=layout,
        features=features,
        bound_squared=Decimal(bound_squared),
        order=2,
        budget=budget,
        neighbours=Neighbours.REPLACE_ONE,
        row_count_public=True,
        calibration="analytic" if mechanism != "joint" and budget.epsilon > 1 else None,
        allocation=allocation,
        levels=max(len(sizes), 1),
        keys=sizes,
        rows=rows,
    )


@lru_cache(maxsize=4096)
def planned(request: PlanRequest) -> Plan:
    return make_plan(request)


def deviations(plan: Plan, scope: Scope) -> np.ndarray:
    """The standard deviation of the noise in every entry of a moment matrix over [1, features]; 0 where none is added."""
    m = plan.request.features
    zero, one, two = (plan.block(scope, order) for order in range(3))
    found = np.full((m + 1, m + 1), 0.0 if two is None else two.noise_of(2))
    np.fill_diagonal(found, 0.0 if two is None else two.sigma)
    found[0, :] = found[:, 0] = 0.0 if one is None else one.sigma
    found[0, 0] = 0.0 if zero is None else zero.sigma
    return found
