"""What the provider of a table publishes, and what a requester sends: cards as they would write them, and releases by them.

How a table is prepared. `paper`: its principal component, centre and spread read from the rows without paying, as in the
paper; not private. The other two read nothing unpaid:

* `public`: ranges that a data dictionary states, or anyone would guess. None came with the tables, so a column's range to
  one digit of its width (300..700, 60..100, 0..5) stands in for what its owner would write down without looking.
* `bought`: nothing is known, and the quartiles of the columns that are used are bought, as `privatize` does, for what one
  costs at a fifth of epsilon. Where rows are too few for that, `privatize` refuses and asks for public bounds: such a column
  has its range. Every column costs, so fewer are used.

In both, several columns become one component, whose direction, centre and spread are bought for a fifth of mu^2 of the rest.
Which columns, and how many, is decided by public facts alone: names that speak of a result come first (means, scores,
percentages, rates), and the number of rows says how many second moments can be told from noise.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from research.real.world import World
from research.releases import Release
from research.searching import dataset_name
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.privatize.bounds import ENOUGH, QUARTILES

Preparation = Literal["paper", "public", "bought"]
BOUNDS_SHARE, COMPONENT_SHARE = 0.2, "0.2"  # of epsilon, and of mu^2 of the rest
ROWS_PER_COLUMN = {"public": 1500, "bought": 6000}  # at epsilon 1
LEAST_COLUMNS = {"public": 2, "bought": 1}
# A provider's bounds, in standard deviations: narrow, because where noise dominates a little bias is the better bargain.
VALUE_WIDTH = 0.7
# A request's: its target at one, its own feature at a scale where what it adds to the squared norm is a ninth.
TARGET_WIDTH, OWN_WIDTH = 1.0, 4.5
REQUEST_BOUND_SQUARED = Decimal("1.12")
# The quantiles of a normal law at one standard deviation, for a target.
MIDDLE = (0.16, 0.84)
X, Y = "x", "y"


def provider_release(world: World, number: int, preparation: Preparation, budget: Budget, *, levels: bool = True) -> Release:
    """One candidate of a task, ready to be published as often as noise is drawn."""
    if preparation == "paper":
        values, facts = world.features[number].clipped(VALUE_WIDTH)[:, None], {"z": {"bounds": (-1.0, 1.0)}}
        card = _card(dataset_name(number), facts)
    else:
        columns = world.columns[number]
        enough = int(len(columns) * float(budget.epsilon) / ROWS_PER_COLUMN[preparation])
        used = min(max(enough, LEAST_COLUMNS[preparation]), columns.shape[1])
        values = columns[:, :used]
        facts = {f"c{i}": {"bounds": _bounds(values[:, i], preparation, used, QUARTILES, budget)} for i in range(used)}
        component = {"of": tuple(facts), "buy": COMPONENT_SHARE, "spread": VALUE_WIDTH} if used > 1 else None
        card = _card(dataset_name(number), facts, component)
    return Release(
        card,
        values,
        world.places[number],
        world.domain if levels else world.domain.with_levels(()),
        budget,
        allocation="values",
        nonprivate=preparation == "paper",
    )


def request_release(world: World, rows: np.ndarray, preparation: Preparation, budget: Budget) -> Release:
    """The training part of a task's request, `rows` a mask. A request spends nothing on coarser key levels."""
    values, squared = np.column_stack([world.x, world.y])[rows], REQUEST_BOUND_SQUARED
    if preparation == "paper":
        facts: dict[str, Any] = {X: {"bounds": (-OWN_WIDTH, OWN_WIDTH)}, Y: {"bounds": (-TARGET_WIDTH, TARGET_WIDTH)}}
    else:
        values = world.raw[rows]
        facts = {
            X: {"bounds": _bounds(values[:, 0], preparation, 2, (0.05, 0.95), budget)},
            Y: {"bounds": _bounds(values[:, 1], preparation, 2, MIDDLE, budget)},
        }
        if preparation == "public":
            low, high = facts[X]["bounds"]
            facts[X]["bounds"] = (2 * low - high, 2 * high - low)  # three times as wide: a third of the box
        else:
            squared = Decimal(2)  # bought bounds fill the box
    return Release(
        _card("request", facts),
        values,
        world.place[rows],
        world.domain.with_levels(()),
        budget,
        bound_squared=squared,
        nonprivate=preparation == "paper",
    )


def _card(name: str, features: dict[str, Any], component: dict[str, Any] | None = None) -> Card:
    return Card.parse({"dataset": {"name": name}, "features": features} | ({"component": component} if component else {}))


def _bounds(
    column: np.ndarray, preparation: Preparation, columns: int, quantiles: tuple[float, float], budget: Budget
) -> Any:
    share = BOUNDS_SHARE / math.sqrt(columns)  # mu^2 adds up, so that all of them cost the same
    if preparation == "public" or len(column) * share * float(budget.epsilon) < ENOUGH:
        return documented_range(column)
    return {"buy": f"{share:.4f}", "quantiles": quantiles}


def documented_range(column: np.ndarray) -> tuple[float, float]:
    """The range of a column to one digit of its width: 300..700, 60..100, 0..5."""
    present = column[~np.isnan(column)]
    low, high = float(present.min(initial=np.inf)), float(present.max(initial=-np.inf))
    if not high > low:
        return (low - 1, low + 1) if math.isfinite(low) else (-1.0, 1.0)
    step = 10.0 ** math.floor(math.log10(high - low))
    return math.floor(low / step) * step, math.ceil(high / step) * step
