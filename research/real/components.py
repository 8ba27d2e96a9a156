"""A table becomes one bounded feature, as in the paper: standardise, clip, first principal component, clip again.

NOT private: centre, spread and direction are read from the rows without paying. It is the paper's setting, and the measure
for `publishing`, where all of them are public or paid for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

SPREAD = 1.5  # standard deviations: where the paper cuts
MOST_COLUMNS = 60
LEAST_PRESENT = 0.3  # of a column's cells
LEAST_ROWS = 10
# Numbers that name something instead of measuring it.
_NAMES = re.compile(r"(?i)(year|district|beds.*|state|statefips|cz|stfips|cntyfips|county)")

# What speaks of a result; a component that is paid for is made of few columns, and these come first.
_RESULTS = re.compile(r"(?i)mean|average|avg|score|percent|%|pct|rate|proficien|grad|index|per ")
PREFERRED = 4


@dataclass(frozen=True)
class Component:
    """One number per row, in standard deviations around its mean, within 1.5 of them."""

    values: np.ndarray
    columns: tuple[str, ...]

    def clipped(self, width: float) -> np.ndarray:
        """In [-1, 1], the bounds `width` standard deviations from the mean: narrow ones trade bias for noise."""
        return np.clip(self.values / width, -1.0, 1.0)


def measurements(table: pd.DataFrame) -> pd.DataFrame:
    """The numeric columns that measure something and vary, at most 60 of them."""
    numeric = table.select_dtypes("number")
    numeric = numeric[[name for name in numeric.columns if not _NAMES.fullmatch(str(name))]].astype(float)
    filled = numeric.columns[numeric.notna().mean() > LEAST_PRESENT]
    varying = [name for name in filled if np.nanstd(numeric[name].to_numpy()) > 0]
    return numeric[varying[:MOST_COLUMNS]]


def component(values: np.ndarray, columns: tuple[str, ...] = ()) -> Component:
    """The first principal component of (n, m) values; missing ones take their column's mean."""
    scaled = standardised(values)
    scaled -= scaled.mean(axis=0)
    _, vectors = np.linalg.eigh(scaled.T @ scaled)
    direction = vectors[:, -1]
    direction = direction if direction[np.abs(direction).argmax()] > 0 else -direction
    return Component(standardised((scaled @ direction)[:, None])[:, 0], columns)


def standardised(values: np.ndarray) -> np.ndarray:
    """Columns in standard deviations around their means, cut at 1.5."""
    mean, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    centred = np.where(np.isnan(values), 0.0, values - mean)
    return np.clip(centred / np.where(spread > 0, spread, 1.0), -SPREAD, SPREAD)


def preferred_columns(names: tuple[str, ...]) -> list[int]:
    """Places of the columns that a component may be made of, the best first: public, because names are."""
    return sorted(range(len(names)), key=lambda place: (_RESULTS.search(names[place]) is None, place))[:PREFERRED]
