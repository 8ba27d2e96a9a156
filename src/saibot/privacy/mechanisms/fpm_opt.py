"""`fpm-opt`: the paper's Algorithm 2 and its union counterpart. Two algorithms under one name, told apart by the layout.

Releases: layout `join` orders 0..k for every key, each order with (epsilon, delta)/(k+1); layout `union` the scatter around
    the mean (S_xx, S_xy, S_yy), which is all that a slope needs. Scatters of two tables do not add up to their union's.
Guarantee: (epsilon, delta)-DP; epsilon-DP with Laplace noise when delta = 0.
Assumes: as fpm; layout `union` also that the row count is public (replace-one).
Cost: one Gaussian event, mu^2 summed over the orders; or one pure event.
Proof: fpm_opt.proof.md
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from saibot.errors import UnsupportedPlan
from saibot.privacy import sensitivity
from saibot.privacy.calibration import calibrated_mu
from saibot.privacy.mechanisms.fpm import order_sensitivity
from saibot.privacy.mechanisms.plan import Block, Plan, PlanRequest, touched_coordinates
from saibot.privacy.mechanisms.registry import JOIN, UNION, Mechanism


def plan(request: PlanRequest) -> Plan:
    return _join(request) if request.keyed else _union(request)


def _join(request: PlanRequest) -> Plan:
    """Alg. 2: every order on its own, with an equal part of the budget."""
    orders = range(request.order + 1)
    part = request.budget.split(len(orders))
    empty = tuple(Block("key", 0, i, order_sensitivity(request, i), math.nan) for i in orders)
    touched = touched_coordinates(empty, request)
    if request.budget.pure:
        epsilon = float(part.epsilon * request.share)
        blocks = tuple(Block("key", 0, b.order, b.sensitivity, math.sqrt(2) * b.sensitivity / epsilon) for b in empty)
        return Plan(request, "laplace", "laplace", blocks, None, touched)
    calibration = request.calibration or "classical"
    each = calibrated_mu(part, calibration, touched=touched) * math.sqrt(request.share)
    blocks = tuple(Block("key", 0, b.order, b.sensitivity, b.sensitivity / each) for b in empty)
    return Plan(request, "gaussian", calibration, blocks, each * math.sqrt(len(orders)), touched)


def _union(request: PlanRequest) -> Plan:
    """The centred scatter matrix, all of the budget on it."""
    if not request.row_count_public:
        raise UnsupportedPlan(
            "fpm-opt for unions divides by the row count, which is public under replace-one only.",
            hint="Use --mechanism joint.",
        )
    if request.order != 2 or request.features < 2:
        raise UnsupportedPlan("fpm-opt for unions is for regression: order 2, and at least two features (x and the target).")
    if request.rows == 1:
        raise UnsupportedPlan("fpm-opt for unions releases the scatter around the mean: it needs at least two rows.")
    m = request.features
    distance = sensitivity.centred_scatter_l2(bound_squared=float(request.bound_squared), rows=request.rows)
    if request.budget.pure:
        # |S_ii| + |S_ij| packed, against the Frobenius norm in which off-diagonal entries count twice: Cauchy-Schwarz.
        l1 = distance * math.sqrt(m + m * (m - 1) / 4)
        scale = l1 / float(request.budget.epsilon * request.share)
        pure = Block("global", 0, 2, l1, math.sqrt(2) * scale, centred=True)
        return Plan(request, "laplace", "laplace", (pure,), None, touched_coordinates((pure,), request))
    empty = Block("global", 0, 2, distance, math.nan, weighted=True, centred=True)
    touched = touched_coordinates((empty,), request)
    calibration = request.calibration or "classical"
    mu = calibrated_mu(request.budget, calibration, touched=touched) * math.sqrt(request.share)
    block = Block("global", 0, 2, distance, distance / mu, weighted=True, centred=True)
    return Plan(request, "gaussian", calibration, (block,), mu, touched)


MECHANISM = Mechanism(
    "fpm-opt",
    "The paper's optimised mechanism (Algorithm 2): the budget is split between counts, sums and products.",
    layouts=(replace(JOIN, tightest=1), replace(UNION, scatter=True)),
    calibrations=("classical", "analytic"),
    plan=plan,
    proof=Path(__file__).with_name("fpm_opt.proof.md"),
)
