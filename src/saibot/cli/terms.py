"""The terms of a release as options: budget, mechanism and noise, the same for every command that plans or makes one.

    @with_terms
    def plan(*, terms: ReleaseTerms, json: JsonOption = False) -> None: ...

    app.command("plan", cls=TermsCommand)(plan)

has the options of `ReleaseTerms` where `terms` stands, and gets them as one value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import wraps
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

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
        from saibot.privacy.mechanisms import PlanRequest, mechanism_named
        from saibot.privacy.neighbours import Neighbours

        relation = options.neighbours(self.neighbours)
        radius = options.bound(self.bound)
        layout = self.layout or mechanism_named(self.mechanism).default_layout(keyed=keyed).name
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


class TermsCommand(TyperCommand):
    """A command with terms: its help names the mechanisms that are registered, which are not loaded before it is asked."""

    def get_params(self, ctx: Any) -> list[Any]:
        from saibot.privacy.mechanisms import MECHANISMS

        layouts = "; ".join(f"{one.name}: {', '.join(layout.name for layout in one.layouts)}" for one in MECHANISMS.values())
        told = {
            "mechanism": ", ".join(MECHANISMS),
            "layout": f"{layouts}. Default: the mechanism's first with or without a key",
        }
        found: list[Any] = super().get_params(ctx)
        for option in found:
            if option.name in told and told[option.name] not in option.help:
                option.help = f"{option.help} {told[option.name]}."
        return found
