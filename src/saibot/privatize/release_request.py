"""What to release of a table, and what that has become once it was checked: plain values, no rows looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Literal

from saibot.errors import InvalidInput, UnsupportedPlan
from saibot.privacy.budget import Budget, plain
from saibot.privacy.events import Event
from saibot.privacy.mechanisms import DEFAULT, Plan, PlanRequest
from saibot.privacy.mechanisms.found_keys import FindingPlan
from saibot.privacy.neighbours import Neighbours
from saibot.privatize.aggregate import Rows
from saibot.privatize.bounds import bounds_event
from saibot.privatize.card import BoughtBounds, Card, ComponentFacts
from saibot.privatize.coverage import coverage_event
from saibot.privatize.engines import DEFAULT_ENGINE, BackendName, engine_named
from saibot.privatize.grid import Grid
from saibot.privatize.schema import Column, ReleaseKey

Progress = Callable[[str, float | None], None]  # what is being done, and how much of it (None: not known)


@dataclass(frozen=True)
class ReleaseRequest:
    """What to release of a described table, and at which price."""

    card: Card
    budget: Budget
    neighbours: Neighbours
    key: str | None = None
    features: tuple[str, ...] = ()
    mechanism: str = DEFAULT
    layout: str | None = None  # None: the mechanism's own, with a key or without
    order: int = 2
    bound: Decimal | None = None
    calibration: str | None = None
    allocation: str | None = None
    paper_preparation: bool = False
    coverage: str | None = None  # share of epsilon that a count of rows with a key of the domain is bought for, first
    model: Literal["central", "local"] = "central"  # local: the table is one individual's own row, see `local_model.py`
    new_version: bool = False
    yes: bool = False  # goes on where the provider would be asked
    part: Literal["train", "test"] | None = None  # of a table that was divided; the card is then `card.for_request(part)`
    split: str | None = None  # which recorded split, where the part was moved since
    backend: BackendName = DEFAULT_ENGINE

    def __post_init__(self) -> None:
        engine_named(self.backend)
        if self.model == "local":
            _check_one_can_do_it_alone(self)


def _check_one_can_do_it_alone(request: ReleaseRequest) -> None:
    """The local model has no table to read from: whatever is taken from all rows together is not for it."""
    card = request.card
    if request.neighbours is not Neighbours.REPLACE_ONE or card.dataset.id is not None:
        raise UnsupportedPlan(
            "the local model protects one row of each individual under replace-one.",
            hint='It needs a card with neighbours = "replace-one" and without id.',
        )
    bought = [card.features[name] for name in request.features or card.features if name in card.features]
    if any(isinstance(facts.bounds, BoughtBounds) for facts in bought):
        raise InvalidInput(
            "bounds are bought from all rows together, which the local model does not have.",
            hint="It needs a card with public bounds.",
        )
    key = card.keys.get(request.key) if request.key is not None else None
    if key is not None and key.domain is not None and key.domain.find is not None:
        raise InvalidInput(
            "keys are found from all rows together, which the local model does not have.",
            hint="It needs a card with a public list of keys.",
        )
    if card.component is not None or request.paper_preparation:
        raise InvalidInput(
            "a component is found from all rows together, which the local model does not have.",
            hint="It needs a card without a component, and no preparation but the card's.",
        )


@dataclass(frozen=True)
class Resolved:
    """A request held against its card: what would be released, before anybody has looked at a table."""

    request: ReleaseRequest
    columns: list[Column]
    key: ReleaseKey | None
    plan_request: PlanRequest  # of the release, without the number of rows
    component: ComponentFacts | None


@dataclass(frozen=True)
class Prepared:
    """A request that has been checked against its table: everything public about the release, nothing spent yet."""

    request: ReleaseRequest
    rows: Rows
    plan: Plan
    component_plan: Plan | None
    bought: dict[str, Decimal]  # the epsilon that each feature's bounds are bought for
    row_count: int | None  # public or None
    most_rows: int
    grid: Grid
    draws: int
    source: bytes = field(repr=False)
    finding: FindingPlan | None = None  # how the keys are found, where they have to be
    coverage: Decimal | None = None  # the epsilon that the count of rows in the domain is bought for

    @property
    def buys_nothing(self) -> bool:
        """Whether keys, bounds and features are public: the exact sums are then known before anything is drawn."""
        return not self.bought and self.component_plan is None and self.finding is None

    @property
    def events(self) -> tuple[Event, ...]:
        return events_together((self,))

    @property
    def coverage_event(self) -> Event | None:
        """What the count of rows in the domain costs, which is charged before the rest."""
        return None if self.coverage is None else coverage_event(self.coverage, self.request.budget)

    def to_json(self) -> dict[str, Any]:
        """The release in words and numbers: all of it public."""
        return {
            "dataset": self.request.card.dataset.name,
            "budget": self.request.budget.to_json(),
            "rows": self.row_count,
            "values": self.draws,
            "events": [event.to_json() for event in (*coverage_events((self,)), *self.events)],
            "finding": self.finding.to_json() if self.finding else None,
            "plan": self.plan.to_json(),
            "grid": asdict(self.grid) | {"bound_squared": plain(self.grid.bound_squared)},
        }


def events_together(parts: Sequence[Prepared]) -> tuple[Event, ...]:
    """What statistics by several keys of one table cost: what is bought for all of them is bought once."""
    first = parts[0]
    paid: list[Event] = [part.finding.event for part in parts if part.finding is not None]
    paid += [bounds_event(price, first.request.budget) for price in first.bought.values()]
    paid += first.component_plan.events if first.component_plan else ()
    return (*paid, *(event for part in parts for event in part.plan.events))


def coverage_events(parts: Sequence[Prepared]) -> tuple[Event, ...]:
    """What counting the rows in the domain costs, for each key that it is bought for. Charged before the rest."""
    return tuple(event for part in parts if (event := part.coverage_event) is not None)
