"""Tell two neighbouring tables apart by a round of training together: whole rounds, each with a ledger of its own.

One row stands at one end of its column or at the other, its target in the middle. At the first weights, which are 0, what a
row contributes are the products of (1, column, target): at the two ends these are of the same length and at right angles,
which is as far apart as products of two rows can be.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from saibot.audit.likelihood_ratio import audited_noise, log_ratio
from saibot.audit.noisy import EPSILON, NoisyFinding, told_apart
from saibot.federated import ModelColumn, TrainingPlan, first_state
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card
from saibot.privatize.noise import NoiseSource
from saibot.privatize.training_round import train_round, trainer_of

BUDGET = Budget(EPSILON["gaussian"], "1e-6")
ENDS = (-1.0, 1.0)  # of the column
OTHERS = 7  # rows that both tables have


def audit_training(*, releases: int, noise_factor: float = 1.0) -> list[NoisyFinding]:
    """So many first rounds of each of the two tables; the claim is mu of a round, of which sums take a part unseen."""
    card = _card()
    plan = _plan(card)
    terms = plan.round_plan(plan.trainers[0])
    assert terms.mu is not None
    with tempfile.TemporaryDirectory(prefix="saibot-audit-") as folder:
        noise, homes = audited_noise(noise_factor), [Path(folder) / str(end) for end in ENDS]
        drawn = [_rounds(_table(end), card, plan, noise, releases, home) for end, home in zip(ENDS, homes, strict=True)]
    before, after = (_products(end, plan.clip) for end in ENDS)
    spread = plan.noise_of(plan.trainers[0]) / np.sqrt(np.where(np.eye(3), 1.0, 2.0)[np.triu_indices(3)])
    ratios = [log_ratio(sample, before, after, spread, terms.noise) for sample in drawn]
    return [told_apart("a round of training together", "Arrow", float(terms.mu), *ratios)]


def _card() -> Card:
    return Card.parse(
        {
            "dataset": {"name": "audited", "neighbours": "replace-one"},
            "budget": {"cap": {"epsilon": str(BUDGET.epsilon), "delta": str(BUDGET.delta)}},
            "features": {name: {"bounds": ENDS} for name in ("x", "y")},
        }
    )


def _plan(card: Card) -> TrainingPlan:
    return TrainingPlan(
        target=ModelColumn(name="y", bounds=ENDS),
        columns=(ModelColumn(name="x", bounds=ENDS),),
        joined=(),
        clip=1.0,
        epsilon=str(BUDGET.epsilon),
        delta=str(BUDGET.delta),
        trainers=(trainer_of(card),),
    )


def _table(end: float) -> pa.Table:
    return pa.table({"x": [end] + [0.0] * OTHERS, "y": [0.0] * (1 + OTHERS)})


def _products(end: float, clip: float) -> np.ndarray:
    """What a round gives away without noise, in units of the clip: the others contribute 1 each to the first product."""
    row = np.array([1.0, end, 0.0])
    row /= max(float(np.linalg.norm(row)), clip)
    found: np.ndarray = np.outer(row, row)[np.triu_indices(3)]
    found[0] += OTHERS
    return found


def _rounds(table: pa.Table, card: Card, plan: TrainingPlan, noise: NoiseSource, rounds: int, home: Path) -> np.ndarray:
    """The products that so many first rounds give away, each by a ledger that has seen nothing yet."""
    state, found = first_state(plan), []
    for number in range(rounds):
        given = train_round(table, card, plan, state, Ledger(home / str(number)), agreed=BUDGET, noise=noise)
        found.append(given.products)
    return np.array(found)
