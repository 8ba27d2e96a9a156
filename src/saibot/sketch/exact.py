"""What an open sketch is: the exact statistics of a table that everybody may have. Open and exact, or private and paid for.

Noise that was added to a sketch in spite of what its header says shows in its counts, which are then not whole numbers of
rows, and in sums that differ from level to level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from saibot.errors import InvalidSketch, SaibotError
from saibot.privacy.budget import exact_decimal
from saibot.privacy.mechanisms.plan import Block

if TYPE_CHECKING:
    from saibot.sketch.header import Header
    from saibot.sketch.sketch import LevelTable


def check_open_header(header: Header) -> None:
    """Raise ValueError where an open header claims protection, or a price, or hides something."""
    if not (header.source and header.source.strip()):
        raise ValueError("an open sketch names the public source of its table")
    if header.budget or header.plan or header.account or header.spent:
        raise ValueError("an open sketch protects nobody, so it has no budget, plan or account")
    assumed, prepared = header.assumptions, header.preparation
    if assumed.noise != "none" or header.simulation or header.model != "central":
        raise ValueError("an open sketch is exact: it has no noise")
    if header.rows is None or not assumed.row_count_public or not assumed.bounds_public:
        raise ValueError("an open sketch hides nothing, neither its row count nor its bounds")
    if assumed.rows_per_individual != 1 or prepared.kind != "public" or prepared.steps:
        raise ValueError("an open sketch has no individuals to protect, and nothing that was bought for them")
    try:
        exact_decimal(header.bound_squared, name="bound_squared")
    except SaibotError:
        raise ValueError("the norm bound of an open sketch is no number") from None


def exact_layout(header: Header) -> Literal["lookup", "semiring", "union"]:
    """What an open sketch holds. With a key, products are in it once for the whole table, or else for every key."""
    if header.key is None:
        return "union"
    return "lookup" if header.global_blocks else "semiring"


def exact_blocks(header: Header) -> tuple[Block, ...]:
    """The blocks of an open sketch. None of them has noise."""
    layout = exact_layout(header)
    levels = range(1 + len(header.key.levels)) if header.key else range(0)
    by_key = [Block("key", level, order, 0.0, 0.0) for level in levels for order in range(3 if layout == "semiring" else 2)]
    whole = [Block("global", 0, order, 0.0, 0.0) for order in (1, 2)] if layout != "semiring" else []
    return (*by_key, *whole)


def check_exact(header: Header, levels: Sequence[LevelTable], whole: np.ndarray | None) -> None:
    """Counts of rows are whole, none is negative, and all come to the same, as do sums; `whole` are those of the table."""
    for table in levels:
        counts = table.values[:, 0]
        if (counts < 0).any() or (counts != np.floor(counts)).any() or counts.sum() != header.rows:
            raise InvalidSketch("the sketch is open, but its counts are not those of rows: noise was added to them.")
    sums = [table.values[:, 1 : 1 + len(header.features)].sum(axis=0) for table in levels]
    sums += [] if whole is None else [whole]
    if not all(np.allclose(one, sums[0], rtol=1e-9, atol=1e-6) for one in sums):
        raise InvalidSketch("the sketch is open, but its sums do not add up: noise was added to them.")
