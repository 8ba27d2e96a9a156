"""Which of the requester's columns explain its target when none are named, and how texts become numbers.

Numbers are taken as they are, a category as one column for each of its frequent values. All of it stays on this machine, and
what was taken and what was left out is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saibot.client.tables import numbers
from saibot.errors import InvalidTable

MOST_COLUMNS = 40  # own features that are taken unasked
MOST_MOMENTS = 1 << 25  # numbers that are kept of them, which grow with their square for each key
MOST_LEVELS = 12  # of a category
SAME = 1 - 1e-9  # correlation with the target, from which on a column is the target
CONSTANT = "the same in every row"
LEAST_SHARE = 0.02  # of the rows, for a value of a category to get a column of its own


@dataclass(frozen=True)
class OwnFeature:
    """An own feature: a column of numbers, or one value of a category (1 where a row has it)."""

    name: str
    column: str
    level: str | None = None

    def values(self, rows: pa.Table) -> np.ndarray:
        """NaN where a number is missing."""
        if self.level is None:
            return numbers(rows, self.column)
        hit = pc.equal(rows.column(self.column).cast(pa.string()), self.level)
        values: np.ndarray = pc.fill_null(hit, False).to_numpy().astype(float)
        return values


def features_of(name: str, rows: pa.Table, column: str, levels: Sequence[str] | None = None) -> list[OwnFeature]:
    """A column as features: itself if it holds numbers, or its frequent values. None where it holds neither."""
    kind = rows.column(column).type
    if not is_category(kind):
        return [OwnFeature(name, column)]
    cells = rows.column(column).cast(pa.string())
    counted = sorted(pc.value_counts(cells.drop_null()).to_pylist(), key=lambda one: (-one["counts"], one["values"]))
    frequent = [one for one in counted if one["counts"] >= max(LEAST_SHARE * rows.num_rows, 2)][:MOST_LEVELS]
    known = [one["values"] for one in frequent if levels is None or one["values"] in levels]
    if sum(one["counts"] for one in frequent) == rows.num_rows:
        known = known[1:]  # one of them follows from the others
    return [OwnFeature(f"{name}={level}", column, level) for level in known]


def most_columns(keys: int) -> int:
    """How many own features are taken unasked where so many keys are joined by: one at least."""
    most = MOST_COLUMNS
    while most > 1 and keys * (most + 2) * (most + 3) // 2 > MOST_MOMENTS:
        most -= 1
    return most


def all_usable(
    rows: pa.Table, most: int = MOST_COLUMNS, *, target: np.ndarray | None = None, test: pa.Table | None = None
) -> tuple[list[OwnFeature], str]:
    """Every column that can explain something, `most` features at most, and a sentence that says which they are.

    What is the target in another unit is left out, and what the test table has no such cells of.
    """
    found: list[OwnFeature] = []
    taken: list[str] = []
    reasons: dict[str, list[str]] = {}
    for column in rows.column_names:
        features = _usable(rows, column)
        if not isinstance(features, str) and test is not None:
            there = _usable(test, column)
            if isinstance(there, str) and there != CONSTANT:
                features = f"{there}, in the test table"
        if not isinstance(features, str) and target is not None and _is_target(rows, features, target):
            features = "the target in other words"
        if isinstance(features, str):
            reasons.setdefault(features, []).append(column)
        elif len(found) + len(features) > most:
            reasons.setdefault(f"beyond {most} columns", []).append(column)
        else:
            found += features
            taken.append(column)
    told = f"own features, since none were named: {', '.join(taken)}" if taken else "no column of yours explains the target"
    left = [f"{', '.join(columns)} ({reason})" for reason, columns in reasons.items()]
    return found, told + (f"; left out: {'; '.join(left)}" if left else "")


def _is_target(rows: pa.Table, features: Sequence[OwnFeature], target: np.ndarray) -> bool:
    if len(features) != 1 or features[0].level is not None or len(target) < 3:
        return False
    cells = features[0].values(rows)
    there = ~np.isnan(cells)
    if there.sum() < 3 or np.ptp(cells[there]) == 0 or np.ptp(target[there]) == 0:
        return False
    return bool(abs(np.corrcoef(cells[there], target[there])[0, 1]) > SAME)


def is_category(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return text or (pa.types.is_dictionary(kind) and is_category(kind.value_type))


def _usable(rows: pa.Table, column: str) -> list[OwnFeature] | str:
    """The features that a column gives, or why it gives none."""
    kind = rows.column(column).type
    if is_category(kind):
        if pc.count_distinct(rows.column(column).cast(pa.string())).as_py() < 2:
            return CONSTANT
        return features_of(column, rows, column) or "no value of it is frequent"
    try:
        cells = numbers(rows, column)
    except InvalidTable:
        return "no number and no category"
    there = cells[~np.isnan(cells)]
    if not len(there):
        return "no cell of it is filled"
    if there.min() == there.max():
        return CONSTANT
    return [OwnFeature(column, column)] if np.abs(there).max() <= 1e100 else "its numbers are too large"
