"""What a sketch says at one coarser level of its key, as a sketch by those keys alone."""

from __future__ import annotations

from dataclasses import replace

from saibot.sketch.sketch import Sketch


def at_level(sketch: Sketch, level: int) -> Sketch:
    """Of a sketch that was checked, and only to be read: it has the digest of the whole. Level 0 is that of the key."""
    key = sketch.header.key
    assert key is not None
    header = sketch.header.model_copy(update={"key": key.model_copy(update={"levels": ()})})
    one = Sketch(header, (sketch.levels[level],))
    plan = sketch.plan
    kept = [block for block in plan.blocks if block.scope == "global" or block.level == level] if plan else []
    one.__dict__["plan"] = plan and replace(plan, blocks=tuple(replace(block, level=0) for block in kept))
    return one
