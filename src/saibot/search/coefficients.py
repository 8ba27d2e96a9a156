"""Every coefficient of the model that a search ended with, own features and intercept too, with an interval each.

The intervals are Fieller's, of the model without ridge: of a private request about this very table, whose noise they allow
for; of a local one about keys and rows like these. They hold for a model that was fixed beforehand. A search has chosen its
columns because they look good, so that theirs are a little too narrow; those of own features hardly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from saibot.estimate.intervals import Interval, coefficient_interval, level_interval
from saibot.search.explain import Table
from saibot.search.units import Units
from saibot.wire.result import Pair

INTERCEPT = ""  # what stands for the intercept among the names of columns: no column is called so


def coefficient_intervals(
    table: Table, units: Mapping[str, Units], lookups: Mapping[str, Units], *, confidence: float
) -> dict[str, Pair]:
    """In original units, by column name; what noise leaves open on a side is left out."""
    names = (*table.own, *lookups)
    values = np.column_stack(table.lookups) if table.lookups else None
    asked: dict[str, Any] = {"own": table.own, "target": table.target, "values": values}
    asked |= {"confidence": confidence, "sampling": table.sampling}
    known = {name: units[name] for name in table.own} | dict(lookups)
    target = units[table.target]
    found: dict[str, Pair] = {}
    for index, name in enumerate(names, start=1):
        _keep(found, name, coefficient_interval(table.moments, index=index, **asked), target.scale / known[name].scale, 0.0)
    at = np.array([-known[name].offset / known[name].scale for name in names])
    _keep(found, INTERCEPT, level_interval(table.moments, at=at, **asked), target.scale, target.offset)
    return found


def _keep(found: dict[str, Pair], name: str, interval: Interval, scale: float, offset: float) -> None:
    if math.isfinite(interval.lower) and math.isfinite(interval.upper):
        low, high = sorted((offset + scale * interval.lower, offset + scale * interval.upper))
        found[name] = low, high
