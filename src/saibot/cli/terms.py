"""The terms of a release as options: budget, mechanism and noise, the same for every command that plans or makes one.

    @with_terms
    def plan(*, terms: ReleaseTerms, json: JsonOption = False) -> None: ...

has the options of `ReleaseTerms` where `terms` stands, and gets them as one value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import wraps
from typing import TYPE_CHECKING, Any

from saibot.cli import options

if TYPE_CHECKING:
    from saibot.privacy import Budget
    from saibot.privacy.mechanisms import PlanRequest


@dataclass(frozen=True)
class ReleaseTerms:
    """What was asked for, as it was written; what it means is checked where it is read."""

    epsilon: options.Epsilon = "1"
    delta: options.Delta = "1e-6"
    mechanism: options.Mechanism = "joint"
    layout: options.Layout = None
    order: options.Order = 2
    bound: options.Bound = None
    neighbours: options.NeighboursOption = None
    calibration: options.Calibration = None
    allocation: options.Allocation = None

    @property
    def budget(self) -> Budget:
        return options.budget(self.epsilon, self.delta)

    @property
    def of_release(self) -> dict[str, Any]:
        """Mechanism and noise, as a `ReleaseRequest` calls them."""
        return {
            "mechanism": self.mechanism,
            "layout": self.layout,
            "order": self.order,
            "bound": options.bound(self.bound),
            "calibration": self.calibration,
            "allocation": self.allocation,
        }

    def plan_request(
        self,
        *,
        features: int,
        keyed: bool,
        levels: int,
        keys: tuple[int, ...],
        rows: int | None,
        rows_per_individual: int,
    ) -> PlanRequest:
        """What to plan where there is no card: the mechanism's own layout, and a ball that the box fits in.

        `keys` are the public numbers of keys of each level, finest first; each level has a catch-all besides them.
        """
        from saibot.privacy.mechanisms import LAYOUTS, PlanRequest
        from saibot.privacy.mechanisms.plan import check_layout
        from saibot.privacy.neighbours import Neighbours

        if self.mechanism not in LAYOUTS:
            check_layout(self.mechanism, "")
        relation = options.neighbours(self.neighbours)
        radius = options.bound(self.bound)
        layout = self.layout or (LAYOUTS[self.mechanism][0] if keyed else "union")
        return PlanRequest(
            mechanism=self.mechanism,
            layout=layout,
            features=features,
            bound_squared=radius * radius if radius is not None else Decimal(max(features, 1)),
            order=self.order,
            budget=self.budget,
            neighbours=relation,
            row_count_public=relation is Neighbours.REPLACE_ONE and rows_per_individual == 1,
            calibration=self.calibration,
            allocation=self.allocation,
            levels=levels,
            rows_per_individual=rows_per_individual,
            rows=rows,
            keys=tuple(size + 1 for size in keys) if layout == "lookup" else (),
        )


def with_terms(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `terms` is spread over the options of `ReleaseTerms`, for Typer to read."""
    single = inspect.signature(command, eval_str=True)
    asked = inspect.signature(ReleaseTerms, eval_str=True).parameters
    spread: list[inspect.Parameter] = []
    for parameter in single.parameters.values():
        spread += [one.replace(kind=parameter.kind) for one in asked.values()] if parameter.name == "terms" else [parameter]

    @wraps(command)
    def with_options(**given: Any) -> None:
        command(terms=ReleaseTerms(**{name: given.pop(name) for name in asked}), **given)

    del with_options.__wrapped__  # or its signature would be read instead
    with_options.__signature__ = single.replace(parameters=spread)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in spread}
    return with_options
