"""The public limits of a sketch: how much it may hold, and how large its numbers may be.

A sketch may come from anybody. Sizes are checked before anything is built of them, numbers before anything is computed with
them. No honest sketch meets these limits: a released number is a sum over rows within their bounds, plus noise of a known
scale, and the release itself is made of whole numbers of 63 bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from saibot.errors import InvalidSketch
from saibot.privacy.budget import exact_decimal

if TYPE_CHECKING:
    from saibot.privacy.mechanisms.plan import Block
    from saibot.sketch.header import Header
    from saibot.sketch.sketch import Sketch

MAX_HEADER_BYTES = 1 << 24
MAX_COLUMNS = 10_000
MAX_FEATURES = 1000
MAX_KEY_PARTS = 16
MAX_LEVELS = 32
MAX_STEPS = 200  # of a preparation
MAX_ORDER = 8
MAX_GLOBAL_ENTRIES = 600_000  # of all global blocks: the products of 1,000 features are 500,500
MAX_JSON_ENTRIES = MAX_GLOBAL_ENTRIES + 50_000
MAX_JSON_OBJECTS = 20_000
MOST_ROWS = 2**50  # a count of more rows has no room on the grid, whatever its step
MOST_BOUND_SQUARED = 2**20  # of rows whose features lie in [-1, 1]: far more than there may be features
LEAST_BOUND_SQUARED = 1e-12
MOST_NOISE = 2.0**62  # noise is drawn in whole numbers of 63 bits
DEVIATIONS = 64  # of its noise that a released number can be off: the probability of one more is below 1e-39


def check_text(text: bytes) -> None:
    """Raise where a header's JSON would take far more memory than its own size. Nothing is parsed."""
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidSketch("the sketch's header is too large.")
    if text.count(b",") > MAX_JSON_ENTRIES or text.count(b"{") + text.count(b"[") > MAX_JSON_OBJECTS:
        raise InvalidSketch("the sketch's header has too many entries.")


def check_sizes(header: Header) -> None:
    """Raise where what the header announces would take more memory or time than sketches do. Nothing is built."""
    request = header.plan.get("request", {}) if not header.open else {}
    blocks = header.plan.get("blocks", []) if not header.open else []
    if not isinstance(request, dict) or not isinstance(blocks, list):
        raise InvalidSketch("the sketch's plan cannot be read.")
    orders = [request.get("order", 2), *(block.get("order", 0) for block in blocks if isinstance(block, dict))]
    if not all(isinstance(order, int) and 0 <= order <= MAX_ORDER for order in orders):
        raise InvalidSketch(f"the sketch has products of more than {MAX_ORDER} features.")
    levels = request.get("levels", 1)
    if not isinstance(levels, int) or not 0 <= levels <= 1 + MAX_LEVELS or len(blocks) > (MAX_ORDER + 1) * (2 + MAX_LEVELS):
        raise InvalidSketch(f"the sketch has more than {MAX_LEVELS} coarser key levels.")
    m = len(header.features)
    announced = max((math.comb(m + order, order) for order in orders), default=1)
    if announced > (MAX_COLUMNS if header.key and not header.global_blocks else MAX_GLOBAL_ENTRIES):
        raise InvalidSketch(f"the sketch would have {announced:,} statistics, more than sketches may have.")
    bound = float(exact_decimal(header.bound_squared, name="bound_squared"))
    if not LEAST_BOUND_SQUARED <= bound <= MOST_BOUND_SQUARED:
        raise InvalidSketch("the sketch's norm bound is not one of rows whose features lie in [-1, 1].")
    if header.rows is not None and header.rows > MOST_ROWS:
        raise InvalidSketch("the sketch claims more rows than can be counted.")


def check_numbers(sketch: Sketch) -> None:
    """Raise where a released number is not one that rows within their bounds and the stated noise can give."""
    for block in sketch.blocks:
        if not 0 <= (sketch.sigma(block.scope, block.order, level=block.level) or 0.0) <= MOST_NOISE:
            raise InvalidSketch("the sketch's noise is larger than noise can be drawn.")
        if block.scope == "global":
            values = sketch.whole(block.order)
        elif block.level < len(sketch.levels):
            values = sketch.levels[block.level].values[:, sketch.key_basis.slice(block.order)]
        else:
            continue
        if values is not None and values.size and max(-float(values.min()), float(values.max())) > largest_in(sketch, block):
            raise InvalidSketch("the sketch holds a number that no rows within its bounds can give, whatever the noise.")


def largest_in(sketch: Sketch, block: Block) -> float:
    """The largest number that a block can hold: all rows at their bound, and noise on top of it."""
    header = sketch.header
    # Where the row count is not public: as many rows as the grid has room for.
    highest = max((one.order for one in sketch.blocks), default=1)
    rows = header.rows if header.rows is not None else 2 ** (52 - max(highest, 1) * header.grid_bits)
    bound = math.sqrt(float(exact_decimal(header.bound_squared, name="bound_squared")))
    noise = sketch.sigma(block.scope, block.order, level=block.level) or 0.0
    return rows * bound**block.order * (1 + 1e-6) + DEVIATIONS * noise + 1e-6
