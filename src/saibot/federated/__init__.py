"""Training a model together, round by round: the terms, the model, and what rounds' noisy sums lead to. No rows here."""

from saibot.federated.descent import Contribution, ModelState, first_state, next_state
from saibot.federated.training_plan import JoinedColumn, ModelColumn, Trainer, TrainingPlan, check_document

__all__ = [
    "Contribution",
    "JoinedColumn",
    "ModelColumn",
    "ModelState",
    "Trainer",
    "TrainingPlan",
    "check_document",
    "first_state",
    "next_state",
]
