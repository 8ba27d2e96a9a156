"""What may leave this machine: sketches that are private. Checked here, before the first byte is sent.

A platform refuses the others, too, but only after it has read them.
"""

from __future__ import annotations

from saibot.errors import InvalidSketch
from saibot.sketch import Sketch


def why_not_private(sketch: Sketch) -> str | None:
    """Why a sketch protects nobody, as the end of a sentence about it; None where its header claims that it does."""
    if _simulated(sketch):
        return "its noise is simulated, so it protects nobody."
    if sketch.header.preparation.kind == "nonprivate":
        return "its preparation read the rows without paying, so it is not private."
    if sketch.header.preparation.kind == "tuned":
        return "its card was changed after its rows were looked at, so it is not private."
    return None


def check_may_leave(sketch: Sketch) -> None:
    """Refuse a sketch that is not private. Every way to a platform begins with this, also that of its key domains."""
    reason = why_not_private(sketch)
    if reason is None:
        return
    raise InvalidSketch(
        f"the sketch of {sketch.header.dataset.name!r} stays here: {reason} Nothing was sent.",
        hint="`saibot privatize` draws real noise; simulated noise is for experiments."
        if _simulated(sketch)
        else "Release the card that was looked at, or buy what was changed: bounds, or the coverage of the key."
        if sketch.header.preparation.kind == "tuned"
        else "Give bounds in the card, or buy them with a share of the budget, instead of `--prepare paper`.",
    )


def _simulated(sketch: Sketch) -> bool:
    """Its header says so in two places. A file in which they differ cannot be read; what was never in a file may be so."""
    return sketch.header.simulation or sketch.header.assumptions.noise == "simulated"
