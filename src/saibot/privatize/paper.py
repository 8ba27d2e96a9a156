"""The paper's own preparation, for comparison with it. It reads the rows without paying: NOT private, and marked so.

Rows beyond 1.5 standard deviations of any feature are dropped, the rest is reduced to its first principal component, and
that is scaled by its largest absolute value. Each of these steps tells something about the rows.
"""

from __future__ import annotations

from dataclasses import replace

import ibis
import ibis.expr.types as ir
import numpy as np
from pydantic import ValidationError

from saibot.errors import InvalidCard, InvalidInput, InvalidTable
from saibot.privatize.aggregate import Rows
from saibot.privatize.cells import number_in
from saibot.privatize.schema import Column, numeric_feature, twelve_digits
from saibot.sketch.header import Feature

SPREAD = 1.5
STEPS = (
    f"rows beyond {SPREAD} standard deviations dropped (read from the rows)",
    "first principal component (read from the rows)",
    "scaled by the largest absolute value (read from the rows)",
)


def prepare_as_in_paper(rows: Rows) -> Rows:
    """Rows with bounds, component and filter taken from the data."""
    if any(column.facts.levels is not None for column in rows.columns):
        raise InvalidInput("the paper's preparation is for numeric features.", hint="Choose them with --feature.")
    table = rows.source.table
    cells = {column.name: number_in(table[column.column]) for column in rows.columns}
    moments: dict[str, ir.Scalar] = {}
    for number, cell in enumerate(cells.values()):
        clean = cell.nullif(ibis.literal(float("nan"), "float64"))
        moments |= {f"a{number}": clean.mean(), f"s{number}": clean.std(how="pop")}
    found = rows.source.fetch(table.aggregate(**moments)).to_pylist()[0]
    columns, keep = [], ibis.literal(True)
    for number, column in enumerate(rows.columns):
        centre, spread = twelve_digits(found[f"a{number}"] or 0.0), twelve_digits(SPREAD * (found[f"s{number}"] or 1.0))
        try:
            feature = numeric_feature(
                column.name, column.facts.model_copy(update={"missing": None}), centre - spread, centre + spread
            )
        except (InvalidCard, ValidationError):  # not a number, or not a pair of bounds
            raise InvalidTable(
                f"the mean and spread of feature {column.name!r} are too large, or too far apart, for bounds.",
                hint="The paper's preparation reads them from the rows: leave infinite cells out, or shift the column.",
            ) from None
        columns.append(replace(column, feature=feature))
        cell = cells[column.name]
        keep = keep & (cell.isnull() | cell.isnan() | ((cell >= feature.lower) & (cell <= feature.upper)))
    kept = replace(rows, source=replace(rows.source, table=table.filter(keep)), columns=columns)
    return replace(kept, components=(_component(kept),)) if len(columns) > 1 else kept


def _component(rows: Rows) -> Feature:
    scaled = np.column_stack([_scaled(rows, column) for column in rows.columns])
    if not len(scaled):
        raise InvalidTable("the table has no rows.", hint="The paper's preparation reads its numbers from them.")
    _, vectors = np.linalg.eigh(np.cov(scaled.T, bias=True))
    direction = vectors[:, -1]
    largest = twelve_digits(np.abs(scaled @ direction).max()) or 1.0
    weights = {column.name: twelve_digits(weight) for column, weight in zip(rows.columns, direction, strict=True)}
    return Feature(name="component", kind="component", lower=-largest, upper=largest, weights=weights)


def _scaled(rows: Rows, column: Column) -> np.ndarray:
    feature = column.feature
    assert feature is not None and feature.missing is not None
    values = rows.source.fetch(rows.source.table.select(x=number_in(rows.source.table[column.column]))).column("x")
    numbers = values.to_numpy().astype(float)
    return (np.where(np.isnan(numbers), feature.missing, numbers) - feature.offset) / feature.scale
