"""From the noisy sums of a round to the next weights. Everything here is public already: it may be done by anybody.

A round's sums are those of a least squares problem around the present weights (Gauss and Newton's; for logistic regression,
with a curvature that bounds its own). For a linear model they are the whole problem: one round is the end. The ridge is as
large as the noise can make an eigenvalue, so that no direction is followed that may be noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from saibot.errors import InvalidInput
from saibot.federated.training_plan import (
    MOST_WEIGHTS,
    Called,
    Digest,
    TrainingPlan,
    TrainingShape,
    Weight,
    check_document,
    digest_of,
)

_RIDGE = 1e-4  # of a row's squared length, whatever the noise
_MOST_ROWS = 1 << 40
_MOST_SUMS = (MOST_WEIGHTS + 1) * (MOST_WEIGHTS + 2) // 2


class ModelState(TrainingShape):
    """The weights after so many rounds."""

    format: Literal["saibot-model-state"] = "saibot-model-state"
    version: Literal[1] = 1
    plan: Digest
    round: int = Field(ge=0, le=100)
    weights: tuple[Weight, ...] = Field(max_length=MOST_WEIGHTS)
    error: float | None = Field(default=None, description="Mean squared error of the weights before, from the noisy sums.")
    trained: tuple[Called, ...] = Field(default=(), max_length=1000, description="Whose rows the last round had.")
    simulation: bool = False

    @property
    def digest(self) -> str:
        return digest_of(self)


class Contribution(TrainingShape):
    """What one trainer gives to one round: noisy sums, safe to send to anybody."""

    format: Literal["saibot-contribution"] = "saibot-contribution"
    version: Literal[1] = 1
    plan: Digest
    state: Digest
    round: int = Field(ge=1, le=100)
    dataset: Called
    rows: float = Field(ge=-_MOST_ROWS, le=_MOST_ROWS, description="Their public number, or a noisy one.")
    products: tuple[Annotated[float, Field(ge=-1e18, le=1e18)], ...] = Field(
        max_length=_MOST_SUMS, description="Sums of products, packed: (1,1), (1,2), ... (2,2), ..."
    )
    noise: float = Field(
        ge=0, description="Standard deviation of the noise of a square; of another product, less by root 2."
    )
    simulation: bool = False

    @property
    def digest(self) -> str:
        return digest_of(self)


def first_state(plan: TrainingPlan) -> ModelState:
    """Where training starts."""
    return ModelState(plan=plan.digest, round=0, weights=tuple(plan.network.first_weights(plan.seed).tolist()))


def check_state(plan: TrainingPlan, state: ModelState) -> None:
    """Whether a state is one of this plan's."""
    if state.plan != plan.digest:
        raise InvalidInput("these weights are of another plan.", hint="Take the state that the plan's last round gave.")
    if len(state.weights) != plan.network.size:
        raise InvalidInput(f"the plan's model has {plan.network.size} weights, and these are {len(state.weights)}.")


def next_state(plan: TrainingPlan, state: ModelState, contributions: Sequence[Contribution]) -> ModelState:
    """The weights after a round. Trainers that did not contribute are left out of it."""
    check_state(plan, state)
    size = plan.network.size + 1
    rows, cols = np.triu_indices(size)
    packed, count, variance = np.zeros(len(rows)), 0.0, 0.0
    for one in contributions:
        trainer = plan.trainer(one.dataset)
        if (one.plan, one.state, one.round) != (plan.digest, state.digest, state.round + 1):
            raise InvalidInput(f"the contribution of {one.dataset!r} is to another round.", hint="Ask for it again.")
        if len(one.products) != len(rows):
            raise InvalidInput(f"the contribution of {one.dataset!r} is not {len(rows)} numbers.", hint="Ask for it again.")
        if not math.isclose(one.noise, plan.noise_of(trainer), rel_tol=1e-9):
            raise InvalidInput(
                f"the contribution of {one.dataset!r} says that it has other noise than the plan gives it.",
                hint="Leave it out of this round, or ask for it again.",
            )
        packed += one.products
        count, variance = count + one.rows, variance + one.noise**2
    names = tuple(one.dataset for one in contributions)
    if not names or len(set(names)) < len(names):
        raise InvalidInput("a round takes one contribution of each trainer, and at least one.")
    whole = np.zeros((size, size))
    whole[rows, cols] = packed
    whole = whole + np.triu(whole, 1).T
    curvature, pull = whole[:-1, :-1], whole[:-1, -1]
    try:
        values, vectors = np.linalg.eigh(curvature)
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "no next weights can be computed from these contributions.", hint="Leave one of them out of this round."
        ) from None
    # Of a symmetric matrix of noise with variance v off the diagonal, the largest eigenvalue is about 2 sqrt(v size).
    ridge = _RIDGE * max(count, 1.0) + 2 * math.sqrt(variance / 2 * size)
    step = vectors @ ((vectors.T @ pull) / (np.maximum(values, 0.0) + ridge))
    document = {
        "plan": plan.digest,
        "round": state.round + 1,
        "weights": tuple((np.array(state.weights) + step).tolist()),
        "error": max(float(whole[-1, -1]) / max(count, 1.0), 0.0) * plan.clip**2,
        "trained": names,
        "simulation": state.simulation or any(one.simulation for one in contributions),
    }
    return check_document(ModelState, document, "what these contributions lead to")
