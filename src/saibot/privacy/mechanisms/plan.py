"""A plan: what a mechanism will release and with how much noise, decided before any data is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from saibot.errors import UnsupportedPlan
from saibot.privacy.budget import Budget, exact_decimal, plain
from saibot.privacy.calibration import STEPS_PER_SIGMA
from saibot.privacy.events import Event, GaussianEvent, PureEvent
from saibot.privacy.mechanisms.registry import MECHANISMS, Layout, mechanism_named
from saibot.privacy.neighbours import Neighbours

Scope = Literal["key", "global"]
Noise = Literal["gaussian", "laplace"]
CALIBRATIONS = {"analytic": "analytically", "classical": "by the classical bound"}


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Everything a plan depends on. All of it is public: a plan for a table is the same plan for its neighbours."""

    mechanism: str
    layout: str
    features: int
    bound_squared: Decimal
    order: int
    budget: Budget
    neighbours: Neighbours
    row_count_public: bool
    calibration: str | None = None  # None: the mechanism's own default
    allocation: str | None = None
    levels: int = 1
    rows_per_individual: int = 1
    rows: int | None = None  # public row count, where a sensitivity uses it
    keys: tuple[int, ...] = ()  # public sizes of the key levels, finest first: read by `auto` only
    share: Decimal = Decimal(1)  # of mu^2 (or of epsilon): the rest pays for a bought principal component
    extra_touched: int = 0  # coordinates of that purchase, for the integer lemma

    def __post_init__(self) -> None:
        mechanism = mechanism_named(self.mechanism)
        layout = mechanism.layout(self.layout)
        if self.features < 1:
            raise UnsupportedPlan(f"a sketch needs at least one feature, not {self.features}.")
        if not self.bound_squared.is_finite() or self.bound_squared <= 0:
            raise UnsupportedPlan("the norm bound must be greater than 0.")
        if abs(self.bound_squared.adjusted()) > 30:
            raise UnsupportedPlan("the norm bound must lie between 1e-15 and 1e15.")
        if not 1 <= self.order <= 6:
            raise UnsupportedPlan(f"the order must be between 1 and 6, not {self.order}.")
        if layout.only_order not in (None, self.order):
            raise UnsupportedPlan(f"layout {layout.name} is for linear regression: its order is {layout.only_order}.")
        if not 1 <= self.levels <= 8 or (self.levels > 1 and not layout.levels):
            raise UnsupportedPlan("several key levels (at most 8) go with layout lookup.")
        if self.rows_per_individual < 1:
            raise UnsupportedPlan(f"an individual owns at least one row, not {self.rows_per_individual}.")
        if self.row_count_public and (self.neighbours is Neighbours.ADD_REMOVE or self.rows_per_individual > 1):
            raise UnsupportedPlan("the row count is public under replace-one with one row per individual only.")
        if self.calibration not in (None, *CALIBRATIONS):
            raise UnsupportedPlan(f"calibration is one of {', '.join(CALIBRATIONS)}.")
        if self.calibration not in (None, *mechanism.calibrations):
            others = [one.name for one in MECHANISMS.values() if self.calibration in one.calibrations]
            own = " or ".join(CALIBRATIONS[one] for one in mechanism.calibrations)
            raise UnsupportedPlan(
                f"{self.mechanism} is calibrated {own}; {self.calibration} goes with {' and '.join(others)}."
            )
        if self.allocation is not None and not mechanism.allocations:
            others = [one.name for one in MECHANISMS.values() if one.allocations]
            raise UnsupportedPlan(f"--allocation goes with the mechanism {' or '.join(others)}.")
        if self.allocation not in (None, *mechanism.allocations):
            raise UnsupportedPlan(f"allocation is one of {', '.join(mechanism.allocations)}.")
        mechanism.check(self)
        if not 0 < self.share <= 1 or self.extra_touched < 0:
            raise UnsupportedPlan("a release's share of the budget must be in (0, 1].")
        if self.rows is not None and self.rows < 1:
            raise UnsupportedPlan("the number of rows must be at least 1.")
        if self.keys and (len(self.keys) != self.levels or min(self.keys) < 1):
            raise UnsupportedPlan("give the number of keys of every level, finest first.")

    @property
    def bound(self) -> float:
        return math.sqrt(self.bound_squared)

    @property
    def layout_facts(self) -> Layout:
        return mechanism_named(self.mechanism).layout(self.layout)

    @property
    def keyed(self) -> bool:
        return self.layout_facts.keyed

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "layout": self.layout,
            "features": self.features,
            "bound_squared": plain(self.bound_squared),
            "order": self.order,
            "budget": self.budget.to_json(),
            "neighbours": str(self.neighbours),
            "row_count_public": self.row_count_public,
            "calibration": self.calibration,
            "allocation": self.allocation,
            "levels": self.levels,
            "rows_per_individual": self.rows_per_individual,
            "rows": self.rows,
            "keys": list(self.keys),
            "share": plain(self.share),
            "extra_touched": self.extra_touched,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> PlanRequest:
        fields = dict(document)
        budget = fields.pop("budget")
        return cls(
            bound_squared=exact_decimal(fields.pop("bound_squared"), name="bound_squared"),
            budget=Budget(budget["epsilon"], budget["delta"]),
            neighbours=Neighbours(fields.pop("neighbours")),
            keys=tuple(fields.pop("keys")),
            share=exact_decimal(fields.pop("share"), name="share"),
            **fields,
        )


@dataclass(frozen=True, slots=True)
class Block:
    """All statistics of one order at one place: per key of a level, or over the whole table.

    `sigma` is the standard deviation of the noise. In a `weighted` block a monomial of multinomial weight M has noise
    sigma/sqrt(M): the joint sensitivity allows for it, so it is free. A `centred` block holds the scatter around the mean.
    """

    scope: Scope
    level: int
    order: int
    sensitivity: float
    sigma: float
    weighted: bool = False
    centred: bool = False

    def noise_of(self, multiplicity: int) -> float:
        """Standard deviation of the noise of a monomial with this multinomial weight."""
        return self.sigma / math.sqrt(multiplicity) if self.weighted else self.sigma

    def entries(self, features: int) -> int:
        return math.comb(features + self.order - 1, self.order)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "scope": self.scope,
            "level": self.level,
            "order": self.order,
            "sensitivity": self.sensitivity,
            "sigma": self.sigma,
        }
        if self.order == 2:
            document["sigma_offdiagonal"] = self.noise_of(2)
        if self.weighted:
            document["weighted"] = True
        if self.centred:
            document["centred"] = True
        return document


@dataclass(frozen=True, slots=True)
class Plan:
    """A request with its answer: the blocks and their noise. `make_plan(plan.request) == plan`, so anyone can check it."""

    request: PlanRequest
    noise: Noise
    calibration: str
    blocks: tuple[Block, ...]
    mu: float | None  # joint l2 sensitivity in noise units; None for Laplace
    touched: int

    @property
    def events(self) -> tuple[Event, ...]:
        if self.mu is None:
            return (PureEvent(self.request.budget.share(self.request.share).epsilon),)
        # The other release of the share charges its own coordinates: together they come to what both were planned for.
        return (GaussianEvent(self.mu, self.touched - self.request.extra_touched, STEPS_PER_SIGMA),)

    def block(self, scope: Scope, order: int, level: int = 0) -> Block | None:
        return next((b for b in self.blocks if (b.scope, b.order, b.level) == (scope, order, level)), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "mu": self.mu,
            "noise": self.noise,
            "calibration": self.calibration,
            "touched": self.touched,
            "blocks": [block.to_json() for block in self.blocks],
            "request": self.request.to_json(),
        }


def same_plan(one: Plan, other: Plan, *, tolerance: float = 1e-6) -> bool:
    """Whether two plans promise the same; noise may differ by the rounding of another machine's libraries."""
    if (one.request, one.noise, one.calibration, one.touched) != (
        other.request,
        other.noise,
        other.calibration,
        other.touched,
    ):
        return False
    if len(one.blocks) != len(other.blocks):
        return False
    close = all(
        (a.scope, a.level, a.order, a.weighted, a.centred) == (b.scope, b.level, b.order, b.weighted, b.centred)
        and math.isclose(a.sigma, b.sigma, rel_tol=tolerance)
        and math.isclose(a.sensitivity, b.sensitivity, rel_tol=tolerance)
        for a, b in zip(one.blocks, other.blocks, strict=True)
    )
    return close and math.isclose(one.mu or 0.0, other.mu or 0.0, rel_tol=tolerance)


def touched_coordinates(blocks: tuple[Block, ...], request: PlanRequest) -> int:
    """How many released numbers one individual can move: two keys' worth of every level, and the global blocks."""
    each = sum(b.entries(request.features) * (2 if b.scope == "key" else 1) for b in blocks)
    return each * request.rows_per_individual + request.extra_touched


def worst_of(request: PlanRequest, *, replace_one: float, add_remove: float) -> float:
    """The sensitivity of the request's relation, for all rows of an individual.

    An individual with up to r rows is replaced row by row, and rows without a counterpart are added or removed.
    """
    match request.neighbours:
        case Neighbours.ADD_REMOVE:
            each = add_remove
        case Neighbours.REPLACE_ONE:
            each = replace_one if request.row_count_public else max(replace_one, add_remove)
    return request.rows_per_individual * each


def count_released(request: PlanRequest) -> int:
    """The lowest order of a union release: the count itself where it is not public."""
    return 1 if request.row_count_public else 0


def with_sigmas(blocks: tuple[Block, ...], sigmas: list[float]) -> tuple[Block, ...]:
    return tuple(replace(block, sigma=sigma) for block, sigma in zip(blocks, sigmas, strict=True))
