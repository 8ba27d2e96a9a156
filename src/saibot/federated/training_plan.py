"""The terms of a training: columns, bounds, joined values, rounds, clipping, budget and who trains. All of it is public."""

from __future__ import annotations

import hashlib
import json
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from pydantic import ConfigDict, Field, ValidationError, model_validator

from saibot.errors import InvalidBudget, InvalidInput
from saibot.federated.network import Family, Network
from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.wire import Shape

MOST_WEIGHTS = 500  # a round sends about half the square of their number
MOST_BYTES = 64 << 20  # of a file of a training, before anything of it is looked at
_MOST_PARTIES = 1000
_SHARES = Context(prec=12, rounding=ROUND_FLOOR)

Called = Annotated[str, Field(min_length=1, max_length=300)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Value = Annotated[float, Field(ge=-1e100, le=1e100)]
Weight = Annotated[float, Field(ge=-1e6, le=1e6)]  # so that no derivative of a row between -1 and 1 overflows


class TrainingShape(Shape):
    """What parties of a training send each other. Others may have written it: numbers are finite, and all has a limit."""

    model_config = ConfigDict(allow_inf_nan=False)


class ModelColumn(TrainingShape):
    """A column that everybody who trains has: numbers between public bounds, or a category with public levels."""

    name: Called
    bounds: tuple[float, float] | None = None
    levels: tuple[Annotated[str, Field(max_length=300)], ...] | None = Field(default=None, max_length=MOST_WEIGHTS)
    missing: float | None = None
    unit: str = Field(default="", max_length=300)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.bounds is None) == (self.levels is None):
            raise ValueError("a column has bounds or levels")
        return self

    @property
    def width(self) -> int:
        """How many columns of the model it is: one for each level of a category."""
        return 1 if self.levels is None else len(self.levels)


class JoinedColumn(TrainingShape):
    """A column that a search chose: a public value for every key, the last one for rows with another key."""

    name: Called
    domains: tuple[Digest, ...] = Field(
        min_length=1, max_length=8, description="Digests of the lists of keys, one for each part of the key."
    )
    parts: tuple[Called, ...] = Field(min_length=1, max_length=8, description="What the requester calls the key's parts.")
    values: tuple[Value, ...] = Field(
        min_length=2, max_length=5_000_000, description="In original units, in the order of the lists of keys."
    )

    @model_validator(mode="after")
    def _one_list_for_each_part(self) -> Self:
        if len(self.parts) != len(self.domains) or len(set(self.domains)) < len(self.domains):
            raise ValueError("every part of a key has a list of its own")
        return self

    def scaled(self) -> np.ndarray:
        """The values between -1 and 1, so that the smallest and the largest are the ends."""
        values = np.array(self.values)
        low, high = float(values.min()), float(values.max())
        return (values - (low + high) / 2) / ((high - low) / 2 or 1.0)


class Trainer(TrainingShape):
    """Somebody who trains: a dataset, and how its individuals are protected."""

    dataset: Called
    neighbours: Neighbours
    rows_per_individual: int = Field(default=1, ge=1, le=1000)
    individuals: bool = Field(default=False, description="Whether a column tells individuals apart.")


class TrainingPlan(TrainingShape):
    """The whole plan. Its digest is what states, contributions and ledgers know it by."""

    format: Literal["saibot-training-plan"] = "saibot-training-plan"
    version: Literal[1] = 1
    target: ModelColumn
    columns: tuple[ModelColumn, ...] = Field(max_length=MOST_WEIGHTS)
    joined: tuple[JoinedColumn, ...] = Field(default=(), max_length=MOST_WEIGHTS)
    family: Family = "gaussian"
    hidden: int = Field(default=0, ge=0, le=64)
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    rounds: int = Field(default=1, ge=1, le=100)
    clip: float = Field(ge=1e-3, le=1e6, description="The length that a row's derivatives and error are clipped to.")
    epsilon: str = Field(max_length=40)
    delta: str = Field(max_length=40)
    trainers: tuple[Trainer, ...] = Field(min_length=1, max_length=_MOST_PARTIES)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.target.width != 1 or (self.family == "binomial" and self.target.levels is None):
            raise ValueError("the target is a column of numbers; of family binomial, a category with one level")
        if self.family == "gaussian" and self.target.levels is not None:
            raise ValueError("a target that is a level needs family binomial")
        names = [self.target.name, *(one.name for one in self.columns), *(one.name for one in self.joined)]
        if len(set(names)) < len(names) or len(names) < 2:
            raise ValueError("a model has at least one column beside its target, and each of them once")
        if len({one.dataset for one in self.trainers}) < len(self.trainers):
            raise ValueError("each dataset trains once")
        try:
            _ = self.budget
        except InvalidBudget as problem:
            raise ValueError(problem.message.removesuffix(".")) from None
        if self.network.size > MOST_WEIGHTS:
            raise ValueError(f"the model has {self.network.size} weights, more than {MOST_WEIGHTS}; take fewer hidden units")
        return self

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta)

    @property
    def network(self) -> Network:
        width = sum(column.width for column in self.columns) + len(self.joined)
        return Network(width, self.hidden, self.family)

    @property
    def digest(self) -> str:
        return digest_of(self)

    def trainer(self, dataset: str) -> Trainer:
        for one in self.trainers:
            if one.dataset == dataset:
                return one
        have = ", ".join(one.dataset for one in self.trainers)
        raise InvalidInput(f"{dataset!r} does not train in this plan.", hint=f"It is made for {have}.")

    def noise_of(self, trainer: Trainer) -> float:
        """Standard deviation of the noise of a sum of squares in a trainer's contribution, in units of clipped rows."""
        block = self.round_plan(trainer).block("global", 2)
        assert block is not None
        return block.sigma

    def round_plan(self, trainer: Trainer) -> Plan:
        """What one round releases of one trainer's rows: sums of products of the derived columns, as a sketch has them.

        All rounds have the same part of mu^2 (or of epsilon), and together they come to the budget.
        """
        request = PlanRequest(
            mechanism="joint",
            layout="union",
            features=self.network.size + 1,
            bound_squared=Decimal(1),
            order=2,
            budget=self.budget,
            neighbours=trainer.neighbours,
            row_count_public=trainer.neighbours is Neighbours.REPLACE_ONE and not trainer.individuals,
            rows_per_individual=trainer.rows_per_individual,
            share=_SHARES.divide(Decimal(1), Decimal(self.rounds)),
        )
        if self.rounds == 1 or self.budget.pure:
            return make_plan(request)
        alone = make_plan(request).touched
        return make_plan(PlanRequest.from_json(request.to_json() | {"extra_touched": (self.rounds - 1) * alone}))


def digest_of(document: Shape) -> str:
    """sha256 of a document in its one spelling."""
    return hashlib.sha256(json.dumps(document.to_json(), sort_keys=True).encode()).hexdigest()


D = TypeVar("D", bound=Shape)


def check_document(kind: type[D], document: Any, what: str) -> D:
    """A document of this kind, or what is wrong with it in one line."""
    try:
        return kind.model_validate(document)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"{what} is not valid{f' at {place}' if place else ''}: {said}.") from None


def read_document(kind: type[D], path: Path, what: str) -> D:
    """The same from a file."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        document = json.loads(content) if len(content) <= MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        raise InvalidInput(f"there is no readable {what} at {path}.") from None
    if len(content) > MOST_BYTES:
        raise InvalidInput(f"the {what} at {path} has more than {MOST_BYTES >> 20} MiB.", hint="Ask for another one.")
    return check_document(kind, document, f"{what} {path}")
